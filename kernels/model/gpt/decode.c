#include "kernels/model/gpt/decode.h"

#include "core/base/assert.h"
#include "core/rng.h"
#include "kernels/host/arena.h"
#include "kernels/host/memory.h"
#include "kernels/math/blas.h"
#include "kernels/math/clones.h"
#include "kernels/math/embedding.h"
#include "kernels/math/gelu.h"
#include "kernels/math/layernorm.h"
#include "kernels/math/linear.h"
#include "kernels/math/vmath.h"
#include "kernels/model/gpt/inside.h"

#include <stdlib.h>
#include <string.h>

/* Sets a decoder's arrays. */
static void lay_out(gw_arena *a, const gw_gpt *gpt, gw_gpt_decoder *decoder) {
    size_t c = gpt->channels;
    decoder->cache = gw_arena_floats(a, (size_t)gpt->layers * gpt->context * 2 * c);
    decoder->x = gw_arena_floats(a, GW_GPT_FEED * c);
    decoder->norm = gw_arena_floats(a, GW_GPT_FEED * c);
    decoder->wide = gw_arena_floats(a, GW_GPT_FEED * 8 * c);
    decoder->attended = gw_arena_floats(a, GW_GPT_FEED * c);
    decoder->scores = gw_arena_floats(a, gpt->context);
    decoder->logits = gw_arena_floats(a, gpt->vocabulary);
}

bool gw_gpt_decoder_open(const gw_gpt *gpt, const float *const *parameters, gw_gpt_decoder *decoder,
                         gw_err *err) {
    gw_arena counted = {.alignment = sizeof(float)};
    *decoder = (gw_gpt_decoder){.gpt = gpt, .parameters = parameters};
    lay_out(&counted, gpt, decoder);
    decoder->bytes = counted.used;
    if (!gw_memory_map(decoder->bytes, &decoder->memory, err)) return gw_fail_in(err, "kernels/gpt_decode");
    gw_arena arena = {.base = decoder->memory, .alignment = sizeof(float)};
    lay_out(&arena, gpt, decoder);
    return true;
}

void gw_gpt_decoder_close(gw_gpt_decoder *decoder) {
    gw_memory_unmap(decoder->memory, decoder->bytes);
    *decoder = (gw_gpt_decoder){0};
}

/* One head's output for one query over `count` positions; key and value rows are 2 channels apart. */
GW_CLONES static void attend(const float *restrict query, const float *restrict keys, size_t channels,
                             size_t width, size_t count, float *restrict weights, float *restrict out) {
    const float *values = keys + channels;
    float scale = 1.0f / __builtin_sqrtf((float)width), largest = 0.0f, total = 0.0f;
    for (size_t k = 0; k < count; k++) {
        float score = 0.0f;
        for (size_t i = 0; i < width; i++) score += query[i] * keys[k * 2 * channels + i];
        weights[k] = score * scale;
        largest = k == 0 || weights[k] > largest ? weights[k] : largest;
    }
    for (size_t k = 0; k < count; k++) weights[k] = gw_expf_quick(weights[k] - largest);
    for (size_t k = 0; k < count; k++) total += weights[k];
    memset(out, 0, width * sizeof *out);
    for (size_t k = 0; k < count; k++) {
        float share = weights[k] / total;
        for (size_t i = 0; i < width; i++) out[i] += share * values[k * 2 * channels + i];
    }
}

/* Stores the new keys and values, and attends to all so far. */
static void attend_all(gw_gpt_decoder *d, uint32_t layer, uint32_t count) {
    const gw_gpt *gpt = d->gpt;
    size_t c = gpt->channels, width = c / gpt->heads;
    float *cache = d->cache + (size_t)layer * gpt->context * 2 * c;
    for (uint32_t r = 0; r < count; r++) {
        const float *qkv = d->wide + (size_t)r * 3 * c;
        memcpy(cache + (d->position + r) * 2 * c, qkv + c, 2 * c * sizeof *cache);
        for (uint32_t h = 0; h < gpt->heads; h++)
            attend(qkv + h * width, cache + h * width, c, width, d->position + r + 1, d->scores,
                   d->attended + r * c + h * width);
    }
}

