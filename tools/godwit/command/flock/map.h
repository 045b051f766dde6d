/* `godwit map` on a flock: the tasks are handed to it as one job, and what they write is fetched from the nodes. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_MAP_H
#define GODWIT_TOOLS_GODWIT_COMMAND_FLOCK_MAP_H

#include "tools/godwit/map/options.h"

/* Whether a member of a flock runs on this machine, in the directory `dir` (NULL: the default one). */
bool gw_flock_is_here(const char *dir);

/* Runs a map on the flock, or, with line->detach, hands it over only. Returns the exit code, as gw_map_main_loop does. */
int gw_flock_map(const gw_map_line *line, gw_err *err);

#endif
