/* Calls of the CUDA runtime: their errors become values, and name the GPU, the call and what CUDA says. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_CALL_H
#define GODWIT_KERNELS_CUDA_RUNTIME_CALL_H

#include "core/base/err.h"

#include <cuda_runtime_api.h>

/* Whether `status` is success; fills *err if not: GW_E_NOMEM when the GPU's memory is full, GW_E_UNSUPPORTED
 * when there is no usable driver or GPU, else GW_E_IO. `call` is what was called, with what may help:
 * "cudaMalloc of 512 bytes". `gpu` is its ordinal; negative: none in particular. Some errors stay with the
 * process (gw_cuda_sticky): the text then says that the process must end. Any thread. */
bool gw_cuda_try(int gpu, cudaError_t status, gw_err *err, const char *call, ...)
    __attribute__((format(printf, 4, 5)));

/* What to do when the GPU's memory is full: the end of a message. */
#define GW_CUDA_LESS_MEMORY                                                                                  \
    "; a smaller micro-batch, a smaller model or fewer --workers need less of the GPU's memory"

/* Whether no later call of this process on that GPU can succeed: a kernel that faulted, memory that failed
 * (ECC), a GPU that fell off the bus. */
bool gw_cuda_sticky(cudaError_t status);
/* Of these, whether the GPU itself, what connects it or who shares it (MPS) has failed: no kernel of this
 * process can have done it. */
bool gw_cuda_broken(cudaError_t status);

#endif
