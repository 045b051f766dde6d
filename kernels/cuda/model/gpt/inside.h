/* GPT-2 on a GPU from inside: between kernels/cuda/gpt*.c only. */
#ifndef GODWIT_KERNELS_CUDA_MODEL_GPT_INSIDE_H
#define GODWIT_KERNELS_CUDA_MODEL_GPT_INSIDE_H

#include "kernels/cuda/math/attention.h"
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/embedding.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/cuda/model/gpt/gpt.h"
#include "kernels/model/gpt/parameters.h"

/* The products of a layer: y = x w + bias, as wide as so many times the channels. */
typedef enum cuda_gpt_linear {
    LINEAR_QKV,
    LINEAR_ATTENDED,
    LINEAR_HIDDEN,
    LINEAR_OUT,
    LINEARS
} cuda_gpt_linear;

typedef struct cuda_gpt_width {
    uint32_t weight; /* its part of the layer; the bias is the next */
    uint32_t in, out;
} cuda_gpt_width;

static const cuda_gpt_width cuda_gpt_widths[LINEARS] = {
    [LINEAR_QKV] = {GW_GPT_QKV_WEIGHT, 1, 3},
    [LINEAR_ATTENDED] = {GW_GPT_ATTENDED_WEIGHT, 1, 1},
    [LINEAR_HIDDEN] = {GW_GPT_HIDDEN_WEIGHT, 1, 4},
    [LINEAR_OUT] = {GW_GPT_OUT_WEIGHT, 4, 1},
};

/* Most rows of a chunk of the head; what the rows of all but the last are a multiple of, if there are
 * several. */
enum { GW_CUDA_GPT_CHUNK_ROWS = 8192, GW_CUDA_GPT_CHUNK_UNIT = 128 };

/* Plans of the head's products of so many rows. */
typedef struct cuda_gpt_chunk {
    uint64_t rows;
    uint32_t logits, final, words; /* forward, gradient of its input, gradient of the words */
} cuda_gpt_chunk;

/* Plans of the products of shards of so many sequences. */
typedef struct cuda_gpt_plans {
    uint32_t sequences;
    uint32_t forward[LINEARS], inputs[LINEARS], weights[LINEARS];
    cuda_gpt_chunk head, last; /* whole chunks; what is left when these are taken, if anything */
} cuda_gpt_plans;

struct gw_cuda_gpt {
    gw_gpu gpu;
    gw_gpt shape;
    bool recompute, bf16;
    uint32_t columns; /* of the logits: the vocabulary rounded up */
    gw_gemm *gemm;
    cuda_gpt_plans sizes[GW_CUDA_GPT_SIZES];
    uint32_t size_count, most;       /* most sequences of a shard */
    size_t most_logits;              /* most rows of a chunk of the head */
    void *factor[GW_GPT_PARAMETERS]; /* by number: copies as factors; NULL: there is none */
    void *memory;                    /* what they point into */
};

/* What a layer keeps for the backward pass; each array has a row a token. */
typedef struct cuda_gpt_slot {
    gw_cuda_factor norm1, qkv, attended, norm2;
    gw_cuda_factor before, hidden; /* GELU's input and output */
    float *mean1, *scale1, *norms, *mean2, *scale2;
    float *middle; /* the residual stream after attention */
} cuda_gpt_slot;

struct gw_cuda_gpt_lane {
    uint32_t slots;                     /* one a layer, or one for all */
    float *residual[GW_GPT_LAYERS + 1]; /* what enters each layer, and what leaves the last */
    cuda_gpt_slot slot[GW_GPT_LAYERS];
    gw_cuda_factor final, logits; /* of a shard's rows, and of a chunk's */
    float *final_mean, *final_scale;
    gw_cuda_factor branch;       /* of one branch: its output before it is added; or a gradient on its way,
                                    from the head's on */
    gw_cuda_factor dout;         /* the gradient of a branch's output */
    float *delta;                /* the residual stream's gradient on its way down */
    float *words;                /* the words' gradient, as it comes about */
    float *gradient;             /* of one other parameter */
    gw_cuda_layernorm_sums sums; /* `weight` has room for any bias's gradient */
    float *parts;                /* of columns' sums */
    float *dots;                 /* attention's */
    double *of_row;              /* a row's loss */
    gw_cuda_crossent_loss *loss;
    void *workspace;
    void *memory; /* what they all point into */
};

/* ---- gpt.c ---- */
const cuda_gpt_plans *cuda_gpt_plans_of(const gw_cuda_gpt_pass *pass);
/* Parameter `number` as a factor. */
const void *cuda_gpt_factor_of(const gw_cuda_gpt_pass *pass, uint32_t number);

/* ---- gpt_head.c ---- */
/* Of the whole chunks of a shard of so many rows. */
uint64_t cuda_gpt_chunk_rows(uint64_t rows);
bool cuda_gpt_plan_head(gw_cuda_gpt *model, uint64_t rows, cuda_gpt_chunk *chunk, gw_err *err);
/* From the lane's `final` to the loss; with a scale that is not 0 also to the gradients of `final`, in the
 * lane's branch, and of the words, as far as it is the logits'. */
bool cuda_gpt_head(const gw_cuda_gpt_pass *pass, float scale, gw_err *err);

/* ---- gpt_forward.c ---- */
static inline cuda_gpt_slot *cuda_gpt_slot_of(const gw_cuda_gpt_pass *pass, uint32_t layer) {
    return &pass->lane->slot[layer % pass->lane->slots];
}
static inline uint64_t cuda_gpt_rows(const gw_cuda_gpt_pass *pass) {
    return (uint64_t)pass->sequences * pass->model->shape.context;
}
/* Of a site; less what is pass->drawn. */
gw_dropout cuda_gpt_dropout(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_gpt_site site);
gw_cuda_attention cuda_gpt_attention(const gw_cuda_gpt_pass *pass, uint32_t layer);
gw_cuda_embedding cuda_gpt_embedding(const gw_cuda_gpt_pass *pass);
/* The layer norm whose weight is parameter `weight`. */
gw_cuda_layernorm cuda_gpt_norm(const gw_cuda_gpt_pass *pass, uint32_t weight, float *mean, float *scale);
/* Whether the start of a kernel went well; `what` it does, for the message. */
bool cuda_gpt_good(const gw_cuda_gpt_pass *pass, cudaError_t status, const char *what, gw_err *err);
bool cuda_gpt_multiply(const gw_cuda_gpt_pass *pass, uint32_t plan, const gw_gemm_operands *operands,
                       const char *what, gw_err *err);
/* From residual[layer] to what the layer keeps, but for the product that ends it. */
bool cuda_gpt_keep_layer(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_err *err);

#endif
