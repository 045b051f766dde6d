/* Libraries of CUDA that are opened when they are needed, so that the program starts where they are not. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_LIBRARY_H
#define GODWIT_KERNELS_CUDA_RUNTIME_LIBRARY_H

#include "core/base/err.h"

/* Whether a library that was opened will do; else *why says why not. */
typedef bool gw_cuda_library_judge(const void *context, void *library, gw_err *why);

/* Opens `name` ("libcublasLt.so.13"): where the dynamic linker looks (LD_LIBRARY_PATH), in lib beside the
 * program, and in CUDA's folder (CUDA_HOME, CUDA_PATH, /usr/local/cuda): the first that is_good (NULL: any)
 * takes. Stays open, as do those it refused. NULL and a text that says where it looked and what the dynamic
 * linker says, or which files were refused and why. Any thread. */
void *gw_cuda_library_open(const char *name, gw_cuda_library_judge *is_good, const void *context,
                           gw_err *err);
/* The function `name` of it; NULL and a text when it has none. */
void *gw_cuda_library_function(void *library, const char *library_name, const char *name, gw_err *err);

#endif
