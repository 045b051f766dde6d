/* A thread that carries out tasks in the order given: for what may take long (disk, reductions, loading). */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_HELPER_H
#define GODWIT_TOOLS_GODWIT_THREAD_HELPER_H

#include "core/base/err.h"

#include <stdbool.h>

typedef struct gw_helper gw_helper;

/* Does the task and frees it. */
typedef void gw_helper_task(void *task);

/* `name`: of the thread, a constant of at most 15 characters. NULL on failure. */
gw_helper *gw_helper_open(const char *name, gw_err *err);
/* Carries out what was given and ends. NULL is allowed. */
void gw_helper_close(gw_helper *helper);
/* Any thread; takes `task`. */
void gw_helper_give(gw_helper *helper, gw_helper_task *run, void *task);

#endif
