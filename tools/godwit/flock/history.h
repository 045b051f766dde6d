/* What happens to a job on a node, in the file `history` of its folder DIR/jobs/ID: lines of JSON, which the member writes
 * and `godwit why JOB` gathers from all nodes. Each has "time" (seconds since 1970, by this machine's clock) and "event":
 *
 *   start   a child was started; "round", "waited" (why the job waited before, as in the answer to "jobs"), "from" (the
 *           name of a node that ran it and was lost)
 *   delay   it cannot be started here yet; "text"
 *   unfit   it cannot be started here, and is not tried here again; "text"
 *   stop    its child was asked to end; "cause": cancelled, over, held, drained, disk, down, moved
 *   end     its child has ended; "outcome": done, stopped, failed, fatal, struck, left; "round", "code", "text"
 *
 * The file takes GW_JOB_HISTORY_BYTES at the most: of a job to which more happens the beginning is kept. A line that cannot be
 * written is lost, and nothing waits for it. Thread: main. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_HISTORY_H
#define GODWIT_TOOLS_GODWIT_FLOCK_HISTORY_H

#include <jansson.h>

#define GW_JOB_HISTORY_NAME "history"

enum { GW_JOB_HISTORY_BYTES = 256 << 10 };

/* Adds an event, which is released, to the file in the folder of a job, which is made where there is none. */
void gw_job_history_add(const char *folder, json_t *event);

#endif
