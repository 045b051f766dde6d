/* Faults that end the process: SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT. Before the process dies of one as it would
 * without this, a function is called that may note what it was doing. */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_CRASH_H
#define GODWIT_TOOLS_GODWIT_THREAD_CRASH_H

#include "core/base/err.h"

/* Called in a signal handler, on the thread that has the fault, maybe on several threads at once: it may use atomic
 * stores and async-signal-safe calls only. `number` is the signal. */
typedef void gw_crash_note(void *context, int number);

/* From here on `note` is called. Main thread; once at a time. */
void gw_crash_watch(gw_crash_note *note, void *context);
/* Restores the handlers that were there before. `note` may still be running on a thread that has a fault. Main
 * thread. */
void gw_crash_unwatch(void);

/* Gives the calling thread a stack of its own for the handler, so that an overflow of the thread's stack is noted as well.
 * The thread calls gw_crash_stack_close with it before it ends. NULL when out of memory, which is no failure. */
void *gw_crash_stack_open(void);
void gw_crash_stack_close(void *stack);

#endif
