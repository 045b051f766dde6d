/* The language model in the checkpoints of a job gpt. */
#ifndef GODWIT_TOOLS_GODWIT_MODEL_H
#define GODWIT_TOOLS_GODWIT_MODEL_H

#include "kernels/gpt.h"

typedef struct gw_model {
    gw_gpt gpt;
    double dropout; /* that it was trained with */
    uint64_t step;
    float *parameters[GW_GPT_PARAMETERS];
    void *memory; /* what they all point into */
    size_t bytes;
} gw_model;

/* Reads the newest checkpoint of a job gpt that is in any of these state directories; each peer's holds a
 * part of it, so all that are needed must be given. Changes nothing on disk and needs no lock. Fails with
 * GW_E_NOTFOUND when there is no checkpoint, or a chunk is in none of them, and GW_E_CORRUPT when one is
 * damaged. Blocks. */
bool gw_model_load(char *const *dirs, uint32_t dir_count, gw_model *model, gw_err *err);
void gw_model_free(gw_model *model);

#endif
