/* A file that somebody named to have something written into it: a picture, a model, a table. It appears when
 * it is whole, in the place of an older one; links are followed, and what is no regular file (a device, a
 * FIFO, a folder) is refused and left alone. A file has one writer at a time, of all threads and processes.
 * Thread: any; a gw_output belongs to its caller. */
#ifndef GODWIT_KERNELS_HOST_OUTPUT_H
#define GODWIT_KERNELS_HOST_OUTPUT_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct gw_output {
    int fd;        /* to write to, and to read from */
    char *target;  /* the file's own name, behind all links */
    char *partial; /* what is written until it is whole */
} gw_output;

/* Fails with GW_E_INVALID where the path is that of no regular file, GW_E_DENIED while another one writes
 * this file, GW_E_IO where nothing can be written there; then there is nothing to end. */
bool gw_output_open(const char *path, gw_output *output, gw_err *err);

/* Writes all of it where the file stands, or fails with GW_E_IO. */
bool gw_output_write(const gw_output *output, const void *bytes, size_t count, gw_err *err);

/* What was written is on the disk then: gw_output_end has little left that can fail. Fails with GW_E_IO.
 * Blocks. */
bool gw_output_flush(const gw_output *output, gw_err *err);

/* What is written appears at `path` instead, which is in the same folder. Fails as gw_output_open does; then
 * nothing has changed. */
bool gw_output_move(gw_output *output, const char *path, gw_err *err);

/* Closes the file, and puts it, once it is on the disk, in its place if it is `good`; otherwise removes it,
 * leaves what was there and returns false with *err as it was. To be called once for each one that was
 * opened. */
bool gw_output_end(gw_output *output, bool good, gw_err *err);

/* Opens a file to be changed where it stands, with what is in it, or makes it: a descriptor that reads and
 * writes, and while it or a copy is open, nobody else gets one (flock). `flags`: more of open(2)'s. -1, with
 * *err as by gw_output_open: there is none. */
int gw_output_lock(const char *path, int flags, gw_err *err);

#endif
