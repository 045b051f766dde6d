/* Whole numbers of 64 bits as ones of 32, where they fit: what sums between GPUs send fewer bytes by. Pointers
 * are to the GPU's memory. Calls start work on `stream` and return how the start went. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_NARROW_H
#define GODWIT_KERNELS_CUDA_DEVICE_NARROW_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raises *width to the least number of bits, 1 to 64, that holds each of values[count] in two's
 * complement. */
cudaError_t gw_cuda_measure_width(const int64_t *values, uint64_t count, uint32_t *width,
                                  cudaStream_t stream);
/* Writes values[count], each of at most 32 bits, as int32 to the second half of the 8 * count bytes at
 * `room`. */
cudaError_t gw_cuda_narrow(const int64_t *values, uint64_t count, int64_t *room, cudaStream_t stream);
/* Replaces what gw_cuda_narrow has written to room[count], or sums of it, by the values as int64. */
cudaError_t gw_cuda_widen(int64_t *room, uint64_t count, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
