/* What cuBLASLt's products do not do themselves (kernels/cuda/gemm.h asks it for them first). */
#ifndef GODWIT_KERNELS_CUDA_GEMM_FINISH_H
#define GODWIT_KERNELS_CUDA_GEMM_FINISH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* c[row, column] += bias[column], with `relu` then max(0, it), in place; a NaN stays one. rows, columns > 0.
 * Starts on `stream`. */
cudaError_t gw_cuda_add_bias(uint64_t rows, uint64_t columns, const float *bias, bool relu, float *c,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
