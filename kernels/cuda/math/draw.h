/* The source of a shard's dropout, where kernels read it from the GPU's memory and do not receive it as an
 * argument. Kernels that are recorded once (kernels/cuda/runtime/graph.h) then serve every shard. */
#ifndef GODWIT_KERNELS_CUDA_MATH_DRAW_H
#define GODWIT_KERNELS_CUDA_MATH_DRAW_H

#include <stdint.h>

typedef struct gw_cuda_draw {
    uint64_t key;    /* key of the generator (kernels/math/dropout.h) */
    uint64_t stream; /* stream of the shard, to which a site's own is added */
} gw_cuda_draw;

#endif
