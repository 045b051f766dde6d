/* What all kernels share. Blocks and threads are functions of sizes alone, never of the GPU. */
#ifndef GODWIT_KERNELS_CUDA_MATH_LAUNCH_CUH
#define GODWIT_KERNELS_CUDA_MATH_LAUNCH_CUH

#include <stdint.h>

#ifdef __CUDACC__
/* Starts a kernel on a stream, as kernel<<<grid, block, shared_bytes, stream>>>(...); cudaGetLastError says
 * how that went. A name with a comma in it goes in parentheses. What compiles a .cu file for something else
 * than a GPU brings its own (tests/gpu_emulated). */
#define GW_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                            \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)

/* Within a kernel: where its shared_bytes lie, aligned to 1024 bytes. */
__device__ inline void *gw_dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char gw_shared[];
    return gw_shared;
}
#endif

/* Blocks for `count` > 0 elements, `each` of them a block; a grid has room for 2^31 blocks, which is more
 * than any memory. */
static inline unsigned gw_cuda_blocks(uint64_t count, uint64_t each) {
    return (unsigned)((count + each - 1) / each);
}

#endif
