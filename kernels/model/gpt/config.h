/* A model's shape from options, for the job that trains it and for what reads its checkpoints. */
#ifndef GODWIT_KERNELS_MODEL_GPT_CONFIG_H
#define GODWIT_KERNELS_MODEL_GPT_CONFIG_H

#include "kernels/model/gpt/gpt.h"

/* A whole number option; *value stays as it is where the option was not given. */
bool gw_gpt_option(const gw_params *params, const char *name, int64_t least, int64_t most, int64_t *value,
                   gw_err *err);

/* From model, layers, heads, channels and context. The vocabulary is the preset's, and *rate the learning
 * rate that suits it. */
bool gw_gpt_configure(const gw_params *params, gw_gpt *gpt, double *rate, gw_err *err);

/* The --model that has such a shape; NULL: none has. */
const char *gw_gpt_model_of(uint32_t layers, uint32_t channels, uint32_t context);

#endif
