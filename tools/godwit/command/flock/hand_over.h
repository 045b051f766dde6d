/* What all commands that hand a job to the flock have in common. Main thread. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_HAND_OVER_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_HAND_OVER_H

#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/command/flock/pack.h"

/* A submission (tools/godwit/flock/submission.h) of a kind and name, with its random numbers and the time: sent twice, it
 * is one job. The caller adds the rest. */
json_t *gw_flock_describe(const char *kind, const char *name, int64_t counter);
/* The environment of a job: PATH, HOME and the like, and what is named, as NAME=VALUE or as NAME of a variable here. */
json_t *gw_flock_environment(const char *const *named, uint32_t count);
/* Submits a job, which is released. A member that ends meanwhile is waited for, and asked again: it is one job. Returns the
 * answer, which the caller releases. */
json_t *gw_flock_submit(gw_flock_client *client, json_t *spec, gw_err *err);
/* Gives the files that travel to the member, some chunks at a time. */
bool gw_flock_give_files(gw_flock_client *client, const gw_pack *pack, gw_err *err);

#endif
