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

#define GW_MODEL_NEWEST UINT64_MAX

/* Reads the checkpoint of `step` of a job gpt from these state directories, or with GW_MODEL_NEWEST the
 * newest that is whole in them together; each peer's holds a part of it, so all that are needed must be
 * given. What is damaged or lacks chunks is passed over, and stderr says so in lines that begin with
 * `program`; with NULL it is the newest or none, for who must read the same as others do. Changes nothing on
 * disk and needs no lock. Fails with GW_E_NOTFOUND when there is no such checkpoint, or a chunk is in none of
 * them, and GW_E_CORRUPT when one is damaged: the last that was tried. Blocks. */
bool gw_model_load(char *const *dirs, uint32_t dir_count, uint64_t step, const char *program, gw_model *model,
                   gw_err *err);
void gw_model_free(gw_model *model);

#endif
