/* The finished sum of a GPU: where a collective receives into, checked there, and in part known on the host.
 * As kernels/device/sums.h is for a processor. Used from one thread at a time. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_SUMS_H
#define GODWIT_KERNELS_CUDA_DEVICE_SUMS_H

#include "kernels/cuda/device/accumulator.h"

typedef struct gw_cuda_sums gw_cuda_sums;

/* `layout` and `accumulator` outlive it. All work is on `stream`, and waited for. Memory for sums with others
 * is taken here, if they will be of the kind `with_others` (0: it is not known), or else by the first one: a
 * copy of the accumulator; for float sums two of half the size besides. By the first one in any case, for
 * segments in host memory, as much again in pinned memory, twice. */
bool gw_cuda_sums_open(int gpu, const gw_layout *layout, gw_cuda_accumulator *accumulator,
                       cudaStream_t stream, gw_reduce with_others, gw_cuda_sums **sums, gw_err *err);
void gw_cuda_sums_close(gw_cuda_sums *sums); /* NULL is allowed */
/* Of the GPU's memory that it will have taken once there are sums with others of that kind (0: none). */
uint64_t gw_cuda_sums_need(const gw_layout *layout, gw_reduce with_others);
uint64_t gw_cuda_sums_bytes(const gw_cuda_sums *sums); /* of the GPU's memory, so far */

/* As gw_device_ops.reduce_begin and .reduce_end, for the step that the accumulator is in. */
bool gw_cuda_sums_begin(gw_cuda_sums *sums, gw_reduce mode, gw_place place, gw_segments *send,
                        gw_segments *receive, gw_err *err);
bool gw_cuda_sums_end(gw_cuda_sums *sums, gw_verdict *verdict, gw_err *err);
/* The accumulator is about to be emptied: a sum that lies in it (ALONE) is forgotten, and so is a reduction
 * that was begun. */
void gw_cuda_sums_release(gw_cuda_sums *sums);

/* The words of the finished sum of `step` in the GPU's memory, or NULL. */
const int64_t *gw_cuda_sums_words(const gw_cuda_sums *sums, uint64_t step);
/* Of the latest finished sum, on the host: a small tensor (core/gpu.h), and the boundary words. */
const int64_t *gw_cuda_sums_small(const gw_cuda_sums *sums, uint32_t tensor);
const int64_t *gw_cuda_sums_boundary(const gw_cuda_sums *sums);

#endif
