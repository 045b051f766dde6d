/* The language model in a checkpoint of the job gpt. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_MODEL_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_MODEL_H

#include "core/base/id.h"
#include "kernels/model/gpt/gpt.h"

typedef struct gw_model {
    gw_gpt gpt;
    double dropout; /* the dropout that it was trained with */
    uint64_t step;
    gw_hash job_id;
    float *parameters[GW_GPT_PARAMETERS];
    void *memory; /* the memory that the parameters point into */
    size_t bytes;
} gw_model;

#define GW_MODEL_NEWEST UINT64_MAX

/* The choice of a checkpoint. */
typedef struct gw_model_choice {
    const char *job; /* the first digits of its job's id (gw_model_is_job); NULL = any job */
    uint64_t step;   /* its step; GW_MODEL_NEWEST = the newest whole checkpoint */
} gw_model_choice;

enum { GW_MODEL_JOB_TEXT = 9 };

/* Reads a checkpoint of a gpt job from these state directories. Each peer's directory holds a part of it,
 * so all directories that are needed must be given.
 *
 * With `program`, the name of the command in messages, the function is lenient: among several jobs it
 * takes the one that was saved last by the wall clock; a checkpoint that is damaged or lacks chunks is
 * passed over for an older one of the same job; both are reported on stderr. If a run deletes the
 * checkpoint that is being read, it starts again, up to five times.
 *
 * With NULL it is strict, for peers that must all read the same: it reads the newest checkpoint or none,
 * and fails with GW_E_USAGE where the choice leaves several jobs (with a program it fails so only where
 * the given id does).
 *
 * The function changes nothing on disk and needs no lock. It fails with GW_E_NOTFOUND when there is no
 * such checkpoint, or none of the directories has a chunk, and with GW_E_CORRUPT when the last checkpoint
 * that was tried is damaged. Blocks. */
bool gw_model_load(char *const *dirs, uint32_t dir_count, const gw_model_choice *choice, const char *program,
                   gw_model *model, gw_err *err);
void gw_model_free(gw_model *model);

/* Writes the first 8 hexadecimal digits of a job's id, as `godwit run` shows it. Returns `text`. */
const char *gw_model_job_short(const gw_hash *id, char text[GW_MODEL_JOB_TEXT]);
/* Whether a text can be the beginning of a job's id: 1 to 64 hexadecimal digits. */
bool gw_model_is_job(const char *text);

#endif
