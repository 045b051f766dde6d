/* Exact sums as int32 while they travel between GPUs: kernels and memory for net/nccl/narrow.h, whose table
 * has the meaning of these functions. Those that take a stream start work on it. In a build without nvcc each
 * fails with GW_E_UNSUPPORTED. Thread: one at a time for each GPU, whose primary context is current. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_INT32_H
#define GODWIT_KERNELS_CUDA_DEVICE_INT32_H

#include "core/base/err.h"

#include <stdint.h>

/* Allocates `count` words of the GPU's memory, and as many of host memory that the GPU copies to. */
bool gw_int32_open(int gpu, uint32_t count, uint32_t **on_gpu, uint32_t **seen, gw_err *err);
void gw_int32_close(int gpu, uint32_t *on_gpu, uint32_t *seen); /* NULLs are allowed */
bool gw_int32_clear(uint32_t *on_gpu, uint32_t count, void *stream, gw_err *err);
bool gw_int32_measure(const int64_t *in, uint64_t count, uint32_t *word, void *stream, gw_err *err);
bool gw_int32_tell(const uint32_t *on_gpu, uint32_t *seen, uint32_t count, void *stream, gw_err *err);
bool gw_int32_narrow(const int64_t *in, uint64_t count, int64_t *out, void *stream, gw_err *err);
bool gw_int32_widen(int64_t *out, uint64_t count, void *stream, gw_err *err);

#endif
