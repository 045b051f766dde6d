/* How kernels are started. The numbers of blocks and threads are functions of sizes alone, never of the GPU,
 * so that all GPUs of a kind compute the same bits. */
#ifndef GODWIT_KERNELS_CUDA_MATH_LAUNCH_CUH
#define GODWIT_KERNELS_CUDA_MATH_LAUNCH_CUH

#include <stdint.h>

#ifdef __CUDACC__
/* Starts a kernel on a stream, as kernel<<<grid, block, shared_bytes, stream>>>(...) does; cudaGetLastError
 * returns how that went. A kernel's name that contains a comma stands in parentheses. A compiler of .cu files
 * for another machine than a GPU brings its own definition (tests/gpu_emulated). */
#define GW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                            \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)

/* The address of the kernel's shared_bytes, aligned to 1024 bytes. It is called within a kernel. */
__device__ inline void *gw_dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char gw_shared[];
    return gw_shared;
}
#endif

/* The number of blocks for `count` > 0 elements of which a block takes `each`. A grid may have 2^31 blocks,
 * which is more than any memory has elements for. */
static inline unsigned gw_cuda_blocks(uint64_t count, uint64_t each) {
    return (unsigned)((count + each - 1) / each);
}

#endif
