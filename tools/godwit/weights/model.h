/* The language model in the checkpoints of a job gpt. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_MODEL_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_MODEL_H

#include "core/base/id.h"
#include "kernels/model/gpt/gpt.h"

typedef struct gw_model {
    gw_gpt gpt;
    double dropout; /* that it was trained with */
    uint64_t step;
    gw_hash job_id;
    float *parameters[GW_GPT_PARAMETERS];
    void *memory; /* what they all point into */
    size_t bytes;
} gw_model;

#define GW_MODEL_NEWEST UINT64_MAX

/* The choice of a checkpoint. */
typedef struct gw_model_choice {
    const char *job; /* how the id of its job begins (gw_model_is_job); NULL: any */
    uint64_t step;   /* the step; GW_MODEL_NEWEST = the newest whole checkpoint */
} gw_model_choice;

enum { GW_MODEL_JOB_TEXT = 9 };

/* Reads a checkpoint of a job gpt from these state directories; each peer's holds a part of it, so all that
 * are needed must be given. Where several jobs have left some there, it is of the one that was saved last by
 * the wall clock, and stderr says so; what is damaged or lacks chunks is passed over for an older one of the
 * same job, and stderr says that, in lines that begin with `program`. With NULL, for who must read the same
 * as others do, it is the newest or none, and GW_E_USAGE where the choice leaves several jobs, as it is where
 * the choice's id does. Changes nothing on disk and needs no lock: where a run goes on and deletes what is
 * being read, it is looked again, some times, but not with NULL, as the others may have read it. Fails with
 * GW_E_NOTFOUND when there is no such checkpoint, or a chunk is in none of them, and GW_E_CORRUPT when one is
 * damaged: the last that was tried. Blocks. */
bool gw_model_load(char *const *dirs, uint32_t dir_count, const gw_model_choice *choice, const char *program,
                   gw_model *model, gw_err *err);
void gw_model_free(gw_model *model);

/* The first 8 hex digits of a job's id, as `godwit run` shows it. Returns `text`. */
const char *gw_model_job_short(const gw_hash *id, char text[GW_MODEL_JOB_TEXT]);
/* Whether an id could begin so: up to 64 hex digits, at least one. */
bool gw_model_is_job(const char *text);

#endif
