/* Threads of control that take turns by hand on one thread of the system, each on a stack of its own. */
#ifndef GODWIT_TESTS_GPU_EMULATED_FIBER_H
#define GODWIT_TESTS_GPU_EMULATED_FIBER_H

#include <stddef.h>

/* Zeroed: a fiber that stands for whoever switches away from it first. */
typedef struct fiber {
    void *resume; /* where it goes on, while it does not run */
    char *stack;
    size_t bytes;
    void *sanitizer; /* what an address sanitizer keeps of it */
} fiber;

/* A fiber that begins with entry(), which must not return, when it is first switched to. Aborts without
 * memory. */
void fiber_open(fiber *f, void (*entry)(void));
/* Back to where it began; what was on its stack is gone. */
void fiber_restart(fiber *f, void (*entry)(void));

/* Goes on in `to`; returns when something switches back to `from`, in which the caller runs. */
void fiber_switch(fiber *from, fiber *to);
/* The first thing that an entry does. */
void fiber_begun(void);

#endif
