/* Calls of the CUDA runtime. Their errors become values that name the GPU, the call and CUDA's message. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_CALL_H
#define GODWIT_KERNELS_CUDA_RUNTIME_CALL_H

#include "core/base/err.h"

#include <cuda_runtime_api.h>

/* Returns whether `status` is success. If not, fills *err: GW_E_NOMEM where the GPU's memory is full,
 * GW_E_UNSUPPORTED where there is no usable driver or GPU, otherwise GW_E_IO. `call` names the call with
 * useful detail, "cudaMalloc of 512 bytes"; `gpu` is an ordinal, or negative where no single GPU is meant.
 * Some errors persist for the whole process (gw_cuda_sticky); the message then says that the process must
 * end. Any thread. */
bool gw_cuda_try(int gpu, cudaError_t status, gw_err *err, const char *call, ...)
    __attribute__((format(printf, 4, 5)));

/* End of a message: advice for when the GPU's memory is full. */
#define GW_CUDA_LESS_MEMORY                                                                                  \
    "; a smaller micro-batch, a smaller model or fewer --workers need less of the GPU's memory"

/* Whether every later call of this process on that GPU fails as well: a kernel has faulted, memory has failed
 * (ECC), or the GPU has left the bus. */
bool gw_cuda_sticky(cudaError_t status);
/* Whether such an error comes from the GPU itself, its connection, or the service that shares it (MPS), so
 * that no kernel of this process can be its cause. */
bool gw_cuda_broken(cudaError_t status);

#endif
