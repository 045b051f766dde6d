#include "core/base/assert.h"
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/embedding.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/cuda/model/gpt/inside.h"
#include "kernels/cuda/runtime/call.h"

gw_dropout cuda_gpt_dropout(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_gpt_site site) {
    gw_dropout dropout = gw_gpt_dropout_at(pass->dropout, pass->draw.key, 0, layer, site);
    dropout.stream += pass->draw.stream;
    return dropout;
}

gw_cuda_draw gw_cuda_gpt_draw(uint64_t key, uint32_t shard) {
    gw_dropout first = gw_gpt_dropout_at(0.0f, key, shard, 0, GW_GPT_SITE_EMBEDDING);
    return (gw_cuda_draw){first.key, first.stream};
}

gw_cuda_attention cuda_gpt_attention(const gw_cuda_gpt_pass *pass, uint32_t layer) {
    const gw_gpt *gpt = &pass->model->shape;
    return (gw_cuda_attention){pass->sequences,
                               gpt->context,
                               gpt->heads,
                               gpt->channels,
                               cuda_gpt_dropout(pass, layer, GW_GPT_SITE_WEIGHTS),
                               pass->drawn};
}

gw_cuda_embedding cuda_gpt_embedding(const gw_cuda_gpt_pass *pass) {
    const gw_gpt *gpt = &pass->model->shape;
    return (gw_cuda_embedding){pass->sequences,
                               gpt->context,
                               gpt->channels,
                               gpt->vocabulary,
                               cuda_gpt_dropout(pass, 0, GW_GPT_SITE_EMBEDDING),
                               pass->drawn};
}

gw_cuda_layernorm cuda_gpt_norm(const gw_cuda_gpt_pass *pass, uint32_t weight, float *mean, float *scale) {
    return (gw_cuda_layernorm){cuda_gpt_rows(pass),
                               pass->model->shape.channels,
                               pass->parameters[weight],
                               pass->parameters[weight + 1],
                               mean,
                               scale};
}

bool cuda_gpt_good(const gw_cuda_gpt_pass *pass, cudaError_t status, const char *what, gw_err *err) {
    return gw_cuda_try(pass->model->gpu.ordinal, status, err, "%s", what);
}

bool cuda_gpt_multiply(const gw_cuda_gpt_pass *pass, uint32_t plan, const gw_gemm_operands *operands,
                       const char *what, gw_err *err) {
    return gw_gemm_run(pass->model->gemm, plan, operands, pass->lane->workspace, pass->stream, err) ||
           gw_fail_in(err, "%s", what);
}

/* Writes x w + bias to y. Where `before` is not NULL, x w + bias goes there, and GELU of it to y. */
static bool apply_linear(const gw_cuda_gpt_pass *pass, uint32_t layer, cuda_gpt_linear which,
                         gw_cuda_factor x, void *before, gw_cuda_factor y, const char *what, gw_err *err) {
    uint32_t weight = gw_gpt_part(layer, cuda_gpt_widths[which].weight);
    gw_gemm_operands operands = {.a = x.values,
                                 .b = cuda_gpt_factor_of(pass, weight),
                                 .bias = cuda_gpt_factor_of(pass, weight + 1),
                                 .before = before,
                                 .c = y.values};
    return cuda_gpt_multiply(pass, cuda_gpt_plans_of(pass)->forward[which], &operands, what, err);
}

/* Adds the lane's branch, after dropout, to x; writes the sum to `sum` and its norm to y. */
static bool add_branch(const gw_cuda_gpt_pass *pass, const gw_cuda_layernorm *norm, const float *x,
                       uint32_t layer, gw_gpt_site site, float *sum, gw_cuda_factor y, gw_err *err) {
    gw_cuda_branch branch = {pass->lane->branch, cuda_gpt_dropout(pass, layer, site), pass->drawn};
    return cuda_gpt_good(pass, gw_cuda_layernorm_add(norm, x, &branch, sum, y, pass->stream),
                         "adding to the residual stream", err);
}

