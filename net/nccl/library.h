/* Shared libraries that are opened while the program runs, so that the same binary starts where there are
 * none: NCCL, the CUDA driver, NVML. */
#ifndef GODWIT_NET_NCCL_LIBRARY_H
#define GODWIT_NET_NCCL_LIBRARY_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { GW_LIBRARY_PATH = 256 };

typedef struct gw_library_function {
    const char *name;
    size_t offset; /* of the function pointer in the caller's table */
    bool optional; /* NULL in the table where the library has none */
} gw_library_function;

/* A library and the functions wanted of it. */
typedef struct gw_library_wanted {
    const char *file;     /* "libnccl.so.2" */
    const char *variable; /* environment variable that names a file to open instead; NULL: none */
    const char *const
        *folders; /* searched after the loader's own places and lib beside the program; ends with NULL */
    const char *advice; /* what to do where it is missing: "install the package libnccl2" */
    const gw_library_function *functions;
    size_t function_count;
} gw_library_wanted;

/* Opens the library for good (what NCCL and CUDA start cannot be unloaded) and fills in the pointers of
 * `table`; without one that is not optional it fails. `path` is where it was found. Fails with
 * GW_E_UNSUPPORTED: the text says what is missing, where it was looked for and what to do. Any thread. */
bool gw_library_open(const gw_library_wanted *wanted, void *table, char path[GW_LIBRARY_PATH], gw_err *err);

#endif
