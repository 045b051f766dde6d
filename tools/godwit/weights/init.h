/* `godwit run gpt --init`: the weights that a job begins with, of a model as Hugging Face's libraries save
 * one (a folder or a file), or of a checkpoint in state directories. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_INIT_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_INIT_H

#include "core/godwit.h"
#include "tools/godwit/weights/model.h"

/* If the option `init` is a model with a config.json, or names a checkpoint of a gpt, adds the options of its shape that were not given
 * (layers, heads, channels, context; or the name of a preset with that shape), as if they had been given:
 * they are part of the job's identity. Adds nothing if the options and their defaults give that shape
 * already, if a --model was chosen, or if an option that is given contradicts the shape, which is refused when
 * the weights are opened. params->list is reallocated. Fails as gw_gpt_file_shape does.
 * Blocks on the disk. */
bool gw_init_take_shape(gw_params *params, gw_err *err);

/* Loads the initial weights. If the option `init` is a list of state directories, separated by commas, it
 * loads the model of the newest checkpoint in them; otherwise model->memory becomes NULL. "@STEP" after
 * the last directory chooses a checkpoint; "@JOB:" or "@JOB:STEP" also gives the beginning of its job's
 * id. With other weights a job is another job, so a restart must give the checkpoint that was taken before
 * when there may be a newer one; a log line names it. Fails as gw_model_load does, and with GW_E_USAGE
 * where `dir`, this peer's own directory, is in the list: its own checkpoints would soon be the newest.
 * Blocks on the disk. */
bool gw_init_load(const gw_params *params, const char *dir, gw_model *model, gw_err *err);

#endif
