#include "core/base/assert.h"
#include "kernels/math/blas.h"
#include "kernels/math/clones.h"
#include "kernels/math/crossent.h"
#include "kernels/math/embedding.h"
#include "kernels/math/gelu.h"
#include "kernels/math/layernorm.h"
#include "kernels/math/linear.h"
#include "kernels/model/gpt/inside.h"

size_t gpt_rows(const gw_gpt_pass *pass) {
    return (size_t)pass->sequences * pass->gpt->context;
}

gw_gpt_slot *gpt_slot(const gw_gpt_pass *pass, uint32_t layer) {
    return &pass->lane->slot[layer % pass->lane->slots];
}

gw_dropout gpt_dropout(const gw_gpt_pass *pass, uint32_t layer, gw_gpt_site site) {
    return gw_gpt_dropout_at(pass->dropout, pass->key, pass->shard, layer, site);
}

gw_attention gpt_attention(const gw_gpt_pass *pass, uint32_t layer) {
    const gw_gpt *gpt = pass->gpt;
    return (gw_attention){pass->sequences, gpt->context, gpt->heads, gpt->channels,
                          gpt_dropout(pass, layer, GW_GPT_SITE_WEIGHTS)};
}

GW_CLONES static void add(size_t count, const float *restrict a, const float *restrict b,
                          float *restrict sum) {
    for (size_t i = 0; i < count; i++) sum[i] = a[i] + b[i];
}

/* Writes residual + dropout(x w + bias) to y, where `weight` is the number of w in its layer. */
static void add_branch(const gw_gpt_pass *pass, uint32_t layer, gw_gpt_site site, uint32_t weight, size_t in,
                       const float *x, const float *residual, float *y) {
    const float *const *p = pass->parameters;
    gw_linear shape = {gpt_rows(pass), in, pass->gpt->channels};
    if (pass->dropout <= 0.0f) {
        gw_linear_forward(&shape, x, p[gw_gpt_part(layer, weight)], p[gw_gpt_part(layer, weight + 1)],
                          residual, y);
        return;
    }
    gw_dropout dropout = gpt_dropout(pass, layer, site);
    float *branch = pass->lane->branch;
    gw_linear_forward(&shape, x, p[gw_gpt_part(layer, weight)], p[gw_gpt_part(layer, weight + 1)], NULL,
                      branch);
    gw_dropout_apply(&dropout, 0, shape.rows * shape.out, branch);
    add(shape.rows * shape.out, residual, branch, y);
}

void gpt_forward_layer(const gw_gpt_pass *pass, uint32_t layer) {
    const float *const *p = pass->parameters;
    gw_gpt_lane *lane = pass->lane;
    gw_gpt_slot *slot = gpt_slot(pass, layer);
    size_t rows = gpt_rows(pass), channels = pass->gpt->channels;
    gw_linear to_qkv = {rows, channels, 3 * channels}, to_hidden = {rows, channels, 4 * channels};
    gw_attention attention = gpt_attention(pass, layer);
    gw_layernorm_forward(rows, channels, lane->residual[layer], p[gw_gpt_part(layer, GW_GPT_NORM1_WEIGHT)],
                         p[gw_gpt_part(layer, GW_GPT_NORM1_BIAS)], slot->norm1, slot->mean1, slot->scale1);
    gw_linear_forward(&to_qkv, slot->norm1, p[gw_gpt_part(layer, GW_GPT_QKV_WEIGHT)],
                      p[gw_gpt_part(layer, GW_GPT_QKV_BIAS)], NULL, slot->qkv);
    gw_attention_forward(&attention, slot->qkv, slot->attended, slot->norms, lane->scratch);
    add_branch(pass, layer, GW_GPT_SITE_ATTENDED, GW_GPT_ATTENDED_WEIGHT, channels, slot->attended,
               lane->residual[layer], slot->middle);
    gw_layernorm_forward(rows, channels, slot->middle, p[gw_gpt_part(layer, GW_GPT_NORM2_WEIGHT)],
                         p[gw_gpt_part(layer, GW_GPT_NORM2_BIAS)], slot->norm2, slot->mean2, slot->scale2);
    gw_linear_forward(&to_hidden, slot->norm2, p[gw_gpt_part(layer, GW_GPT_HIDDEN_WEIGHT)],
                      p[gw_gpt_part(layer, GW_GPT_HIDDEN_BIAS)], NULL, slot->hidden);
    gw_gelu_forward(rows * 4 * channels, slot->hidden, slot->slope);
    add_branch(pass, layer, GW_GPT_SITE_OUT, GW_GPT_OUT_WEIGHT, 4 * channels, slot->hidden, slot->middle,
               lane->residual[layer + 1]);
}

double gw_gpt_forward(const gw_gpt_pass *pass, float scale) {
    const gw_gpt *gpt = pass->gpt;
    const float *const *p = pass->parameters;
    gw_gpt_lane *lane = pass->lane;
    size_t rows = gpt_rows(pass), channels = gpt->channels;
    GW_ASSERT(pass->sequences >= 1 && pass->sequences <= lane->sequences);
    gw_embedding embedding = {pass->sequences, gpt->context, channels, gpt->vocabulary};
    gw_dropout dropout = gpt_dropout(pass, 0, GW_GPT_SITE_EMBEDDING);
    gw_embedding_forward(&embedding, lane->tokens, p[GW_GPT_TOKEN_EMBEDDING], p[GW_GPT_POSITION_EMBEDDING],
                         lane->residual[0]);
    gw_dropout_apply(&dropout, 0, rows * channels, lane->residual[0]);
    for (uint32_t l = 0; l < gpt->layers; l++) gpt_forward_layer(pass, l);
    gw_layernorm_forward(rows, channels, lane->residual[gpt->layers], p[gw_gpt_final_weight(gpt)],
                         p[gw_gpt_final_bias(gpt)], lane->final, lane->final_mean, lane->final_scale);
    gw_blas_multiply(rows, gpt->vocabulary, channels, (gw_operand){lane->final, channels, GW_PLAIN},
                     (gw_operand){p[GW_GPT_TOKEN_EMBEDDING], channels, GW_TRANSPOSED}, 0.0f, lane->logits,
                     lane->logits_stride);
    return gw_crossent(rows, gpt->vocabulary, lane->logits_stride, lane->logits, lane->targets, scale);
}
