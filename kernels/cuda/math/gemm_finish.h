/* How products end, and what of that cuBLASLt does not do itself (kernels/cuda/math/gemm.h asks it for it
 * first).
 */
#ifndef GODWIT_KERNELS_CUDA_MATH_GEMM_FINISH_H
#define GODWIT_KERNELS_CUDA_MATH_GEMM_FINISH_H

#include "kernels/cuda/math/factor.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is done to a product before it is written. */
typedef enum gw_gemm_finish {
    GW_GEMM_PLAIN = 0,
    GW_GEMM_BIAS = 1,      /* + bias[column] */
    GW_GEMM_BIAS_RELU = 2, /* max(0, + bias[column]) */
    GW_GEMM_BIAS_GELU = 3, /* GELU (kernels/math/gelu.h) of it + bias[column], which is kept besides */
} gw_gemm_finish;

/* Finishes the plain product in `from` [rows, columns] to c; the two may be one array but for BIAS_GELU, of
 * which `from` then holds what GELU was applied to. A NaN stays one. All of one type, aligned to 16 bytes;
 * rows, columns > 0, and `finish` is not PLAIN. Starts on `stream`. */
cudaError_t gw_cuda_finish(uint64_t rows, uint64_t columns, gw_gemm_finish finish, const void *bias,
                           gw_cuda_factor from, gw_cuda_factor c, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
