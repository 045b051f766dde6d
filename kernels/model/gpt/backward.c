#include "core/base/assert.h"
#include "kernels/math/blas.h"
#include "kernels/math/embedding.h"
#include "kernels/math/gelu.h"
#include "kernels/math/layernorm.h"
#include "kernels/math/linear.h"
#include "kernels/model/gpt/inside.h"

#include <string.h>

/* A backward pass and the receiver of its gradients. */
typedef struct backward_pass {
    const gw_gpt_pass *pass;
    const uint32_t *gradients;
    gw_emitter *emitter;
} backward_pass;

/* Adds to delta the gradient that passes through a layer norm, and emits the norm's gradients. */
static void norm_backward(const backward_pass *d, const float *x, const float *mean, const float *scale,
                          const float *dy, uint32_t weight) {
    gw_gpt_lane *lane = d->pass->lane;
    size_t channels = d->pass->gpt->channels;
    float *dweight = lane->piece, *dbias = lane->piece + channels;
    gw_layernorm_backward(gpt_rows(d->pass), channels, x, d->pass->parameters[weight], mean, scale, dy,
                          lane->delta, dweight, dbias);
    gw_emit(d->emitter, d->gradients[weight], 0, channels, dweight);
    gw_emit(d->emitter, d->gradients[weight + 1], 0, channels, dbias);
}

static void emit_linear(const backward_pass *d, size_t in, size_t out, const float *x, const float *dy,
                        uint32_t weight) {
    gw_linear shape = {gpt_rows(d->pass), in, out};
    gw_linear_emit(&shape, x, dy, d->gradients[weight], d->gradients[weight + 1], d->pass->lane->piece,
                   d->emitter);
}

static void linear_backward(const backward_pass *d, size_t in, size_t out, const float *dy, uint32_t weight,
                            float *dx) {
    gw_linear shape = {gpt_rows(d->pass), in, out};
    gw_linear_backward(&shape, dy, d->pass->parameters[weight], dx);
}

/* The gradient of what a branch added to the residual stream: delta, with dropout applied. */
static const float *branch_gradient(const backward_pass *d, uint32_t layer, gw_gpt_site site) {
    gw_gpt_lane *lane = d->pass->lane;
    if (d->pass->dropout <= 0.0f) return lane->delta;
    size_t count = gpt_rows(d->pass) * d->pass->gpt->channels;
    gw_dropout dropout = gpt_dropout(d->pass, layer, site);
    memcpy(lane->branch, lane->delta, count * sizeof *lane->branch);
    gw_dropout_apply(&dropout, 0, count, lane->branch);
    return lane->branch;
}

static void backward_layer(const backward_pass *d, uint32_t layer) {
    const gw_gpt_pass *pass = d->pass;
    gw_gpt_lane *lane = pass->lane;
    const gw_gpt_slot *slot = gpt_slot(pass, layer);
    size_t rows = gpt_rows(pass), c = pass->gpt->channels;
    gw_attention attention = gpt_attention(pass, layer);

    const float *dout = branch_gradient(d, layer, GW_GPT_SITE_OUT);
    linear_backward(d, 4 * c, c, dout, gw_gpt_part(layer, GW_GPT_OUT_WEIGHT), lane->wide);
    emit_linear(d, 4 * c, c, slot->hidden, dout, gw_gpt_part(layer, GW_GPT_OUT_WEIGHT));
    gw_gelu_backward(rows * 4 * c, slot->slope, lane->wide);
    linear_backward(d, c, 4 * c, lane->wide, gw_gpt_part(layer, GW_GPT_HIDDEN_WEIGHT), lane->branch);
    emit_linear(d, c, 4 * c, slot->norm2, lane->wide, gw_gpt_part(layer, GW_GPT_HIDDEN_WEIGHT));
    norm_backward(d, slot->middle, slot->mean2, slot->scale2, lane->branch,
                  gw_gpt_part(layer, GW_GPT_NORM2_WEIGHT));

    const float *dattended = branch_gradient(d, layer, GW_GPT_SITE_ATTENDED);
    float *dinside = slot->norm2; /* the slot's array is no longer needed */
    linear_backward(d, c, c, dattended, gw_gpt_part(layer, GW_GPT_ATTENDED_WEIGHT), dinside);
    emit_linear(d, c, c, slot->attended, dattended, gw_gpt_part(layer, GW_GPT_ATTENDED_WEIGHT));
    gw_attention_backward(&attention, slot->qkv, slot->attended, slot->norms, dinside, lane->wide,
                          lane->scratch);
    linear_backward(d, c, 3 * c, lane->wide, gw_gpt_part(layer, GW_GPT_QKV_WEIGHT), lane->branch);
    emit_linear(d, c, 3 * c, slot->norm1, lane->wide, gw_gpt_part(layer, GW_GPT_QKV_WEIGHT));
    norm_backward(d, lane->residual[layer], slot->mean1, slot->scale1, lane->branch,
                  gw_gpt_part(layer, GW_GPT_NORM1_WEIGHT));
}

static void backward_head(const backward_pass *d) {
    const gw_gpt *gpt = d->pass->gpt;
    gw_gpt_lane *lane = d->pass->lane;
    size_t rows = gpt_rows(d->pass), channels = gpt->channels;
    gw_blas_multiply(rows, channels, gpt->vocabulary,
                     (gw_operand){lane->logits, lane->logits_stride, GW_PLAIN},
                     (gw_operand){d->pass->parameters[GW_GPT_TOKEN_EMBEDDING], channels, GW_PLAIN}, 0.0f,
                     lane->branch, channels);
    memset(lane->delta, 0, rows * channels * sizeof *lane->delta);
    norm_backward(d, lane->residual[gpt->layers], lane->final_mean, lane->final_scale, lane->branch,
                  gw_gpt_final_weight(gpt));
}

void gw_gpt_backward(const gw_gpt_pass *pass, const uint32_t *gradients, gw_emitter *emitter) {
    const gw_gpt *gpt = pass->gpt;
    gw_gpt_lane *lane = pass->lane;
    size_t rows = gpt_rows(pass);
    backward_pass d = {pass, gradients, emitter};
    backward_head(&d);
    for (uint32_t l = gpt->layers; l-- > 0;) {
        if (lane->slots == 1 && l + 1 < gpt->layers) gpt_forward_layer(pass, l);
        backward_layer(&d, l);
    }
    gw_embedding embedding = {pass->sequences, gpt->context, gpt->channels, gpt->vocabulary};
    gw_dropout dropout = gpt_dropout(pass, 0, GW_GPT_SITE_EMBEDDING);
    gw_dropout_apply(&dropout, 0, rows * gpt->channels, lane->delta);
    gw_embedding_emit_positions(&embedding, lane->delta, gradients[GW_GPT_POSITION_EMBEDDING], lane->piece,
                                emitter);
    gw_embedding_emit_tokens(&embedding, lane->tokens, lane->delta, lane->logits, lane->logits_stride,
                             lane->final, gradients[GW_GPT_TOKEN_EMBEDDING], lane->piece, lane->order,
                             emitter);
}
