/* Shared libraries that are opened while the program runs, so that the same binary starts on machines that
 * lack them: NCCL, the CUDA driver, NVML, cuBLASLt, libibverbs, librdmacm, libcrypto, libcurl. */
#ifndef GODWIT_CORE_OS_LIBRARY_H
#define GODWIT_CORE_OS_LIBRARY_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { GW_LIBRARY_PATH = 256 };

typedef struct gw_library_function {
    const char *name;
    size_t offset; /* of the function pointer in the caller's table */
    bool optional; /* the pointer is NULL where the library has no such function */
} gw_library_function;

/* Says whether a library that has all functions will do, for instance by its version: `table` holds its
 * functions, `path` is its file. Otherwise returns false, and *why says why not. */
typedef bool gw_library_judge(const void *context, const char *path, const void *table, gw_err *why);

/* A library and the functions that the caller uses of it. */
typedef struct gw_library_wanted {
    const char *file;           /* "libnccl.so.2" */
    const char *variable;       /* environment variable that may name the file to open; NULL: none */
    const char *const *folders; /* the last places to search; the list ends with NULL */
    const char *advice;         /* what the user can do where it is missing: "install the package libnccl2" */
    const gw_library_function *functions;
    size_t function_count;
    gw_library_judge *judge; /* NULL: every library that has the functions will do */
    const void *context;     /* for `judge` */
} gw_library_wanted;

/* Opens a library and fills the function pointers of `table`. If the variable is set, the file that it names
 * is the only candidate. Otherwise the candidates are, in this order: the dynamic linker's choice
 * (LD_LIBRARY_PATH included), the folder lib beside this program, and `folders`. The first candidate that can
 * be opened, has every function that is not optional, and passes the judge is taken; `path` becomes its file
 * name. Libraries are never closed, those that were refused included: what NCCL and CUDA start cannot be
 * unloaded.
 *
 * Fails with GW_E_UNSUPPORTED. The text says which files were refused and why, or what the dynamic linker
 * says, then what to do and which places were searched. Any thread. */
bool gw_library_open(const gw_library_wanted *wanted, void *table, char path[GW_LIBRARY_PATH], gw_err *err);

#endif
