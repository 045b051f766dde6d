/* What dropout draws by in one shard, where kernels read it from the GPU's memory instead of being given it:
 * kernels that are recorded once (kernels/cuda/runtime/graph.h) serve every shard so. */
#ifndef GODWIT_KERNELS_CUDA_MATH_DRAW_H
#define GODWIT_KERNELS_CUDA_MATH_DRAW_H

#include <stdint.h>

typedef struct gw_cuda_draw {
    uint64_t key;    /* of the generator (kernels/math/dropout.h) */
    uint64_t stream; /* of the shard; a site's own is added */
} gw_cuda_draw;

#endif
