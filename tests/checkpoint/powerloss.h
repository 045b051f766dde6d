/* System calls that remember what has not been flushed yet, and a power failure that takes it away: the
 * contents of files, the names and folders, or a deletion, whichever hurts. The k-th call ends the process
 * that way. */
#ifndef GODWIT_TESTS_CHECKPOINT_POWERLOSS_H
#define GODWIT_TESTS_CHECKPOINT_POWERLOSS_H

#include "core/os/io.h"

typedef enum powerloss_kind {
    LOSE_NOTHING,  /* the process is killed, the machine goes on */
    LOSE_CONTENTS, /* names are on disk before the bytes: unflushed files are empty */
    LOSE_NAMES,    /* unflushed renames, deletions and new folders never happened */
    LOSE_DELETION, /* the first unflushed deletion never happened, all that came after it did */
} powerloss_kind;

/* A table, one per process, whose call number `k` (from 0) does not return. k < 0: never. `shadows`: an empty
 * folder on the same file system, for what may come back. */
gw_io *powerloss_io(powerloss_kind kind, int k, const char *shadows);

/* The power fails now. */
_Noreturn void powerloss_now(void);

#endif
