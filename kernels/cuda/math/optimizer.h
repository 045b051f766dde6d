/* The optimizers (kernels/math/optimizer.h) on a GPU, with the processor's bits, element by element. Calls
 * start work on `stream`; arrays are in the GPU's memory, aligned to 16 bytes. */
#ifndef GODWIT_KERNELS_CUDA_MATH_OPTIMIZER_H
#define GODWIT_KERNELS_CUDA_MATH_OPTIMIZER_H

#include "kernels/math/optimizer.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Do what gw_optimizer_sgd and gw_optimizer_adamw do for `count` elements; `sum` holds the gradient's exact
 * sums. They return how the start went. */
cudaError_t gw_cuda_sgd(const gw_sgd *sgd, uint64_t count, const int64_t *sum, float *parameters,
                        float *velocity, cudaStream_t stream);
cudaError_t gw_cuda_adamw(const gw_adamw *adamw, uint64_t count, const int64_t *sum, float *parameters,
                          float *first, float *second, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
