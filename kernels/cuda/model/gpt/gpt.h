/* GPT-2 (kernels/model/gpt/gpt.h) on a GPU: forward and backward pass of one shard. Matrix products are
 * cuBLASLt's; attention and the rest are kernels of our own. The operands of products are factors
 * (kernels/cuda/math/factor.h): bfloat16 at that precision, else float32. The residual stream, its gradient
 * and the gradients of parameters are float32 at every precision.
 *
 * Where factors of the weights have the state's type, they are the state itself; gw_cuda_gpt_derive makes
 * bfloat16 copies after each change of the state. The token embedding is copied also where the vocabulary is
 * no multiple of GW_CUDA_GPT_COLUMNS: the copy has rows of zeros behind the vocabulary, so that products have
 * even sizes, and the loss ignores the surplus logits.
 *
 * A lane's memory in bytes depends on R tokens, C channels, L layers, H heads, T positions, V tokens of the
 * vocabulary (rounded up), and F bytes a factor. It consists of
 *
 * - R ((8 + 14 F) C + 4 H + 16) for each layer; with `recompute`, 4 R C for each layer and the rest once;
 * - V F for the logits of each of at most 8192 tokens, a chunk;
 * - R (8 + 3 F) C, 4 V C, 4 C times the larger of 4 C and T, and 32 MiB.
 *
 * For GPT-2 of 124M parameters, with shards of 16 times 1024 tokens in bfloat16, these are 5.4 GB, 0.8 GB and
 * 0.4 GB. The backward pass writes gradients over arrays that are no longer needed. */
#ifndef GODWIT_KERNELS_CUDA_MODEL_GPT_GPT_H
#define GODWIT_KERNELS_CUDA_MODEL_GPT_GPT_H

#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/draw.h"
#include "kernels/cuda/math/gemm.h"
#include "kernels/model/gpt/gpt.h"

typedef struct gw_cuda_gpt gw_cuda_gpt;           /* a model on one GPU */
typedef struct gw_cuda_gpt_lane gw_cuda_gpt_lane; /* the scratch of one shard in flight */

enum {
    GW_CUDA_GPT_SIZES = 4,     /* the most different numbers of sequences that shards have */
    GW_CUDA_GPT_COLUMNS = 128, /* the vocabulary is rounded up to a multiple of this */
};

/* Plans the products for shards of sequences[0 .. count) sequences; repetitions are skipped. The GPU must be
 * current. `gpt` is copied. Fails with GW_E_UNSUPPORTED where the kernels do not support the model's sizes.
 */
bool gw_cuda_gpt_open(const gw_gpu *gpu, const gw_gpt *gpt, bool recompute, const uint32_t *sequences,
                      uint32_t count, gw_cuda_gpt **opened, gw_err *err);
void gw_cuda_gpt_close(gw_cuda_gpt *model); /* NULL is allowed */
/* Writes the text of the model's products, as gw_gemm_text does. */
void gw_cuda_gpt_text(const gw_cuda_gpt *model, char text[GW_GPU_PLAN_TEXT]);

/* Starts the copies of parameters to factors. The caller calls it after each change of the parameters. */
bool gw_cuda_gpt_derive(gw_cuda_gpt *model, const float *const *parameters, cudaStream_t stream, gw_err *err);

/* The bytes of GPU memory that gw_cuda_gpt_lane_open allocates for a lane, which holds the largest planned
 * shard. */
uint64_t gw_cuda_gpt_lane_bytes(const gw_cuda_gpt *model);
bool gw_cuda_gpt_lane_open(const gw_cuda_gpt *model, gw_cuda_gpt_lane **lane, gw_err *err);
void gw_cuda_gpt_lane_close(const gw_cuda_gpt *model, gw_cuda_gpt_lane *lane); /* NULL is allowed */

/* The computation of a shard. Arrays are in the GPU's memory. */
typedef struct gw_cuda_gpt_pass {
    const gw_cuda_gpt *model;
    gw_cuda_gpt_lane *lane;
    const float *const *parameters;   /* by number */
    const uint32_t *tokens, *targets; /* [sequences, context], all below the vocabulary */
    const uint32_t *order, *starts;   /* for backward: the result of gw_embedding_group for the tokens */
    uint32_t sequences;               /* one of the planned numbers */
    float dropout;                    /* as gw_gpt_pass, with the same masks */
    gw_cuda_draw draw;                /* from gw_cuda_gpt_draw; zeros where `drawn` is given */
    const gw_cuda_draw *drawn;        /* the draw in the GPU's memory; or NULL */
    cudaStream_t stream;
} gw_cuda_gpt_pass;

/* The draw of a pass with the key and the shard of a gw_gpt_pass; in host memory. */
gw_cuda_draw gw_cuda_gpt_draw(uint64_t key, uint32_t shard);

/* Starts the forward pass. Sets *loss to an address in the lane, where the sum of -ln p(target) over the
 * tokens will be. With a scale that is not 0, the lane then holds the first gradients, of that sum times
 * `scale`, for the backward pass. */
bool gw_cuda_gpt_forward(const gw_cuda_gpt_pass *pass, float scale, const gw_cuda_crossent_loss **loss,
                         gw_err *err);

/* Starts the backward pass, after the forward pass, and emits the gradient of parameter i as tensor
 * gradients[i], each whole, the last layer's first. */
bool gw_cuda_gpt_backward(const gw_cuda_gpt_pass *pass, const uint32_t *gradients, gw_emitter *emitter,
                          gw_err *err);

#endif
