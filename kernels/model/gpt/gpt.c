/* The shape of the model, and a lane's memory. */
#include "kernels/model/gpt/gpt.h"

#include "core/base/assert.h"
#include "kernels/host/arena.h"
#include "kernels/host/memory.h"
#include "kernels/math/attention.h"
#include "kernels/math/embedding.h"
#include "kernels/math/linear.h"
#include "kernels/model/gpt/inside.h"

#include <stdio.h>

enum { ALIGNMENT = 64, LOGITS_ALIGNMENT = 16 };

static const float deviation = 0.02f;

uint32_t gw_gpt_parameters(const gw_gpt *gpt) {
    return GW_GPT_FIRST_LAYER + gpt->layers * GW_GPT_PARTS + 2;
}

static gw_gpt_parameter vector(uint64_t elements, float constant) {
    return (gw_gpt_parameter){.rank = 1, .dim = {elements}, .constant = constant};
}

static gw_gpt_parameter matrix(uint64_t rows, uint64_t columns, float spread) {
    return (gw_gpt_parameter){.rank = 2, .dim = {rows, columns}, .deviation = spread};
}

/* The weights of what is added to the residual stream start smaller, by the root of the number of such
 * additions. */
static gw_gpt_parameter layer_parameter(const gw_gpt *gpt, uint32_t part) {
    uint64_t c = gpt->channels;
    float small = deviation / __builtin_sqrtf(2.0f * (float)gpt->layers);
    switch (part) {
    case GW_GPT_NORM1_WEIGHT:
    case GW_GPT_NORM2_WEIGHT:
        return vector(c, 1.0f);
    case GW_GPT_QKV_WEIGHT:
        return matrix(c, 3 * c, deviation);
    case GW_GPT_QKV_BIAS:
        return vector(3 * c, 0.0f);
    case GW_GPT_ATTENDED_WEIGHT:
        return matrix(c, c, small);
    case GW_GPT_HIDDEN_WEIGHT:
        return matrix(c, 4 * c, deviation);
    case GW_GPT_HIDDEN_BIAS:
        return vector(4 * c, 0.0f);
    case GW_GPT_OUT_WEIGHT:
        return matrix(4 * c, c, small);
    default:
        return vector(c, 0.0f);
    }
}

gw_gpt_parameter gw_gpt_parameter_of(const gw_gpt *gpt, uint32_t number) {
    static const char *const names[GW_GPT_PARTS] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
    GW_ASSERT(number < gw_gpt_parameters(gpt));
    gw_gpt_parameter p;
    if (number == GW_GPT_TOKEN_EMBEDDING || number == GW_GPT_POSITION_EMBEDDING) {
        p = matrix(number == GW_GPT_TOKEN_EMBEDDING ? gpt->vocabulary : gpt->context, gpt->channels,
                   deviation);
        snprintf(p.name, sizeof p.name, number == GW_GPT_TOKEN_EMBEDDING ? "wte.weight" : "wpe.weight");
        p.bucket = gpt->layers + 1;
    } else if (number >= gw_gpt_final_weight(gpt)) {
        bool bias = number == gw_gpt_final_bias(gpt);
        p = vector(gpt->channels, bias ? 0.0f : 1.0f);
        snprintf(p.name, sizeof p.name, bias ? "ln_f.bias" : "ln_f.weight");
    } else {
        uint32_t layer = (number - GW_GPT_FIRST_LAYER) / GW_GPT_PARTS,
                 part = (number - GW_GPT_FIRST_LAYER) % GW_GPT_PARTS;
        p = layer_parameter(gpt, part);
        snprintf(p.name, sizeof p.name, "h.%u.%s", layer, names[part]);
        p.bucket = gpt->layers - layer;
    }
    return p;
}

uint64_t gw_gpt_size(const gw_gpt *gpt) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < gw_gpt_parameters(gpt); i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(gpt, i);
        size += p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
    }
    return size;
}

