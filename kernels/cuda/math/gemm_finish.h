/* The finishes of products (bias, activation), and kernels for those that cuBLASLt does not compute itself;
 * kernels/cuda/math/gemm.h asks the library first. */
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
    GW_GEMM_BIAS_RELU = 2, /* max(0, product + bias[column]) */
    /* GELU (kernels/math/gelu.h) of product + bias[column]; its input is kept as well */
    GW_GEMM_BIAS_GELU = 3,
} gw_gemm_finish;

/* Finishes the plain product in from[rows, columns] and writes c. Both may be one array, except with
 * BIAS_GELU, where `from` keeps GELU's input. A NaN stays NaN. All arrays have one type and are aligned to 16
 * bytes; rows and columns are above 0, and `finish` is not PLAIN. Starts work on `stream`. */
cudaError_t gw_cuda_finish(uint64_t rows, uint64_t columns, gw_gemm_finish finish, const void *bias,
                           gw_cuda_factor from, gw_cuda_factor c, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
