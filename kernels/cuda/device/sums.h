/* The finished sum of a GPU, the counterpart of kernels/device/sums.h: a collective receives into it, it is
 * checked on the GPU, and parts of it are copied to the host. One thread at a time uses it. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_SUMS_H
#define GODWIT_KERNELS_CUDA_DEVICE_SUMS_H

#include "kernels/cuda/device/accumulator.h"

typedef struct gw_cuda_sums gw_cuda_sums;

/* Opens the sums. `layout` and `accumulator` outlive them. All work runs on `stream` and is waited for.
 * Memory for sums with other peers is allocated here if their mode is known, `with_others`; with 0, the first
 * such sum allocates it. It is a copy of the accumulator, and for FAST two float copies of half the size. The
 * first sum with segments in host memory pins twice that there. */
bool gw_cuda_sums_open(int gpu, const gw_layout *layout, gw_cuda_accumulator *accumulator,
                       cudaStream_t stream, gw_reduce with_others, gw_cuda_sums **sums, gw_err *err);
void gw_cuda_sums_close(gw_cuda_sums *sums); /* NULL is allowed */
/* Bytes of the GPU's memory that sums of this layout have allocated once there are sums with other peers of
 * that mode (0: none). */
uint64_t gw_cuda_sums_need(const gw_layout *layout, gw_reduce with_others);
uint64_t gw_cuda_sums_bytes(const gw_cuda_sums *sums); /* bytes of the GPU's memory allocated so far */

/* Do what gw_device_ops.reduce_begin and .reduce_end do, for the accumulator's step. */
bool gw_cuda_sums_begin(gw_cuda_sums *sums, gw_reduce mode, gw_place place, gw_segments *send,
                        gw_segments *receive, gw_err *err);
bool gw_cuda_sums_end(gw_cuda_sums *sums, gw_verdict *verdict, gw_err *err);
/* Must be called before the accumulator is emptied. Forgets a sum that lies in the accumulator (ALONE), and a
 * reduction that was begun. */
void gw_cuda_sums_release(gw_cuda_sums *sums);

/* The words of the finished sum of `step`, in the GPU's memory; NULL where there is none. */
const int64_t *gw_cuda_sums_words(const gw_cuda_sums *sums, uint64_t step);
/* From the latest finished sum, on the host: a small tensor (core/gpu.h), and the boundary words. */
const int64_t *gw_cuda_sums_small(const gw_cuda_sums *sums, uint32_t tensor);
const int64_t *gw_cuda_sums_boundary(const gw_cuda_sums *sums);

#endif