static void lay_out_slot(gw_arena *a, const gw_gpt *gpt, size_t rows, gw_gpt_slot *slot) {
    size_t channels = gpt->channels;
    slot->norm1 = gw_arena_floats(a, rows * channels);
    slot->mean1 = gw_arena_floats(a, rows);
    slot->scale1 = gw_arena_floats(a, rows);
    slot->qkv = gw_arena_floats(a, rows * 3 * channels);
    slot->attended = gw_arena_floats(a, rows * channels);
    slot->norms = gw_arena_floats(a, rows * gpt->heads);
    slot->middle = gw_arena_floats(a, rows * channels);
    slot->norm2 = gw_arena_floats(a, rows * channels);
    slot->mean2 = gw_arena_floats(a, rows);
    slot->scale2 = gw_arena_floats(a, rows);
    slot->hidden = gw_arena_floats(a, rows * 4 * channels);
    slot->slope = gw_arena_floats(a, rows * 4 * channels);
}

static size_t piece_floats(const gw_gpt *gpt) {
    size_t c = gpt->channels, most = 0;
    gw_embedding embedding = {.positions = gpt->context, .channels = c, .vocabulary = gpt->vocabulary};
    const size_t sizes[] = {gw_embedding_piece(&embedding), gw_linear_piece(c, 3 * c), gw_linear_piece(c, c),
                            gw_linear_piece(c, 4 * c),      gw_linear_piece(4 * c, c), 4 * c};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) most = sizes[i] > most ? sizes[i] : most;
    return most;
}

static void lay_out_lane(gw_arena *a, const gw_gpt *gpt, uint32_t sequences, bool recompute,
                         gw_gpt_lane *lane) {
    size_t channels = gpt->channels, rows = (size_t)sequences * gpt->context;
    gw_attention attention = {.positions = gpt->context};
    *lane = (gw_gpt_lane){.sequences = sequences, .slots = recompute ? 1 : gpt->layers};
    lane->logits_stride = (gpt->vocabulary + LOGITS_ALIGNMENT - 1) / LOGITS_ALIGNMENT * LOGITS_ALIGNMENT;
    lane->tokens = gw_arena_array(a, rows * sizeof *lane->tokens);
    lane->targets = gw_arena_array(a, rows * sizeof *lane->targets);
    for (uint32_t l = 0; l <= gpt->layers; l++) lane->residual[l] = gw_arena_floats(a, rows * channels);
    for (uint32_t l = 0; l < lane->slots; l++) lay_out_slot(a, gpt, rows, &lane->slot[l]);
    lane->final = gw_arena_floats(a, rows * channels);
    lane->final_mean = gw_arena_floats(a, rows);
    lane->final_scale = gw_arena_floats(a, rows);
    lane->logits = gw_arena_floats(a, rows * lane->logits_stride);
    lane->delta = gw_arena_floats(a, rows * channels);
    lane->branch = gw_arena_floats(a, rows * channels);
    lane->wide = gw_arena_floats(a, rows * 4 * channels);
    lane->piece = gw_arena_floats(a, piece_floats(gpt));
    lane->scratch = gw_arena_floats(a, gw_attention_scratch(&attention));
    lane->order = gw_arena_array(a, rows * sizeof *lane->order);
}

size_t gw_gpt_lane_bytes(const gw_gpt *gpt, uint32_t sequences, bool recompute) {
    gw_arena counted = {.alignment = ALIGNMENT};
    gw_gpt_lane lane;
    lay_out_lane(&counted, gpt, sequences, recompute, &lane);
    return counted.used;
}

bool gw_gpt_lane_open(const gw_gpt *gpt, uint32_t sequences, bool recompute, gw_gpt_lane *lane, gw_err *err) {
    GW_ASSERT(gpt->layers >= 1 && gpt->layers <= GW_GPT_LAYERS && gpt->channels % gpt->heads == 0);
    GW_ASSERT(sequences >= 1 && (uint64_t)sequences * gpt->context <= GW_GPT_ROWS);
    size_t bytes = gw_gpt_lane_bytes(gpt, sequences, recompute);
    void *memory;
    *lane = (gw_gpt_lane){0};
    if (!gw_memory_map(bytes, &memory, err)) return gw_fail_in(err, "kernels/gpt: scratch");
    gw_arena arena = {.base = memory, .alignment = ALIGNMENT};
    lay_out_lane(&arena, gpt, sequences, recompute, lane);
    lane->memory = memory;
    lane->bytes = bytes;
    return true;
}

void gw_gpt_lane_close(gw_gpt_lane *lane) {
    gw_memory_unmap(lane->memory, lane->bytes);
    *lane = (gw_gpt_lane){0};
}
