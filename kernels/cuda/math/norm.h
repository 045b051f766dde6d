/* The norm of a gradient (kernels/math/norm.h) on a GPU. */
#ifndef GODWIT_KERNELS_CUDA_MATH_NORM_H
#define GODWIT_KERNELS_CUDA_MATH_NORM_H

#include "kernels/math/norm.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds to words[GW_NORM_WORDS] the norm's terms of `count` sums, as gw_norm_add does; `scale` is the value of
 * a sum's unit. The caller zeroes the words before the first tensor. Starts work on `stream`; calls may run
 * at the same time, since integers are added. Pointers are to the GPU's memory. */
cudaError_t gw_cuda_norm_add(uint64_t count, const int64_t *sum, double scale, int64_t *words,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
