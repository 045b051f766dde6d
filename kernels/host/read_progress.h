/* How far it is when much is read: a line of the log every few seconds where that takes so long, and one at
 * the end. Any thread. */
#ifndef GODWIT_KERNELS_HOST_READ_PROGRESS_H
#define GODWIT_KERNELS_HOST_READ_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct gw_read_progress {
    uint64_t bytes; /* all */
    int64_t began_ns;
    _Atomic uint64_t done; /* bytes */
    _Atomic int64_t tell_ns;
} gw_read_progress;

/* Before others use it. */
void gw_read_progress_begin(gw_read_progress *progress, uint64_t bytes);
/* So many more have been read, from a file of that name. */
void gw_read_progress_add(gw_read_progress *progress, const char *path, uint64_t bytes);
/* All have. */
void gw_read_progress_end(const gw_read_progress *progress);

#endif
