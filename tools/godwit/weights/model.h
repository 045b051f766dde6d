/* The language model in a checkpoint of the job gpt. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_MODEL_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_MODEL_H

#include "core/base/id.h"
#include "kernels/model/gpt/gpt.h"
#include "tools/godwit/weights/checkpoint.h"

#define GW_MODEL_JOB "gpt" /* the name of the jobs whose checkpoints hold such a model */

typedef struct gw_model {
    gw_gpt gpt;
    double dropout; /* the dropout that it was trained with */
    uint64_t step;
    gw_hash job_id;
    uint32_t jobs; /* that could have been meant by the choice of the checkpoint, which took one of them */
    float *parameters[GW_GPT_PARAMETERS];
    void *memory; /* the memory that the parameters point into */
    size_t bytes;
} gw_model;

/* Reads the shape of the model in a checkpoint of a gpt job, and checks that the tensors have it.
 * `tensors` becomes the number of each parameter's tensor in the manifest. Fails with GW_E_UNSUPPORTED
 * where the parameters or tensors are not those of such a model; the text names the checkpoint. */
bool gw_model_shape(const gw_manifest *manifest, gw_gpt *gpt, double *dropout,
                    uint32_t tensors[GW_GPT_PARAMETERS], gw_err *err);

/* Reads the model of a checkpoint that is chosen as gw_checkpoint_use does, among those of gpt jobs. Fails
 * in the same ways, or as gw_model_shape does. Blocks. */
bool gw_model_load(char *const *dirs, uint32_t dir_count, const gw_checkpoint_choice *choice,
                   const char *program, gw_model *model, gw_err *err);
/* Writes the path of a model's folder to the directory of a peer inside of it, where there is one, and
 * returns whether there is. A build of before such folders were refused by --dir may have made it. */
bool gw_model_has_directory(const char *folder, char path[GW_PATH_BYTES]);

/* Whether a folder holds a model as Hugging Face's libraries save one, and not checkpoints: a state directory
 * may hold an exported config.json as well, and a folder with a directory of a peer in it any config.json. */
bool gw_model_is_folder(const char *path);
/* Reads the model in such a folder. `step` and `job_id` stay 0. Fails as gw_safetensors_open,
 * gw_gpt_file_shape, gw_gpt_file_check and gw_gpt_file_check_config do. Blocks. */
bool gw_model_load_folder(const char *path, gw_model *model, gw_err *err);
void gw_model_free(gw_model *model);

#endif
