/* What the files of GPT-2 on a GPU share. */
#ifndef GODWIT_KERNELS_CUDA_MODEL_GPT_INSIDE_H
#define GODWIT_KERNELS_CUDA_MODEL_GPT_INSIDE_H

#include "kernels/cuda/math/attention.h"
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/embedding.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/cuda/model/gpt/gpt.h"
#include "kernels/model/gpt/parameters.h"

/* The products of a layer, y = x w + bias. Their widths are multiples of the channels. */
typedef enum cuda_gpt_linear {
    LINEAR_QKV,
    LINEAR_ATTENDED,
    LINEAR_HIDDEN,
    LINEAR_OUT,
    LINEARS
} cuda_gpt_linear;

typedef struct cuda_gpt_width {
    uint32_t weight; /* number of the weight within the layer; the bias is the next */
    uint32_t in, out;
} cuda_gpt_width;

static const cuda_gpt_width cuda_gpt_widths[LINEARS] = {
    [LINEAR_QKV] = {GW_GPT_QKV_WEIGHT, 1, 3},
    [LINEAR_ATTENDED] = {GW_GPT_ATTENDED_WEIGHT, 1, 1},
    [LINEAR_HIDDEN] = {GW_GPT_HIDDEN_WEIGHT, 1, 4},
    [LINEAR_OUT] = {GW_GPT_OUT_WEIGHT, 4, 1},
};

/* The most rows of a chunk of the head; and where there are several chunks, a divisor of the rows of all but
 * the last. */
enum { GW_CUDA_GPT_CHUNK_ROWS = 8192, GW_CUDA_GPT_CHUNK_UNIT = 128 };

/* The plans of the head's products for `rows` rows. */
typedef struct cuda_gpt_chunk {
    uint64_t rows;
    uint32_t logits, final, words; /* forward; gradients of the input and of the token embedding */
} cuda_gpt_chunk;

/* The plans of the products of shards of `sequences` sequences. */
typedef struct cuda_gpt_plans {
    uint32_t sequences;
    uint32_t forward[LINEARS], inputs[LINEARS], weights[LINEARS];
    cuda_gpt_chunk head, last; /* whole chunks, and the rest, if there is one */
} cuda_gpt_plans;

struct gw_cuda_gpt {
    gw_gpu gpu;
    gw_gpt shape;
    bool recompute, bf16;
    uint32_t columns; /* columns of the logits: the vocabulary rounded up */
    gw_gemm *gemm;
    cuda_gpt_plans sizes[GW_CUDA_GPT_SIZES];
    uint32_t size_count, most;       /* most: the most sequences of a shard */
    size_t most_logits;              /* the most rows of a chunk of the head */
    void *factor[GW_GPT_PARAMETERS]; /* by number: copies as factors; NULL: the state itself is the factor */
    void *memory;                    /* the memory of the factors */
};

/* What a layer keeps for the backward pass. Each array has a row a token. */
typedef struct cuda_gpt_slot {
    gw_cuda_factor norm1, qkv, attended, norm2;
    gw_cuda_factor before, hidden; /* GELU's input and output */
    float *mean1, *scale1, *norms, *mean2, *scale2;
    float *middle; /* the residual stream after attention */
} cuda_gpt_slot;

struct gw_cuda_gpt_lane {
    uint32_t slots;                     /* one a layer, or one for all */
    float *residual[GW_GPT_LAYERS + 1]; /* input of each layer, and output of the last */
    cuda_gpt_slot slot[GW_GPT_LAYERS];
    gw_cuda_factor final, logits; /* with the rows of a shard, and of a chunk */
    float *final_mean, *final_scale;
    gw_cuda_factor branch;       /* a branch's output before it is added; from the head on, a gradient */
    gw_cuda_factor dout;         /* the gradient of a branch's output */
    float *delta;                /* the gradient of the residual stream */
    float *words;                /* the gradient of the token embedding, accumulated */
    float *gradient;             /* the gradient of one other parameter */
    gw_cuda_layernorm_sums sums; /* `weight` has room for any bias's gradient */
    float *parts;                /* scratch of column sums */
    float *dots;                 /* scratch of attention */
    double *of_row;              /* each row's loss */
    gw_cuda_crossent_loss *loss;
    void *workspace;
    void *memory; /* the memory that the pointers point into */
};

/* gpt.c */
const cuda_gpt_plans *cuda_gpt_plans_of(const gw_cuda_gpt_pass *pass);
/* Parameter `number` as a factor. */
const void *cuda_gpt_factor_of(const gw_cuda_gpt_pass *pass, uint32_t number);

/* head.c */
/* Rows of a whole chunk, for a shard of `rows` rows. */
uint64_t cuda_gpt_chunk_rows(uint64_t rows);
bool cuda_gpt_plan_head(gw_cuda_gpt *model, uint64_t rows, cuda_gpt_chunk *chunk, gw_err *err);
/* Computes the loss from the lane's `final`. With a scale that is not 0, it also computes the gradient of
 * `final`, in the lane's branch, and the part of the token embedding's gradient that comes from the logits.
 */
bool cuda_gpt_head(const gw_cuda_gpt_pass *pass, float scale, gw_err *err);

/* forward.c */
static inline cuda_gpt_slot *cuda_gpt_slot_of(const gw_cuda_gpt_pass *pass, uint32_t layer) {
    return &pass->lane->slot[layer % pass->lane->slots];
}
static inline uint64_t cuda_gpt_rows(const gw_cuda_gpt_pass *pass) {
    return (uint64_t)pass->sequences * pass->model->shape.context;
}
/* The dropout of a site, without what pass->drawn adds. */
gw_dropout cuda_gpt_dropout(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_gpt_site site);
gw_cuda_attention cuda_gpt_attention(const gw_cuda_gpt_pass *pass, uint32_t layer);
gw_cuda_embedding cuda_gpt_embedding(const gw_cuda_gpt_pass *pass);
/* The layer norm whose weight is parameter `weight`. */
gw_cuda_layernorm cuda_gpt_norm(const gw_cuda_gpt_pass *pass, uint32_t weight, float *mean, float *scale);
/* Whether a kernel was started. `what` names its work in the message of a failure. */
bool cuda_gpt_good(const gw_cuda_gpt_pass *pass, cudaError_t status, const char *what, gw_err *err);
bool cuda_gpt_multiply(const gw_cuda_gpt_pass *pass, uint32_t plan, const gw_gemm_operands *operands,
                       const char *what, gw_err *err);
/* Computes a layer's slot from residual[layer]. It leaves out the product that ends the
 * layer. */
bool cuda_gpt_keep_layer(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_err *err);

#endif
