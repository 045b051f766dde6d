/* A model's parameters in safetensors files, by the names and layouts of Hugging Face's GPT-2, and the
 * config.json that goes with them. */
#ifndef GODWIT_KERNELS_MODEL_GPT_FILE_H
#define GODWIT_KERNELS_MODEL_GPT_FILE_H

#include "core/os/output.h"
#include "kernels/data/safetensors.h"
#include "kernels/model/gpt/gpt.h"

/* The vocabulary of the model in the file; 0 when it holds no such thing. */
uint32_t gw_gpt_file_vocabulary(const gw_safetensors *file);

/* Positions of the model in the file; 0 when it holds no such thing. */
uint32_t gw_gpt_file_context(const gw_safetensors *file);

/* That the file has every parameter of the model, F32, F16 or BF16, of the right shape, the positions at
 * least as many as the context, no more layers, and no lm_head.weight but the embedding again. Names may
 * begin with "transformer."; what else is in the file does not matter. Reads the embedding where there is
 * such a head. `own_heads`: of the file's model, to say what it takes; 0: not known. */
bool gw_gpt_file_check(const gw_gpt *gpt, const gw_safetensors *file, uint32_t own_heads, gw_err *err);

/* Copies elements [first, first + count) of parameter `number` to `values`, as floats. After a successful
 * check. Fails when the file was written to since it was opened. Any thread. */
bool gw_gpt_file_read(const gw_gpt *gpt, const gw_safetensors *file, uint32_t number, uint64_t first,
                      uint64_t count, float *values, gw_err *err);

/* Writes all parameters, as `GPT2LMHeadModel` saves and loads them. */
bool gw_gpt_file_write(const gw_gpt *gpt, const float *const *parameters, const char *path, gw_err *err);

/* The file that gw_gpt_file_write would write, as if it were open, in memory: the parameters must stay until
 * it is closed. Fails with GW_E_NOMEM. */
bool gw_gpt_file_take(const gw_gpt *gpt, const float *const *parameters, gw_safetensors *file, gw_err *err);

#define GW_GPT_CONFIG "config.json"

/* The path of the config.json that goes with the file `weights`: in the same folder. The caller frees it;
 * NULL fails with GW_E_NOMEM. */
char *gw_gpt_file_config(const char *weights, gw_err *err);

/* Writes the config.json of such a model; `dropout` is what it was trained with. */
bool gw_gpt_file_write_config(const gw_gpt *gpt, double dropout, const gw_output *output, gw_err *err);

/* How many heads the config.json beside the file `weights` says; 0: it is not there, or says nothing. */
uint32_t gw_gpt_file_heads(const char *weights);

/* That the config.json beside the file `weights`, where there is one, says nothing that this model computes
 * in another way and that no tensor's shape shows: the number of heads and of layers, the activation
 * function, the epsilon of layer norms. Fails with GW_E_USAGE, or as gw_plain_open does, or with GW_E_INVALID
 * where it is no JSON.
 */
bool gw_gpt_file_check_config(const gw_gpt *gpt, const char *weights, gw_err *err);

#endif
