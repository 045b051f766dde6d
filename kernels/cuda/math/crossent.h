/* The cross-entropy of kernels/math/crossent.h on a GPU. Calls start work on `stream` and return how the
 * start went. Arrays are in the GPU's memory, row-major, and aligned to 16 bytes. */
#ifndef GODWIT_KERNELS_CUDA_MATH_CROSSENT_H
#define GODWIT_KERNELS_CUDA_MATH_CROSSENT_H

#include "kernels/cuda/math/factor.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The loss of a shard. */
typedef struct gw_cuda_crossent_loss {
    int64_t tokens; /* number of rows */
    float sum;      /* of -ln p(target) over the rows */
} gw_cuda_crossent_loss;

/* Writes the loss of each row to of_row[rows]. The first `vocabulary` columns of logits[rows, stride] count.
 * With a scale that is not 0, the gradient (softmax - one-hot) * scale replaces the logits, and 0 the other
 * columns; with scale 0 the logits are left alone. A target that is not below `vocabulary`, or a logit that
 * is NaN, makes the loss NaN. */
cudaError_t gw_cuda_crossent(uint64_t rows, uint32_t vocabulary, uint32_t stride, gw_cuda_factor logits,
                             const uint32_t *targets, float scale, double *of_row, cudaStream_t stream);
/* Writes the loss of a shard, from the losses of all its rows, added in a fixed order. */
cudaError_t gw_cuda_crossent_sum(uint64_t rows, const double *of_row, gw_cuda_crossent_loss *loss,
                                 cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
