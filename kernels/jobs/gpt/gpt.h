/* The job `gpt`: trains a language model of GPT-2's kind (kernels/model/gpt/gpt.h) on text or token shards.
 * core/godwit.h says what the table's functions mean. */
#ifndef GODWIT_KERNELS_JOBS_GPT_GPT_H
#define GODWIT_KERNELS_JOBS_GPT_GPT_H

#include "core/godwit.h"
#include "kernels/model/gpt/gpt.h"

extern const gw_job_type gw_job_gpt;

/* Weights in memory, to begin with. */
typedef struct gw_gpt_weights {
    gw_gpt gpt;                     /* whose they are */
    const float *const *parameters; /* by number; must stay until the job is closed */
} gw_gpt_weights;

/* What can be told of the options without a look at any file. Fails with GW_E_USAGE. */
bool gw_gpt_job_check(const gw_params *params, gw_err *err);

/* gw_job_gpt.open. Where `first` is not NULL, those are the weights that --init names, which is not read: the
 * job is the one that would begin with the file that gw_gpt_file_write makes of them. */
bool gw_gpt_job_open(const gw_params *params, const gw_gpt_weights *first, void **job, gw_err *err);

#endif
