/* The loss of a classifier (kernels/math/loss.h) on a GPU. */
#ifndef GODWIT_KERNELS_CUDA_MATH_LOSS_H
#define GODWIT_KERNELS_CUDA_MATH_LOSS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The loss of a shard. */
typedef struct gw_cuda_loss {
    int64_t correct, count; /* rows whose largest logit is the label's; all rows */
    float sum;              /* of -ln p(label) over the rows */
} gw_cuda_loss;

/* Does what gw_loss_softmax does: the gradient replaces logits[rows, classes], with the processor's bits; the
 * loss's sum is added in another order. `of_row` is scratch for a double a row. A label that is not below
 * `classes` makes the row's results NaN. Starts work on `stream` and returns how the start went. */
cudaError_t gw_cuda_softmax_loss(uint64_t rows, uint32_t classes, float *logits, const uint8_t *labels,
                                 float scale, double *of_row, gw_cuda_loss *loss, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
