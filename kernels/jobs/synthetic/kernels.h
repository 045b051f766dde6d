/* The kernels of the `synthetic` job; kernels/jobs/synthetic/noise.h defines what they compute. Calls start
 * work on `stream`; pointers are to the GPU's memory. */
#ifndef GODWIT_KERNELS_JOBS_SYNTHETIC_KERNELS_H
#define GODWIT_KERNELS_JOBS_SYNTHETIC_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Write cells[0 .. count) and digest[0 .. count) of S_0. */
cudaError_t gw_cuda_synthetic_cells(uint64_t key, uint64_t count, float *cells, cudaStream_t stream);
cudaError_t gw_cuda_synthetic_digest(uint64_t count, int64_t *digest, cudaStream_t stream);

/* Writes push[0 .. count), with element `bad` not a number (UINT64_MAX: none), and *mean, the mean of its
 * squares. `parts` is scratch for GW_CUDA_SYNTHETIC_PARTS doubles. */
enum { GW_CUDA_SYNTHETIC_PARTS = 256 };
cudaError_t gw_cuda_synthetic_push(uint64_t key, uint64_t count, uint64_t bad, const float *cells,
                                   float *push, double *parts, float *mean, cudaStream_t stream);

/* Updates cells[0 .. count); cell i moves towards the mean of push[i mod pushed], and `scale` makes the sum
 * the mean. */
cudaError_t gw_cuda_synthetic_follow(uint64_t count, uint64_t pushed, const int64_t *push, double scale,
                                     float *cells, cudaStream_t stream);
/* Extends each hash chain digest[k], for k < words, by every words-th element of push from k on and by
 * *counted. */
cudaError_t gw_cuda_synthetic_chain(uint64_t words, uint64_t pushed, const int64_t *push,
                                    const int64_t *counted, int64_t *digest, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