static void run_layer(gw_gpt_decoder *d, uint32_t layer, uint32_t count) {
    const float *const *p = d->parameters + gw_gpt_part(layer, 0);
    size_t c = d->gpt->channels;
    float mean[GW_GPT_FEED], scale[GW_GPT_FEED], *slope = d->wide + (size_t)count * 4 * c;
    gw_linear qkv = {count, c, 3 * c}, out = {count, c, c}, up = {count, c, 4 * c}, down = {count, 4 * c, c};
    gw_layernorm_forward(count, c, d->x, p[GW_GPT_NORM1_WEIGHT], p[GW_GPT_NORM1_BIAS], d->norm, mean, scale);
    gw_linear_forward(&qkv, d->norm, p[GW_GPT_QKV_WEIGHT], p[GW_GPT_QKV_BIAS], NULL, d->wide);
    attend_all(d, layer, count);
    gw_linear_forward(&out, d->attended, p[GW_GPT_ATTENDED_WEIGHT], p[GW_GPT_ATTENDED_BIAS], d->x, d->x);
    gw_layernorm_forward(count, c, d->x, p[GW_GPT_NORM2_WEIGHT], p[GW_GPT_NORM2_BIAS], d->norm, mean, scale);
    gw_linear_forward(&up, d->norm, p[GW_GPT_HIDDEN_WEIGHT], p[GW_GPT_HIDDEN_BIAS], NULL, d->wide);
    gw_gelu_forward(count * 4 * c, d->wide, slope);
    gw_linear_forward(&down, d->wide, p[GW_GPT_OUT_WEIGHT], p[GW_GPT_OUT_BIAS], d->x, d->x);
}

const float *gw_gpt_decoder_feed(gw_gpt_decoder *d, const uint32_t *tokens, uint32_t count) {
    const gw_gpt *gpt = d->gpt;
    const float *const *p = d->parameters;
    size_t c = gpt->channels;
    GW_ASSERT(count >= 1 && count <= GW_GPT_FEED && count <= gpt->context - d->position);
    gw_embedding embedding = {1, count, c, gpt->vocabulary};
    gw_embedding_forward(&embedding, tokens, p[GW_GPT_TOKEN_EMBEDDING],
                         p[GW_GPT_POSITION_EMBEDDING] + d->position * c, d->x);
    for (uint32_t l = 0; l < gpt->layers; l++) run_layer(d, l, count);
    float mean, scale;
    gw_layernorm_forward(1, c, d->x + (count - 1) * c, p[gw_gpt_final_weight(gpt)], p[gw_gpt_final_bias(gpt)],
                         d->norm, &mean, &scale);
    gw_blas_multiply(1, gpt->vocabulary, c, (gw_operand){d->norm, c, GW_PLAIN},
                     (gw_operand){p[GW_GPT_TOKEN_EMBEDDING], c, GW_TRANSPOSED}, 0.0f, d->logits,
                     gpt->vocabulary);
    d->position += count;
    return d->logits;
}

static uint32_t likeliest(uint32_t vocabulary, const float *logits) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocabulary; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The bound of the most likely tokens: those with logits above `least`, and `equal` of those with that logit.
 */
typedef struct bound {
    float least;
    uint32_t equal;
} bound;

static bound bound_of(uint32_t top, uint32_t vocabulary, const float *logits, float *scratch) {
    memcpy(scratch, logits, vocabulary * sizeof *scratch);
    qsort(scratch, vocabulary, sizeof *scratch, descending);
    bound last = {scratch[top - 1], 0};
    for (uint32_t i = top; i > 0 && scratch[i - 1] == last.least; i--) last.equal++;
    return last;
}

uint32_t gw_gpt_sample(const gw_gpt_sampling *sampling, uint64_t draw, uint32_t vocabulary,
                       const float *logits, float *scratch) {
    uint32_t best = likeliest(vocabulary, logits);
    if (sampling->temperature <= 0.0) return best;
    bound last = {-__builtin_inff(), vocabulary};
    if (sampling->top > 0 && sampling->top < vocabulary)
        last = bound_of(sampling->top, vocabulary, logits, scratch);
    double total = 0.0;
    for (uint32_t i = 0; i < vocabulary; i++) {
        double lag = ((double)logits[i] - (double)logits[best]) / sampling->temperature;
        bool in = logits[i] > last.least || (logits[i] == last.least && last.equal > 0);
        if (in && logits[i] == last.least) last.equal--;
        scratch[i] = in ? (float)gw_exp(lag) : 0.0f;
        total += (double)scratch[i];
    }
    gw_philox bits = gw_philox_at(gw_mix64(sampling->seed), 0, draw);
    double left = ((double)bits.words[0] + 0.5) * 0x1p-32 * total;
    for (uint32_t i = 0; i < vocabulary; i++) {
        left -= (double)scratch[i];
        if (left < 0.0) return i;
    }
    return best; /* reached where rounding leaves a remainder */
}
