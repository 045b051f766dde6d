#include "kernels/cuda/math/embedding.h"
#include "kernels/cuda/math/gelu.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/cuda/model/gpt/inside.h"

/* A pass and where its gradients go. */
typedef struct descent {
    const gw_cuda_gpt_pass *pass;
    const uint32_t *gradients;
    gw_emitter *emitter;
} descent;

static void emit(const descent *d, uint32_t number, uint64_t count, const float *gradient) {
    gw_emit(d->emitter, d->gradients[number], 0, count, gradient);
}

/* Emits the gradient of the weights. */
static bool emit_weights(const descent *d, uint32_t layer, cuda_gpt_linear which, gw_cuda_factor x,
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

/* dx = dy w^T. */
static bool back_through(const descent *d, uint32_t layer, cuda_gpt_linear which, gw_cuda_factor dy,
                         gw_cuda_factor dx, gw_err *err) {
    gw_gemm_operands operands = {
        .a = dy.values,
        .b = cuda_gpt_factor_of(d->pass, gw_gpt_part(layer, cuda_gpt_widths[which].weight)),
        .c = dx.values};
    return cuda_gpt_multiply(d->pass, cuda_gpt_plans_of(d->pass)->inputs[which], &operands,
                             "gradient of a product's input", err);
}

/* From the gradient of a norm's output, in the lane's branch: delta, and the gradient of the branch of that
 * site, which was added to make x (`bias`: the number of its product's), to dout. */
static bool through_norm(const descent *d, uint32_t weight, float *mean, float *scale, const float *x,
                         const float *above, uint32_t layer, gw_gpt_site site, uint32_t bias, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    gw_cuda_gpt_lane *lane = pass->lane;
    gw_cuda_layernorm norm = cuda_gpt_norm(pass, weight, mean, scale);
    gw_cuda_branch branch = {lane->dout, cuda_gpt_dropout(pass, layer, site), pass->drawn};
    bool added = site != GW_GPT_SITE_EMBEDDING; /* nothing was added to what embedding gave */
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

/* From dout, the gradient of what the hidden layer's branch added, to that of its norm's output. Gradients
 * take the place of what has no more use. */
static bool backward_hidden(const descent *d, uint32_t layer, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    gw_cuda_gpt_lane *lane = pass->lane;
    cuda_gpt_slot *slot = cuda_gpt_slot_of(pass, layer);
    uint64_t rows = cuda_gpt_rows(pass), wide = (uint64_t)4 * pass->model->shape.channels;
    gw_cuda_factor dhidden = slot->hidden;
    if (!emit_weights(d, layer, LINEAR_OUT, slot->hidden, lane->dout, err) ||
        !back_through(d, layer, LINEAR_OUT, lane->dout, dhidden, err) ||
        !cuda_gpt_good(pass,
                       gw_cuda_gelu_backward(rows, wide, slot->before, dhidden, lane->parts,
                                             lane->sums.weight, pass->stream),
                       "gradient of GELU", err))
        return false;
    emit(d, gw_gpt_part(layer, GW_GPT_HIDDEN_BIAS), wide, lane->sums.weight);
    return emit_weights(d, layer, LINEAR_HIDDEN, slot->norm2, dhidden, err) &&
           back_through(d, layer, LINEAR_HIDDEN, dhidden, lane->branch, err);
}

/* The same for attention's branch. */
static bool backward_attention(const descent *d, uint32_t layer, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    gw_cuda_gpt_lane *lane = pass->lane;
    cuda_gpt_slot *slot = cuda_gpt_slot_of(pass, layer);
    gw_cuda_attention attention = cuda_gpt_attention(pass, layer);
    uint64_t rows = cuda_gpt_rows(pass), wide = (uint64_t)3 * pass->model->shape.channels;
    gw_cuda_factor dattended = slot->norm2, dqkv = slot->before;
    if (!emit_weights(d, layer, LINEAR_ATTENDED, slot->attended, lane->dout, err) ||
        !back_through(d, layer, LINEAR_ATTENDED, lane->dout, dattended, err) ||
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
           back_through(d, layer, LINEAR_QKV, dqkv, lane->branch, err);
}

static bool backward_layer(const descent *d, uint32_t layer, gw_err *err) {
    gw_cuda_gpt_lane *lane = d->pass->lane;
    cuda_gpt_slot *slot = cuda_gpt_slot_of(d->pass, layer);
    uint32_t below = layer > 0 ? layer - 1 : 0;
    return backward_hidden(d, layer, err) &&
           through_norm(d, gw_gpt_part(layer, GW_GPT_NORM2_WEIGHT), slot->mean2, slot->scale2, slot->middle,
                        lane->delta, layer, GW_GPT_SITE_ATTENDED, gw_gpt_part(layer, GW_GPT_ATTENDED_BIAS),
                        err) &&
           backward_attention(d, layer, err) &&
           through_norm(d, gw_gpt_part(layer, GW_GPT_NORM1_WEIGHT), slot->mean1, slot->scale1,
                        lane->residual[layer], lane->delta, below,
                        layer > 0 ? GW_GPT_SITE_OUT : GW_GPT_SITE_EMBEDDING,
                        gw_gpt_part(below, GW_GPT_OUT_BIAS), err);
}

/* The forward pass has left the gradient of the logits' input in the lane's branch. */
static bool backward_head(const descent *d, gw_err *err) {
    const gw_gpt *gpt = &d->pass->model->shape;
    gw_cuda_gpt_lane *lane = d->pass->lane;
    uint32_t last = gpt->layers - 1;
    return through_norm(d, gw_gpt_final_weight(gpt), lane->final_mean, lane->final_scale,
                        lane->residual[gpt->layers], NULL, last, GW_GPT_SITE_OUT,
                        gw_gpt_part(last, GW_GPT_OUT_BIAS), err);
}

/* The words' gradient is of both their uses; that of the logits is there. */
static bool backward_embedding(const descent *d, gw_err *err) {
    const gw_cuda_gpt_pass *pass = d->pass;
    const gw_gpt *gpt = &pass->model->shape;
    gw_cuda_gpt_lane *lane = pass->lane;
    gw_cuda_embedding embedding = cuda_gpt_embedding(pass);
    if (!cuda_gpt_good(pass, gw_cuda_embedding_places(&embedding, lane->delta, lane->gradient, pass->stream),
                       "gradient of the places", err))
        return false;
    emit(d, GW_GPT_PLACES, (uint64_t)gpt->context * gpt->channels, lane->gradient);
    if (!cuda_gpt_good(pass,
                       gw_cuda_embedding_words(&embedding, pass->tokens, pass->order, pass->starts,
                                               lane->delta, lane->words, pass->stream),
                       "gradient of the words", err))
        return false;
    emit(d, GW_GPT_WORDS, (uint64_t)gpt->vocabulary * gpt->channels, lane->words);
    return true;
}

bool gw_cuda_gpt_backward(const gw_cuda_gpt_pass *pass, const uint32_t *gradients, gw_emitter *emitter,
                          gw_err *err) {
    uint32_t layers = pass->model->shape.layers;
    descent d = {pass, gradients, emitter};
    if (!backward_head(&d, err)) return false;
    for (uint32_t l = layers; l-- > 0;) {
        bool kept = pass->lane->slots > 1 || l + 1 == layers;
        if ((!kept && !cuda_gpt_keep_layer(pass, l, err)) || !backward_layer(&d, l, err))
            return gw_fail_in(err, "layer %u", l);
    }
    return backward_embedding(&d, err);
}
