/* A model's parameters in safetensors files, with the names and layouts of Hugging Face's GPT-2, and the
 * config.json beside them. */
#ifndef GODWIT_KERNELS_MODEL_GPT_FILE_H
#define GODWIT_KERNELS_MODEL_GPT_FILE_H

#include "core/os/output.h"
#include "kernels/data/safetensors.h"
#include "kernels/model/gpt/gpt.h"

/* The vocabulary of the model in the file; 0 where the file holds no such model. */
uint32_t gw_gpt_file_vocabulary(const gw_safetensors *file);

/* The number of positions of the model in the file; 0 where the file holds no such model. */
uint32_t gw_gpt_file_context(const gw_safetensors *file);

/* Checks that the file has every parameter of the model as F32, F16 or BF16 in the right shape, at least as
 * many positions as the context, no further layers, and no lm_head.weight that differs from the token
 * embedding. The file may have the embedding only under that name. Names may begin with "transformer."; other
 * contents are ignored. The embedding is read where the file has both names. `own_heads` is the number of
 * heads of the file's model, for the message; 0: unknown. */
bool gw_gpt_file_check(const gw_gpt *gpt, const gw_safetensors *file, uint32_t own_heads, gw_err *err);

/* Writes the names of tensors that do not belong to the model to `text`, as many as fit, separated by commas,
 * and returns their number. Masks of attention, which older versions of transformers saved, are not counted.
 */
uint32_t gw_gpt_file_others(const gw_gpt *gpt, const gw_safetensors *file, char *text, size_t size);

/* Copies elements [first, first + count) of parameter `number` to `values`, as floats, after a successful
 * check. Fails where the file was written to since it was opened. Any thread. */
bool gw_gpt_file_read(const gw_gpt *gpt, const gw_safetensors *file, uint32_t number, uint64_t first,
                      uint64_t count, float *values, gw_err *err);

/* Writes all parameters, as `GPT2LMHeadModel` saves and loads them. */
bool gw_gpt_file_write(const gw_gpt *gpt, const float *const *parameters, const char *path, gw_err *err);

/* Makes, in memory and opened, the file that gw_gpt_file_write writes. The parameters must stay valid until
 * it is closed. Fails with GW_E_NOMEM. */
bool gw_gpt_file_from_memory(const gw_gpt *gpt, const float *const *parameters, gw_safetensors *file,
                             gw_err *err);

#define GW_GPT_CONFIG "config.json"

/* The path of the config.json that belongs to the file `weights`, in the same folder. The caller frees it;
 * NULL with GW_E_NOMEM. */
char *gw_gpt_file_config(const char *weights, gw_err *err);

/* Writes the config.json of such a model; `dropout` is the rate it was trained with. */
bool gw_gpt_file_write_config(const gw_gpt *gpt, double dropout, const gw_output *output, gw_err *err);

/* Reads the shape of the model at `init`, a folder or a file of weights, from the config.json in the folder.
 * Values that the config.json lacks are 0; all are 0 where there is none. Fails with GW_E_UNSUPPORTED where
 * it names another architecture than GPT-2's, with GW_E_INVALID where it is not JSON or has no number for a
 * count, or as gw_plain_open does. */
bool gw_gpt_file_shape(const char *init, gw_gpt *shape, gw_err *err);

/* The number of heads that gw_gpt_file_shape reads; 0 where there is none. */
uint32_t gw_gpt_file_heads(const char *weights);

/* Checks the config.json of the model at `weights`, where there is one, for what no tensor's shape shows:
 * architecture, number of heads and layers, activation function, epsilon of the layer norms. Fails with
 * GW_E_USAGE where this model has another number of heads, with GW_E_UNSUPPORTED where it computes otherwise,
 * or as gw_gpt_file_shape does. */
bool gw_gpt_file_check_config(const gw_gpt *gpt, const char *weights, gw_err *err);

#endif
