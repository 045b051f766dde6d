#include "kernels/cuda/math/embedding.h"
#include "kernels/cuda/math/gelu.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/cuda/model/gpt/inside.h"

/* A backward pass and the receiver of its gradients. */
typedef struct backward_pass {
    const gw_cuda_gpt_pass *pass;
    const uint32_t *gradients;
    gw_emitter *emitter;
} backward_pass;

static void emit(const backward_pass *d, uint32_t number, uint64_t count, const float *gradient) {
    gw_emit(d->emitter, d->gradients[number], 0, count, gradient);
}

/* Computes and emits the gradient of a product's weights, from its input x and the gradient of its output. */
static bool emit_weights(const backward_pass *d, uint32_t layer, cuda_gpt_linear which, gw_cuda_factor x,
                         gw_cuda_factor dy, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    const cuda_gpt_width *width = &cuda_gpt_widths[which];
    uint64_t channels = pass->model->shape.channels;
    gw_gemm_operands operands = {.a = x.values, .b = dy.values, .c = pass->lane->gradient};
    if (!cuda_gpt_multiply(pass, cuda_gpt_plans_of(pass)->weights[which], &operands, "gradient of weights",
                           err))
        return false;
    emit(d, gw_gpt_part(layer, width->weight), width->in * channels * width->out * channels,
         pass->lane->gradient);
    return true;
}

/* Writes dy w^T, the gradient of a product's input, to dx. */
static bool linear_backward(const backward_pass *d, uint32_t layer, cuda_gpt_linear which, gw_cuda_factor dy,
                            gw_cuda_factor dx, gw_err *err) {
    gw_gemm_operands operands = {
        .a = dy.values,
        .b = cuda_gpt_factor_of(d->pass, gw_gpt_part(layer, cuda_gpt_widths[which].weight)),
        .c = dx.values};
    return cuda_gpt_multiply(d->pass, cuda_gpt_plans_of(d->pass)->inputs[which], &operands,
                             "gradient of a product's input", err);
}

/* Computes the gradient of a norm's input x from that of its output, which is in the lane's branch: adds it
 * to `above` and writes delta. The branch of `site`, whose output is part of x, gets its gradient in the
 * lane's dout; `bias` is the number of the bias of its product. Emits the gradients of the norm and of that
 * bias. */
static bool norm_backward(const backward_pass *d, uint32_t weight, float *mean, float *scale, const float *x,
                          const float *above, uint32_t layer, gw_gpt_site site, uint32_t bias, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    gw_cuda_gpt_lane *lane = pass->lane;
    gw_cuda_layernorm norm = cuda_gpt_norm(pass, weight, mean, scale);
    gw_cuda_branch branch = {lane->dout, cuda_gpt_dropout(pass, layer, site), pass->drawn};
    bool added = site != GW_GPT_SITE_EMBEDDING; /* no branch was added to the embedding's output */
    if (!cuda_gpt_good(pass,
                       gw_cuda_layernorm_backward(&norm, x, lane->branch, above, lane->delta,
                                                  added ? &branch : NULL, lane->parts, &lane->sums,
                                                  pass->stream),
                       "gradient of a norm", err))
        return false;
    emit(d, weight, norm.channels, lane->sums.weight);
    emit(d, weight + 1, norm.channels, lane->sums.bias);
    if (added) emit(d, bias, norm.channels, lane->sums.branch);
    return true;
}

/* Computes the gradient of the second norm's output from dout, the gradient of the hidden branch's output.
 * Gradients overwrite arrays of the slot that are no longer needed. */
static bool backward_hidden(const backward_pass *d, uint32_t layer, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    gw_cuda_gpt_lane *lane = pass->lane;
    cuda_gpt_slot *slot = cuda_gpt_slot_of(pass, layer);
    uint64_t rows = cuda_gpt_rows(pass), wide = (uint64_t)4 * pass->model->shape.channels;
    gw_cuda_factor dhidden = slot->hidden;
    if (!emit_weights(d, layer, LINEAR_OUT, slot->hidden, lane->dout, err) ||
        !linear_backward(d, layer, LINEAR_OUT, lane->dout, dhidden, err) ||
        !cuda_gpt_good(pass,
                       gw_cuda_gelu_backward(rows, wide, slot->before, dhidden, lane->parts,
                                             lane->sums.weight, pass->stream),
                       "gradient of GELU", err))
        return false;
    emit(d, gw_gpt_part(layer, GW_GPT_HIDDEN_BIAS), wide, lane->sums.weight);
    return emit_weights(d, layer, LINEAR_HIDDEN, slot->norm2, dhidden, err) &&
           linear_backward(d, layer, LINEAR_HIDDEN, dhidden, lane->branch, err);
}

/* Computes the gradient of the first norm's output from dout, the gradient of the attention branch's output.
 */
