/* The lock that admits one process to a state directory: flock(2) on DIR/lock. The file holds the pid of
 * the owner, for the message that a second process gets. The kernel drops the lock when its process ends,
 * however it ends. */
#ifndef GODWIT_CHECKPOINT_DIRLOCK_H
#define GODWIT_CHECKPOINT_DIRLOCK_H

#include "core/base/err.h"
#include "core/os/io.h"

typedef struct gw_dirlock {
    int fd; /* -1: not held */
} gw_dirlock;

/* Takes the lock of `dir`, which is created with mode 0700 unless it exists; its parent must exist. If
 * another process holds the lock for longer than 0.2 s (a shorter time is that of one that sees whether it is held), fails with GW_E_DENIED and a text that names the directory and
 * the pid of that process. Fails with GW_E_IO if the directory cannot be created or written. `io`: the
 * calls by which the directory is used (core/os/directory.h). Main thread. */
bool gw_dirlock_take(gw_io *io, const char *dir, gw_dirlock *lock, gw_err *err);

/* Releases the lock; does nothing if it is not held. The file stays. */
void gw_dirlock_release(gw_dirlock *lock);

#endif
