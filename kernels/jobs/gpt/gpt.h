/* The job `gpt`: trains a language model of GPT-2's architecture (kernels/model/gpt/gpt.h) on text or token
 * shards. core/godwit.h documents the functions of the table. */
#ifndef GODWIT_KERNELS_JOBS_GPT_GPT_H
#define GODWIT_KERNELS_JOBS_GPT_GPT_H

#include "core/godwit.h"
#include "kernels/model/gpt/gpt.h"

extern const gw_job_type gw_job_gpt;

/* First weights in memory. */
typedef struct gw_gpt_weights {
    gw_gpt gpt;                     /* shape of their model */
    const float *const *parameters; /* by number; must stay valid until the job is closed */
} gw_gpt_weights;

/* Checks what can be decided from the options without reading a file. Fails with GW_E_USAGE. */
bool gw_gpt_job_check(const gw_params *params, gw_err *err);

/* Finds out how many updates a training has made after so many steps, some of which are evaluations, by the
 * parameters of its manifest. Returns false where they do not tell. */
bool gw_gpt_job_updates(const gw_param *params, uint32_t count, uint64_t step, uint64_t *updates);

/* Opens the job as gw_job_type.open does. Where `first` is not NULL, it replaces the weights that --init
 * names, and that file is not read: the job equals the one that starts from the file of these weights that
 * gw_gpt_file_from_memory makes. */
bool gw_gpt_job_open(const gw_params *params, const gw_gpt_weights *first, void **job, gw_err *err);

#endif
