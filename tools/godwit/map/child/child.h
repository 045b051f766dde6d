/* `godwit map` as a child of a flock's member: it shares the tasks of a map with its siblings on other nodes
 * (core/map/share.h), with which it speaks by way of its member (tools/godwit/flock/relay.h).
 *
 * Files in the job's folder, DIR/jobs/ID:
 *
 *   work/.godwit-tasks   the tasks (task_list.h), as the member has put them there
 *   rows                 what has become of them, by all nodes (row_log.h)
 *   outputs              what those that ran here have written (outputs.h)
 *   outputs.MEMBER       a copy of what those have written that ran there (copier.h)
 *   running, killed.N    what runs, and what ran when a child was killed (tools/godwit/flock/running.h)
 *
 * A task that has ended makes room for another one at once; its row is told to the siblings when what it wrote is on two
 * disks (core/map/copies.h).
 *
 * Thread: main. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_CHILD_CHILD_H
#define GODWIT_TOOLS_GODWIT_MAP_CHILD_CHILD_H

#include "tools/godwit/map/map.h"

/* Runs the child of the job whose folder this is, with the options that say how tasks are run, `slots` at a time (0: as
 * many as the member says). Returns the exit code, as
 * gw_map_main_loop does. */
int gw_map_child_main(const gw_map_options *options, uint32_t slots, const char *folder, gw_err *err);

#endif
