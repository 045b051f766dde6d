/* A model's shape from options, for the job that trains it and for commands that read its checkpoints. */
#ifndef GODWIT_KERNELS_MODEL_GPT_CONFIG_H
#define GODWIT_KERNELS_MODEL_GPT_CONFIG_H

#include "kernels/model/gpt/gpt.h"

#define GW_GPT_USUAL "nano" /* the --model where none is given */

/* Reads a whole number option; *value is left alone where the option was not given. */
bool gw_gpt_option(const gw_params *params, const char *name, int64_t least, int64_t most, int64_t *value,
                   gw_err *err);

/* Sets the shape from model, layers, heads, channels and context. The vocabulary, and in *rate a suitable
 * learning rate, are the preset's. */
bool gw_gpt_configure(const gw_params *params, gw_gpt *gpt, double *rate, gw_err *err);

/* The --model with that shape; NULL where none has it. */
const char *gw_gpt_model_of(uint32_t layers, uint32_t channels, uint32_t context);

#endif
