/* Causal self-attention (kernels/math/attention.h) on a GPU, with the same meaning, layouts and numbering of
 * dropped elements. Sums have an order of their own, which depends on the sizes alone. No matrix of positions
 * x positions is kept (Dao, "FlashAttention-2", 2023).
 *
 * Factors are all float32 and computed in float32, or all bfloat16, multiplied on tensor cores and added in
 * float32. Calls start work on `stream`; arrays are in the GPU's memory, aligned to 16 bytes. */
#ifndef GODWIT_KERNELS_CUDA_MATH_ATTENTION_H
#define GODWIT_KERNELS_CUDA_MATH_ATTENTION_H

#include "kernels/cuda/math/draw.h"
#include "kernels/cuda/math/factor.h"
#include "kernels/math/dropout.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_cuda_attention {
    uint32_t sequences, positions, heads, channels;
    gw_dropout dropout;
    /* in the GPU's memory: replaces dropout.key and is added to dropout.stream; or NULL */
    const gw_cuda_draw *drawn;
} gw_cuda_attention;

/* Returns NULL where the kernels support these sizes, otherwise a text that says why not. A head has at most
 * 128 channels, in bfloat16 a multiple of 16. */
const char *gw_cuda_attention_refuses(const gw_cuda_attention *shape, bool bf16);

/* Bytes of shared memory that a block of the kernels takes, for supported sizes. The GPU's limit is
 * cudaDevAttrMaxSharedMemoryPerBlockOptin. */
size_t gw_cuda_attention_shared(const gw_cuda_attention *shape, bool bf16);

/* Reads qkv[rows, 3 channels]; writes out[rows, channels], of the same type, and norms[rows, heads], the
 * logarithm of each row's normaliser. */
cudaError_t gw_cuda_attention_forward(const gw_cuda_attention *shape, gw_cuda_factor qkv, gw_cuda_factor out,
                                      float *norms, cudaStream_t stream);

/* Writes all of dqkv from `dout` and from what forward read and wrote. dots[rows, heads] is scratch. */
cudaError_t gw_cuda_attention_backward(const gw_cuda_attention *shape, gw_cuda_factor qkv, gw_cuda_factor out,
                                       const float *norms, gw_cuda_factor dout, gw_cuda_factor dqkv,
                                       float *dots, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
