/* A model's parameters in safetensors files, with the names and layouts of Hugging Face's GPT-2, and the
 * config.json beside them. */
#ifndef GODWIT_KERNELS_MODEL_GPT_FILE_H
#define GODWIT_KERNELS_MODEL_GPT_FILE_H

#include "kernels/data/real.h"
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

/* Lists all parameters as F32 in the order and with the names with which `GPT2LMHeadModel` saves and loads
 * them, in one block of memory that the caller frees. `parameters` are the addresses of their bytes; NULL
 * leaves those NULL. Returns NULL with GW_E_NOMEM. */
gw_safetensor *gw_gpt_file_list(const gw_gpt *gpt, const float *const *parameters, gw_err *err);

/* Makes, in memory and opened, the file of gw_gpt_file_list. The parameters must stay valid until it is
 * closed. Fails with GW_E_NOMEM. */
bool gw_gpt_file_from_memory(const gw_gpt *gpt, const float *const *parameters, gw_safetensors *file,
                             gw_err *err);

#define GW_GPT_CONFIG "config.json"

/* The path of the config.json that belongs to the file `weights`, in the same folder. The caller frees it;
 * NULL with GW_E_NOMEM. */
char *gw_gpt_file_config(const char *weights, gw_err *err);

/* What the config.json of a model says beside its shape. */
typedef struct gw_gpt_about {
    double dropout; /* the rate that it was trained with */
    gw_real kind;   /* of the numbers in the file of weights */
    const uint32_t
        *end; /* the token that ends a text; NULL: that of GPT-2 in a vocabulary of its size, else none */
    const gw_safetensors_note *notes; /* where the model comes from, as object "godwit" */
    uint32_t note_count;
} gw_gpt_about;

/* Makes the text of the config.json of such a model, which the caller frees. Returns NULL with GW_E_NOMEM. */
char *gw_gpt_file_make_config(const gw_gpt *gpt, const gw_gpt_about *about, gw_err *err);

/* Whether the file is a config.json that this program wrote, whatever values it has now. Blocks. */
bool gw_gpt_file_is_own_config(const char *path);

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
