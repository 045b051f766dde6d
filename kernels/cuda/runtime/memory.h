/* Memory of a GPU, and host memory that it copies from and to by itself. Failures name GPU and size. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_MEMORY_H
#define GODWIT_KERNELS_CUDA_RUNTIME_MEMORY_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { GW_CUDA_ALIGN = 256 }; /* of what is taken, and of what is laid out in it */

/* Zeroed, at least one byte. The GPU becomes current for the calling thread. Waits for the default stream. */
bool gw_cuda_take(int gpu, size_t bytes, void **memory, gw_err *err);
void gw_cuda_give(int gpu, void *memory); /* NULL is allowed */

/* Pinned host memory, contents undefined, at least one byte. */
bool gw_cuda_pin(int gpu, size_t bytes, void **memory, gw_err *err);
void gw_cuda_unpin(int gpu, void *memory); /* NULL is allowed */

/* `bytes` rounded up to GW_CUDA_ALIGN. */
static inline size_t gw_cuda_aligned(size_t bytes) {
    return (bytes + GW_CUDA_ALIGN - 1) / GW_CUDA_ALIGN * GW_CUDA_ALIGN;
}

#endif
