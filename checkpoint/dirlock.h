/* One process a state directory: flock(2) on DIR/lock, which holds the owner's pid for the message that a
 * second one gets. The lock goes with the process, however it ends. */
#ifndef GODWIT_CHECKPOINT_DIRLOCK_H
#define GODWIT_CHECKPOINT_DIRLOCK_H

#include "core/base/err.h"

typedef struct gw_dirlock {
    int fd; /* -1: not held */
} gw_dirlock;

/* Takes the lock of `dir`, which is created with mode 0700 if it is not there (its parent must be). Never
 * waits: when another process has it, GW_E_DENIED and a text that names the directory and that process's pid.
 * GW_E_IO when the directory cannot be created or written. Main thread. */
bool gw_dirlock_take(const char *dir, gw_dirlock *lock, gw_err *err);

/* Gives it back; harmless when not held. The file stays. */
void gw_dirlock_release(gw_dirlock *lock);

#endif