/* Computes a layer from its first norm's output up to its hidden layer. */
static bool run_layer(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_err *err) {
    gw_cuda_gpt_lane *lane = pass->lane;
    cuda_gpt_slot *slot = cuda_gpt_slot_of(pass, layer);
    gw_cuda_attention attention = cuda_gpt_attention(pass, layer);
    gw_cuda_layernorm norm2 =
        cuda_gpt_norm(pass, gw_gpt_part(layer, GW_GPT_NORM2_WEIGHT), slot->mean2, slot->scale2);
    return apply_linear(pass, layer, LINEAR_QKV, slot->norm1, NULL, slot->qkv, "queries, keys and values",
                        err) &&
           cuda_gpt_good(
               pass,
               gw_cuda_attention_forward(&attention, slot->qkv, slot->attended, slot->norms, pass->stream),
               "attention", err) &&
           apply_linear(pass, layer, LINEAR_ATTENDED, slot->attended, NULL, lane->branch,
                        "attention's projection", err) &&
           add_branch(pass, &norm2, lane->residual[layer], layer, GW_GPT_SITE_ATTENDED, slot->middle,
                      slot->norm2, err) &&
           apply_linear(pass, layer, LINEAR_HIDDEN, slot->norm2, slot->before.values, slot->hidden,
                        "the hidden layer", err);
}

bool cuda_gpt_keep_layer(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_err *err) {
    cuda_gpt_slot *slot = cuda_gpt_slot_of(pass, layer);
    gw_cuda_layernorm norm1 =
        cuda_gpt_norm(pass, gw_gpt_part(layer, GW_GPT_NORM1_WEIGHT), slot->mean1, slot->scale1);
    return cuda_gpt_good(
               pass,
               gw_cuda_layernorm_forward(&norm1, pass->lane->residual[layer], slot->norm1, pass->stream),
               "the first norm", err) &&
           run_layer(pass, layer, err);
}

/* Adds the branch of the layer below, which gives residual[layer], and computes the layer. */
static bool continue_layer(const gw_cuda_gpt_pass *pass, uint32_t layer, gw_err *err) {
    cuda_gpt_slot *slot = cuda_gpt_slot_of(pass, layer);
    gw_cuda_layernorm norm1 =
        cuda_gpt_norm(pass, gw_gpt_part(layer, GW_GPT_NORM1_WEIGHT), slot->mean1, slot->scale1);
    return add_branch(pass, &norm1, cuda_gpt_slot_of(pass, layer - 1)->middle, layer - 1, GW_GPT_SITE_OUT,
                      pass->lane->residual[layer], slot->norm1, err) &&
           run_layer(pass, layer, err);
}

static bool forward_layers(const gw_cuda_gpt_pass *pass, gw_err *err) {
    for (uint32_t l = 0; l < pass->model->shape.layers; l++) {
        bool good = (l == 0 ? cuda_gpt_keep_layer(pass, l, err) : continue_layer(pass, l, err)) &&
                    apply_linear(pass, l, LINEAR_OUT, cuda_gpt_slot_of(pass, l)->hidden, NULL,
                                 pass->lane->branch, "the hidden layer's projection", err);
        if (!good) return gw_fail_in(err, "layer %u", l);
    }
    return true;
}

static bool forward_head(const gw_cuda_gpt_pass *pass, float scale, gw_err *err) {
    gw_cuda_gpt_lane *lane = pass->lane;
    const gw_gpt *gpt = &pass->model->shape;
    uint32_t last = gpt->layers - 1;
    gw_cuda_layernorm norm =
        cuda_gpt_norm(pass, gw_gpt_final_weight(gpt), lane->final_mean, lane->final_scale);
    return add_branch(pass, &norm, cuda_gpt_slot_of(pass, last)->middle, last, GW_GPT_SITE_OUT,
                      lane->residual[last + 1], lane->final, err) &&
           cuda_gpt_head(pass, scale, err);
}

bool gw_cuda_gpt_forward(const gw_cuda_gpt_pass *pass, float scale, const gw_cuda_crossent_loss **loss,
                         gw_err *err) {
    gw_cuda_embedding embedding = cuda_gpt_embedding(pass);
    *loss = pass->lane->loss;
    return cuda_gpt_good(pass,
                         gw_cuda_embedding_forward(&embedding, pass->tokens,
                                                   pass->parameters[GW_GPT_TOKEN_EMBEDDING],
                                                   pass->parameters[GW_GPT_POSITION_EMBEDDING],
                                                   pass->lane->residual[0], pass->stream),
                         "embedding", err) &&
           forward_layers(pass, err) && forward_head(pass, scale, err);
}
