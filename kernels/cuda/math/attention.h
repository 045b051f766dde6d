/* Causal self-attention (kernels/math/attention.h) on a GPU: the same meaning, the same layouts, the same
 * numbering of what dropout drops; sums in an order of their own, which the sizes alone decide. No matrix of
 * positions x positions is kept (after Dao, "FlashAttention-2", 2023).
 *
 * Factors are either all float32, computed in float32, or all bfloat16, multiplied on tensor cores and added
 * up in float32. All start work on `stream`; arrays are the GPU's, aligned to 16 bytes. */
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
    const gw_cuda_draw *drawn; /* the GPU's, instead of dropout.key, and added to dropout.stream; or NULL */
} gw_cuda_attention;

/* Whether the kernels take these sizes: a text why not, or NULL. Heads are at most 128 channels wide, in
 * bfloat16 by steps of 16. */
const char *gw_cuda_attention_refuses(const gw_cuda_attention *shape, bool bf16);

/* Bytes of shared memory that a block of its kernels takes, of a shape that is not refused. A GPU has a limit
 * of its own (cudaDevAttrMaxSharedMemoryPerBlockOptin). */
size_t gw_cuda_attention_shared(const gw_cuda_attention *shape, bool bf16);

/* qkv [rows, 3 channels], out [rows, channels], of one type; norms [rows, heads]: the logarithm of each row's
 * normaliser. */
cudaError_t gw_cuda_attention_forward(const gw_cuda_attention *shape, gw_cuda_factor qkv, gw_cuda_factor out,
                                      float *norms, cudaStream_t stream);

/* Writes dqkv wholly, from `dout`, and what forward read and wrote. dots [rows, heads]: scratch. */
cudaError_t gw_cuda_attention_backward(const gw_cuda_attention *shape, gw_cuda_factor qkv, gw_cuda_factor out,
                                       const float *norms, gw_cuda_factor dout, gw_cuda_factor dqkv,
                                       float *dots, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
