/* Libraries of the CUDA toolkit, which are opened when they are needed, so that the program starts without
 * them. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_LIBRARY_H
#define GODWIT_KERNELS_CUDA_RUNTIME_LIBRARY_H

#include "core/os/library.h"

/* gw_library_open with `folders` and `advice` of the CUDA toolkit, whatever they are in `wanted`: CUDA_HOME,
 * CUDA_PATH, then /usr/local/cuda. Any thread. */
bool gw_cuda_library_open(const gw_library_wanted *wanted, void *table, gw_err *err);

#endif
