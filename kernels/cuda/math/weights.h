/* First weights and constants in a GPU's memory. Random weights have the same bits as on a processor: number
 * i depends on (key, group, i) alone. Calls start work on `stream` and return how the start went. */
#ifndef GODWIT_KERNELS_CUDA_MATH_WEIGHTS_H
#define GODWIT_KERNELS_CUDA_MATH_WEIGHTS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets values[i], for i below `count`, to the normal number i of (key, group) (kernels/math/normal.h) times
 * `deviation`. */
cudaError_t gw_cuda_normal(uint64_t key, uint64_t group, double deviation, uint64_t count, float *values,
                           cudaStream_t stream);

/* Sets values[i], for i below `count`, to the uniform number i of (key, group) in (-bound, bound)
 * (kernels/math/uniform.h). */
cudaError_t gw_cuda_uniform(uint64_t key, uint64_t group, double bound, uint64_t count, float *values,
                            cudaStream_t stream);

/* Sets values[i], for i below `count`, to `value`. */
cudaError_t gw_cuda_fill(uint64_t count, float value, float *values, cudaStream_t stream);

/* Sets *to to `value`. */
cudaError_t gw_cuda_set_double(double *to, double value, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
