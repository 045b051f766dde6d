/* `godwit run gpt --init DIR,..`: the weights of a checkpoint, for a job that reads them from a file. */
#ifndef GODWIT_TOOLS_GODWIT_INIT_H
#define GODWIT_TOOLS_GODWIT_INIT_H

#include "core/godwit.h"

typedef struct gw_init {
    gw_params params; /* for the job's open; the caller's as they were where --init names no directory */
    gw_param *list;   /* owned, or NULL */
    char *path;       /* of the file that was written, or NULL */
} gw_init;

/* Where `params` has an `init` that is a list of state directories (separated by commas), writes the model of
 * the newest checkpoint in them to a file in `dir`, a directory of this process alone, and names that file in
 * init->params. "@STEP" after the last one names a checkpoint, "@JOB:" or "@JOB:STEP" also how the id of its
 * job begins: a job is another one with other weights, so who starts again when there may be a newer one must
 * name that which was taken before, and a log line does. Fails as gw_model_load does, and with GW_E_USAGE
 * where `dir` is among them: its own checkpoints would soon be the newest. Blocks on the disk. */
bool gw_init_open(const gw_params *params, const char *dir, gw_init *init, gw_err *err);
/* Removes the file; who has opened it may go on reading. */
void gw_init_close(gw_init *init);

#endif
