/* GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019): a transformer with
 * layer norms before its branches, learned positions, GELU in its tanh form, and one matrix for the tokens'
 * embedding and the output layer.
 *
 * Parameters are numbered as gw_gpt_parameter_of describes and lie as in GPT-2's published files: weights are
 * [in, out], and queries, keys and values lie side by side. A shard is a few sequences of `context` tokens.
 * The shape of every product depends on the model and the number of sequences alone. */
#ifndef GODWIT_KERNELS_MODEL_GPT_GPT_H
#define GODWIT_KERNELS_MODEL_GPT_GPT_H

#include "core/godwit.h"

enum {
    GW_GPT_LAYERS = 80, /* the most layers: their tensors must fit GW_MAX_TENSORS */
    GW_GPT_PARTS = 12,  /* number of a layer's parameters */
    GW_GPT_PARAMETERS = 4 + GW_GPT_LAYERS * GW_GPT_PARTS,
    GW_GPT_ROWS = 1 << 20, /* the most tokens of a shard */
};

typedef struct gw_gpt {
    uint32_t layers, heads, channels, context, vocabulary; /* `heads` divides `channels` */
} gw_gpt;

typedef struct gw_gpt_parameter {
    char name[40]; /* GPT-2's: "h.0.attn.c_attn.weight" */
    uint32_t rank;
    uint64_t dim[2];
    uint32_t bucket;           /* bucket of its gradient; buckets rise in the order of emission, from 0 */
    float constant, deviation; /* initial values: normal with this deviation, or the constant where it is 0 */
} gw_gpt_parameter;

uint32_t gw_gpt_parameters(const gw_gpt *gpt); /* number of parameters: 4, and 12 a layer */
gw_gpt_parameter gw_gpt_parameter_of(const gw_gpt *gpt, uint32_t number);
/* The number of elements of all parameters. */
uint64_t gw_gpt_size(const gw_gpt *gpt);

/* What a layer keeps for the backward pass. Each array has a row a token. */
typedef struct gw_gpt_slot {
    float *norm1, *mean1, *scale1; /* output, mean and 1 / deviation of the first layer norm */
    float *qkv, *attended, *norms;
    float *middle; /* the residual stream after attention */
    float *norm2, *mean2, *scale2;
    float *hidden, *slope; /* output and slope of GELU */
} gw_gpt_slot;

/* One worker's scratch. The caller fills `tokens` and `targets`. */
typedef struct gw_gpt_lane {
    uint32_t sequences;                 /* the most sequences */
    uint32_t *tokens, *targets;         /* [sequences, context] */
    uint32_t slots;                     /* one a layer; or 1, and layers are computed twice */
    float *residual[GW_GPT_LAYERS + 1]; /* input of each layer, and output of the last */
    gw_gpt_slot slot[GW_GPT_LAYERS];
    float *final, *final_mean, *final_scale, *logits;
    float *delta;         /* the gradient of the residual stream */
    float *branch;        /* a branch's output before it is added, or its gradient */
    float *wide;          /* gradients, [rows, 4 channels] */
    float *piece;         /* a piece of a gradient that is emitted */
    float *scratch;       /* scratch of attention */
    uint64_t *order;      /* scratch of the embedding's gradient */
    size_t logits_stride; /* distance of rows of `logits` in floats */
    void *memory;         /* the memory that the pointers point into */
    size_t bytes;
} gw_gpt_lane;

/* Bytes that a lane for `sequences` sequences takes. With `recompute`, most of a layer is computed again in
 * the backward pass and not kept: it takes less memory and a third more work, and gives the same bytes. */
size_t gw_gpt_lane_bytes(const gw_gpt *gpt, uint32_t sequences, bool recompute);
bool gw_gpt_lane_open(const gw_gpt *gpt, uint32_t sequences, bool recompute, gw_gpt_lane *lane, gw_err *err);
void gw_gpt_lane_close(gw_gpt_lane *lane);

/* The computation of a shard. */
typedef struct gw_gpt_pass {
    const gw_gpt *gpt;
    const float *const *parameters; /* by number */
    gw_gpt_lane *lane;
    uint32_t sequences; /* 1 to lane->sequences */
    float dropout;      /* dropout rate of a training step */
    uint64_t key;       /* key of dropout's masks, from the seed and the step */
    uint32_t shard;
} gw_gpt_pass;

/* Returns the sum of -ln p(target) over the lane's tokens. With a scale that is not 0, the gradient of that
 * sum times `scale` replaces the logits, for gw_gpt_backward. */
double gw_gpt_forward(const gw_gpt_pass *pass, float scale);

/* Emits, after gw_gpt_forward, the gradient of parameter i as tensor gradients[i]: the last layer's first,
 * each piece as soon as it is final. */
void gw_gpt_backward(const gw_gpt_pass *pass, const uint32_t *gradients, gw_emitter *emitter);

#endif
