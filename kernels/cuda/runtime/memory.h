/* Memory of a GPU, and host memory that the GPU copies from and to by itself. Messages name GPU and size. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_MEMORY_H
#define GODWIT_KERNELS_CUDA_RUNTIME_MEMORY_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { GW_CUDA_ALIGN = 256 }; /* alignment of allocations, and of what is laid out in them */

/* Allocates zeroed memory, at least one byte. Makes the GPU current for the calling thread. Waits for the
 * default stream. */
bool gw_cuda_allocate(int gpu, size_t bytes, void **memory, gw_err *err);
void gw_cuda_free(int gpu, void *memory); /* NULL is allowed */

/* Allocates pinned host memory with undefined contents, at least one byte. */
bool gw_cuda_pin(int gpu, size_t bytes, void **memory, gw_err *err);
void gw_cuda_unpin(int gpu, void *memory); /* NULL is allowed */

/* `bytes` rounded up to GW_CUDA_ALIGN. */
static inline size_t gw_cuda_aligned(size_t bytes) {
    return (bytes + GW_CUDA_ALIGN - 1) / GW_CUDA_ALIGN * GW_CUDA_ALIGN;
}

#endif
