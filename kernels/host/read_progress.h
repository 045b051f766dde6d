/* The progress of reading many bytes: a line in the log every few seconds where reading takes that long, and
 * one at the end. Any thread. */
#ifndef GODWIT_KERNELS_HOST_READ_PROGRESS_H
#define GODWIT_KERNELS_HOST_READ_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct gw_read_progress {
    uint64_t bytes; /* total to be read */
    int64_t began_ns;
    _Atomic uint64_t done;       /* bytes read so far */
    _Atomic int64_t next_log_ns; /* time of the next line */
} gw_read_progress;

/* Begins a reading of `bytes` bytes; called before other threads use `progress`. */
void gw_read_progress_begin(gw_read_progress *progress, uint64_t bytes);
/* Counts `bytes` more, read from the file `path`. */
void gw_read_progress_add(gw_read_progress *progress, const char *path, uint64_t bytes);
/* Ends the reading, after the last add. */
void gw_read_progress_end(const gw_read_progress *progress);

#endif
