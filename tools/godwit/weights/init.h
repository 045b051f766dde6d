/* `godwit run gpt --init DIR,..`: the weights of a checkpoint, for a job that begins with them. */
#ifndef GODWIT_TOOLS_GODWIT_WEIGHTS_INIT_H
#define GODWIT_TOOLS_GODWIT_WEIGHTS_INIT_H

#include "core/godwit.h"
#include "tools/godwit/weights/model.h"

/* Where `params` has an `init` that is a list of state directories (separated by commas), loads the model of
 * the newest checkpoint in them; otherwise model->memory is NULL. "@STEP" after the last one names a
 * checkpoint, "@JOB:" or "@JOB:STEP" also how the id of its job begins: a job is another one with other
 * weights, so who starts again when there may be a newer one must name that which was taken before, and a log
 * line does. Fails as gw_model_load does, and with GW_E_USAGE where `dir`, this peer's own, is among them:
 * its own checkpoints would soon be the newest. Blocks on the disk. */
bool gw_init_load(const gw_params *params, const char *dir, gw_model *model, gw_err *err);

#endif
