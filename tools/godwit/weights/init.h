/* `godwit run gpt --init`: the weights that a job begins with, of a model as Hugging Face's libraries save one
 * (a folder or a file), or of a checkpoint in state directories. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_INIT_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_INIT_H

#include "core/godwit.h"
#include "tools/godwit/weights/model.h"

/* Where `params` has an `init` that is a model with a config.json, adds the options of its shape that were
 * not given (layers, heads, channels, context; or the name of a preset with that shape), as if they had been
 * given: they are part of the job's identity. Adds nothing where the options and their defaults give that
 * shape already, and where a --model was chosen. params->list is reallocated. Fails as gw_gpt_file_shape
 * does. Blocks on the disk. */
bool gw_init_take_shape(gw_params *params, gw_err *err);

/* Where `params` has an `init` that is a list of state directories (separated by commas), loads the model of
 * the newest checkpoint in them; otherwise model->memory is NULL. "@STEP" after the last one names a
 * checkpoint, "@JOB:" or "@JOB:STEP" also how the id of its job begins: a job is another one with other
 * weights, so who starts again when there may be a newer one must name that which was taken before, and a log
 * line does. Fails as gw_model_load does, and with GW_E_USAGE where `dir`, this peer's own, is among them:
 * its own checkpoints would soon be the newest. Blocks on the disk. */
bool gw_init_load(const gw_params *params, const char *dir, gw_model *model, gw_err *err);

#endif