static bool backward_attention(const backward_pass *d, uint32_t layer, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    gw_cuda_gpt_lane *lane = pass->lane;
    cuda_gpt_slot *slot = cuda_gpt_slot_of(pass, layer);
    gw_cuda_attention attention = cuda_gpt_attention(pass, layer);
    uint64_t rows = cuda_gpt_rows(pass), wide = (uint64_t)3 * pass->model->shape.channels;
    gw_cuda_factor dattended = slot->norm2, dqkv = slot->before;
    if (!emit_weights(d, layer, LINEAR_ATTENDED, slot->attended, lane->dout, err) ||
        !linear_backward(d, layer, LINEAR_ATTENDED, lane->dout, dattended, err) ||
        !cuda_gpt_good(pass,
                       gw_cuda_attention_backward(&attention, slot->qkv, slot->attended, slot->norms,
                                                  dattended, dqkv, lane->dots, pass->stream),
                       "gradient of attention", err) ||
        !cuda_gpt_good(pass,
                       gw_cuda_sum_columns(rows, wide, dqkv, lane->parts, lane->sums.weight, pass->stream),
                       "gradient of a bias", err))
        return false;
    emit(d, gw_gpt_part(layer, GW_GPT_QKV_BIAS), wide, lane->sums.weight);
    return emit_weights(d, layer, LINEAR_QKV, slot->norm1, dqkv, err) &&
           linear_backward(d, layer, LINEAR_QKV, dqkv, lane->branch, err);
}

static bool backward_layer(const backward_pass *d, uint32_t layer, gw_err *err) {
    gw_cuda_gpt_lane *lane = d->pass->lane;
    cuda_gpt_slot *slot = cuda_gpt_slot_of(d->pass, layer);
    uint32_t below = layer > 0 ? layer - 1 : 0;
    return backward_hidden(d, layer, err) &&
           norm_backward(d, gw_gpt_part(layer, GW_GPT_NORM2_WEIGHT), slot->mean2, slot->scale2, slot->middle,
                         lane->delta, layer, GW_GPT_SITE_ATTENDED, gw_gpt_part(layer, GW_GPT_ATTENDED_BIAS),
                         err) &&
           backward_attention(d, layer, err) &&
           norm_backward(d, gw_gpt_part(layer, GW_GPT_NORM1_WEIGHT), slot->mean1, slot->scale1,
                         lane->residual[layer], lane->delta, below,
                         layer > 0 ? GW_GPT_SITE_OUT : GW_GPT_SITE_EMBEDDING,
                         gw_gpt_part(below, GW_GPT_OUT_BIAS), err);
}

/* Continues from the gradient of the logits' input, which the forward pass has left in the lane's branch. */
static bool backward_head(const backward_pass *d, gw_err *err) {
    const gw_gpt *gpt = &d->pass->model->shape;
    gw_cuda_gpt_lane *lane = d->pass->lane;
    uint32_t last = gpt->layers - 1;
    return norm_backward(d, gw_gpt_final_weight(gpt), lane->final_mean, lane->final_scale,
                         lane->residual[gpt->layers], NULL, last, GW_GPT_SITE_OUT,
                         gw_gpt_part(last, GW_GPT_OUT_BIAS), err);
}

/* Emits the gradients of both embeddings. That of the token embedding adds up its two uses; the forward pass
 * has computed the part of the logits. */
static bool backward_embedding(const backward_pass *d, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    const gw_gpt *gpt = &pass->model->shape;
    gw_cuda_gpt_lane *lane = pass->lane;
    gw_cuda_embedding embedding = cuda_gpt_embedding(pass);
    if (!cuda_gpt_good(pass,
                       gw_cuda_embedding_positions(&embedding, lane->delta, lane->gradient, pass->stream),
                       "gradient of the position embedding", err))
        return false;
    emit(d, GW_GPT_POSITION_EMBEDDING, (uint64_t)gpt->context * gpt->channels, lane->gradient);
    if (!cuda_gpt_good(pass,
                       gw_cuda_embedding_tokens(&embedding, pass->tokens, pass->order, pass->starts,
                                                lane->delta, lane->words, pass->stream),
                       "gradient of the token embedding", err))
        return false;
    emit(d, GW_GPT_TOKEN_EMBEDDING, (uint64_t)gpt->vocabulary * gpt->channels, lane->words);
    return true;
}

bool gw_cuda_gpt_backward(const gw_cuda_gpt_pass *pass, const uint32_t *gradients, gw_emitter *emitter,
                          gw_err *err) {
    uint32_t layers = pass->model->shape.layers;
    backward_pass d = {pass, gradients, emitter};
    if (!backward_head(&d, err)) return false;
    for (uint32_t l = layers; l-- > 0;) {
        bool kept = pass->lane->slots > 1 || l + 1 == layers;
        if ((!kept && !cuda_gpt_keep_layer(pass, l, err)) || !backward_layer(&d, l, err))
            return gw_fail_in(err, "layer %u", l);
    }
    return backward_embedding(&d, err);
}
