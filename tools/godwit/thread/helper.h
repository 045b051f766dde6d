/* A thread that runs tasks in the order in which they are given: for work that may take long (disk,
 * reductions, loading). */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_HELPER_H
#define GODWIT_TOOLS_GODWIT_THREAD_HELPER_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_helper gw_helper;

/* Runs the task and frees it, on the helper's thread. */
typedef void gw_helper_task(void *task);

/* Starts the thread. `name` is a constant of at most 15 characters. Returns NULL on failure. */
gw_helper *gw_helper_open(const char *name, gw_err *err);
/* Runs the tasks that were given, and ends the thread. NULL is allowed. */
void gw_helper_close(gw_helper *helper);
/* Does the same, but waits until `end_ns` (gw_now_ns) at the most. Returns false where a task still runs then:
 * the helper and what its tasks use must stay. */
bool gw_helper_close_until(gw_helper *helper, uint64_t end_ns);
/* Gives a task to the thread, which owns it from here on. Thread: any. */
void gw_helper_give(gw_helper *helper, gw_helper_task *run, void *task);

#endif
