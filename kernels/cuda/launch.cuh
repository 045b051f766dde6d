/* What all kernels share. Launch shapes are functions of sizes alone, never of the GPU. */
#ifndef GODWIT_KERNELS_CUDA_LAUNCH_CUH
#define GODWIT_KERNELS_CUDA_LAUNCH_CUH

#include <stdint.h>

/* Blocks for `count` > 0 elements, `each` of them a block; a grid has room for 2^31 blocks, which is more
 * than any memory. */
static inline unsigned gw_cuda_blocks(uint64_t count, uint64_t each) {
    return (unsigned)((count + each - 1) / each);
}

#endif
