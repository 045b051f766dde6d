/* System calls that remember what has not been flushed yet, and a power failure that undoes it: the contents
 * of files, the names and folders, or a deletion. The k-th call ends the process that way. */
#ifndef GODWIT_TESTS_CHECKPOINT_POWERLOSS_H
#define GODWIT_TESTS_CHECKPOINT_POWERLOSS_H

#include "core/os/io.h"

typedef enum powerloss_kind {
    LOSE_NOTHING,  /* the process is killed, and the machine goes on */
    LOSE_CONTENTS, /* names are on disk before the bytes: unflushed files are empty */
    LOSE_NAMES,    /* unflushed renames, deletions and new folders never happened */
    LOSE_DELETION, /* the first unflushed deletion never happened, and everything after it did */
} powerloss_kind;

/* The table of the process, whose call number `k` (from 0) does not return; k < 0: all return. `shadows`: an
 * empty folder on the same file system, for files that may come back. */
gw_io *powerloss_io(powerloss_kind kind, int k, const char *shadows);

/* The power fails now. */
_Noreturn void powerloss_now(void);

#endif
