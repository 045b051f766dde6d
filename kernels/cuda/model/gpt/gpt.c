/* The model on a GPU: its products, its weights as factors, a lane's memory. */
#include "core/base/assert.h"
#include "kernels/cuda/math/layer.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/cuda/model/gpt/inside.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/host/arena.h"

#include <stdlib.h>

static uint64_t elements_of(const gw_gpt *gpt, uint32_t number) {
    gw_gpt_parameter p = gw_gpt_parameter_of(gpt, number);
    return p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Products. */

static bool plan_linear(gw_cuda_gpt *m, cuda_gpt_plans *plans, cuda_gpt_linear which, uint64_t rows,
                        gw_err *err) {
    const cuda_gpt_width *width = &cuda_gpt_widths[which];
    uint64_t in = (uint64_t)width->in * m->shape.channels, out = (uint64_t)width->out * m->shape.channels;
    gw_gemm_finish finish = which == LINEAR_HIDDEN ? GW_GEMM_BIAS_GELU : GW_GEMM_BIAS;
    gw_gemm_shape forward = {.rows = rows, .columns = out, .inner = in, .factor = true, .finish = finish};
    gw_gemm_shape inputs = {.rows = rows, .columns = in, .inner = out, .b_transposed = true, .factor = true};
    gw_gemm_shape weights = {.rows = in, .columns = out, .inner = rows, .a_transposed = true};
    return gw_gemm_plan(m->gemm, &forward, &plans->forward[which], err) &&
           gw_gemm_plan(m->gemm, &inputs, &plans->inputs[which], err) &&
           gw_gemm_plan(m->gemm, &weights, &plans->weights[which], err);
}

static bool plan_head(gw_cuda_gpt *m, cuda_gpt_plans *plans, uint64_t rows, gw_err *err) {
    uint64_t each = cuda_gpt_chunk_rows(rows), left = rows % each;
    return cuda_gpt_plan_head(m, each, &plans->head, err) &&
           (left == 0 || cuda_gpt_plan_head(m, left, &plans->last, err));
}

static bool plan_size(gw_cuda_gpt *m, uint32_t sequences, gw_err *err) {
    for (uint32_t i = 0; i < m->size_count; i++)
        if (m->sizes[i].sequences == sequences) return true;
    GW_ASSERT(m->size_count < GW_CUDA_GPT_SIZES);
    cuda_gpt_plans *plans = &m->sizes[m->size_count++];
    uint64_t rows = (uint64_t)sequences * m->shape.context;
    plans->sequences = sequences;
    if (sequences > m->most) m->most = sequences;
    m->most_logits = larger(m->most_logits, cuda_gpt_chunk_rows(rows));
    for (cuda_gpt_linear which = 0; which < LINEARS; which++)
        if (!plan_linear(m, plans, which, rows, err)) return false;
    return plan_head(m, plans, rows, err);
}

const cuda_gpt_plans *cuda_gpt_plans_of(const gw_cuda_gpt_pass *pass) {
    for (uint32_t i = 0; i < pass->model->size_count; i++)
        if (pass->model->sizes[i].sequences == pass->sequences) return &pass->model->sizes[i];
    gw_assert_failed("a number of sequences that was planned for", __FILE__, __LINE__, __func__);
}

/* Weights as factors. */

/* Whether products read a copy of this parameter. */
static bool is_copied(const gw_cuda_gpt *m, uint32_t number) {
    if (number == GW_GPT_TOKEN_EMBEDDING) return m->bf16 || m->columns != m->shape.vocabulary;
    if (!m->bf16 || number < GW_GPT_FIRST_LAYER || number >= gw_gpt_final_weight(&m->shape)) return false;
    uint32_t part = (number - GW_GPT_FIRST_LAYER) % GW_GPT_PARTS;
    for (uint32_t i = 0; i < LINEARS; i++)
        if (part == cuda_gpt_widths[i].weight || part == cuda_gpt_widths[i].weight + 1) return true;
    return false;
}

static size_t factor_bytes(const gw_cuda_gpt *m, uint32_t number) {
    uint64_t elements = number == GW_GPT_TOKEN_EMBEDDING ? (uint64_t)m->columns * m->shape.channels
                                                         : elements_of(&m->shape, number);
    return gw_cuda_aligned(elements * (m->bf16 ? sizeof(uint16_t) : sizeof(float)));
}

/* Allocates the factors. Their memory is zeroed, as the rows behind the last token's must be. */
static bool open_factors(gw_cuda_gpt *m, gw_err *err) {
    size_t bytes = 0;
    uint32_t count = gw_gpt_parameters(&m->shape);
    for (uint32_t i = 0; i < count; i++)
        if (is_copied(m, i)) bytes += factor_bytes(m, i);
    if (bytes == 0) return true;
    if (!gw_cuda_allocate(m->gpu.ordinal, bytes, &m->memory, err))
        return gw_fail_in(err, "weights as factors");
    char *next = m->memory;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_copied(m, i)) continue;
        m->factor[i] = next;
        next += factor_bytes(m, i);
    }
    return true;
}

bool gw_cuda_gpt_derive(gw_cuda_gpt *m, const float *const *parameters, cudaStream_t stream, gw_err *err) {
    for (uint32_t i = 0; i < gw_gpt_parameters(&m->shape); i++) {
        if (m->factor[i] == NULL) continue;
        uint64_t count = elements_of(&m->shape, i);
        cudaError_t status = m->bf16 ? gw_cuda_to_bf16(count, parameters[i], m->factor[i], stream)
                                     : cudaMemcpyAsync(m->factor[i], parameters[i], count * sizeof(float),
                                                       cudaMemcpyDeviceToDevice, stream);
        if (!gw_cuda_try(m->gpu.ordinal, status, err, "copying parameter %u for products", i)) return false;
    }
    return true;
}

const void *cuda_gpt_factor_of(const gw_cuda_gpt_pass *pass, uint32_t number) {
    const void *copy = pass->model->factor[number];
    return copy != NULL ? copy : pass->parameters[number];
}

/* Opening. */

/* Refuses shapes that need more shared memory than the GPU has. Without this check, the first shard would
 * fail on every peer. */
static bool check_shared(const gw_cuda_gpt *m, const gw_cuda_attention *attention, gw_err *err) {
    int most;
    size_t need = gw_cuda_attention_shared(attention, m->bf16);
    if (!gw_cuda_try(m->gpu.ordinal,
                     cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, m->gpu.ordinal),
                     err, "cudaDeviceGetAttribute"))
        return false;
    if (need <= (size_t)most) return true;
    return gw_fail(
        err, GW_E_UNSUPPORTED,
        "attention of %u heads of %u channels takes %zu KB of shared memory a block, GPU %d has %d: "
        "take %sheads of at most 64 channels",
        m->shape.heads, m->shape.channels / m->shape.heads, (need + 1023) / 1024, m->gpu.ordinal, most / 1024,
        m->bf16 ? "" : "--precision bf16, or ");
}

static bool check_sizes(const gw_cuda_gpt *m, uint32_t sequences, gw_err *err) {
    const gw_gpt *gpt = &m->shape;
    gw_cuda_attention attention = {
        .sequences = sequences, .positions = gpt->context, .heads = gpt->heads, .channels = gpt->channels};
    uint64_t tokens = (uint64_t)sequences * gpt->context;
    const char *refused = gw_cuda_attention_refuses(&attention, m->bf16);
    if (refused != NULL)
        return gw_fail(err, GW_E_UNSUPPORTED, "attention of %u heads of %u channels on a GPU: %s", gpt->heads,
                       gpt->channels / gpt->heads, refused);
    if (!check_shared(m, &attention, err)) return false;
    if (gpt->channels > GW_CUDA_LAYERNORM_CHANNELS)
        return gw_fail(err, GW_E_UNSUPPORTED, "%u channels: on a GPU a model may have %d", gpt->channels,
                       (int)GW_CUDA_LAYERNORM_CHANNELS);
    if (tokens > GW_CUDA_COLUMN_ROWS)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "a shard of %llu tokens: on a GPU it may have %d (a smaller --micro-batch has fewer)",
                       (unsigned long long)tokens, (int)GW_CUDA_COLUMN_ROWS);
    return true;
}

bool gw_cuda_gpt_open(const gw_gpu *gpu, const gw_gpt *gpt, bool recompute, const uint32_t *sequences,
                      uint32_t count, gw_cuda_gpt **opened, gw_err *err) {
    gw_cuda_gpt *m = calloc(1, sizeof *m);
    *opened = NULL;
    if (m == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    m->gpu = *gpu;
    m->shape = *gpt;
    m->recompute = recompute;
    m->bf16 = gpu->precision == GW_PRECISION_BF16;
    m->columns =
        (gpt->vocabulary + GW_CUDA_GPT_COLUMNS - 1) / GW_CUDA_GPT_COLUMNS * (uint32_t)GW_CUDA_GPT_COLUMNS;
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) good = check_sizes(m, sequences[i], err);
    good = good && gw_gemm_open(gpu, &m->gemm, err) && open_factors(m, err);
    for (uint32_t i = 0; good && i < count; i++) good = plan_size(m, sequences[i], err);
    if (!good) {
        gw_cuda_gpt_close(m);
        return false;
    }
    *opened = m;
    return true;
}

void gw_cuda_gpt_close(gw_cuda_gpt *m) {
    if (m == NULL) return;
    gw_gemm_close(m->gemm);
    gw_cuda_free(m->gpu.ordinal, m->memory);
    free(m);
}

void gw_cuda_gpt_text(const gw_cuda_gpt *m, char text[GW_GPU_PLAN_TEXT]) {
    gw_gemm_text(m->gemm, text);
}

/* A lane. */

static gw_cuda_factor factor(gw_arena *a, bool bf16, size_t count) {
    return (gw_cuda_factor){gw_arena_array(a, count * (bf16 ? sizeof(uint16_t) : sizeof(float))), bf16};
}

static void lay_out_slot(gw_arena *a, const gw_gpt *gpt, bool bf16, size_t rows, cuda_gpt_slot *slot) {
    size_t channels = gpt->channels;
    slot->norm1 = factor(a, bf16, rows * channels);
    slot->mean1 = gw_arena_floats(a, rows);
    slot->scale1 = gw_arena_floats(a, rows);
    slot->qkv = factor(a, bf16, rows * 3 * channels);
    slot->attended = factor(a, bf16, rows * channels);
    slot->norms = gw_arena_floats(a, rows * gpt->heads);
    slot->middle = gw_arena_floats(a, rows * channels);
    slot->norm2 = factor(a, bf16, rows * channels);
    slot->mean2 = gw_arena_floats(a, rows);
    slot->scale2 = gw_arena_floats(a, rows);
    slot->before = factor(a, bf16, rows * 4 * channels);
    slot->hidden = factor(a, bf16, rows * 4 * channels);
}

static void lay_out_lane(gw_arena *a, const gw_cuda_gpt *m, gw_cuda_gpt_lane *lane) {
    const gw_gpt *gpt = &m->shape;
    size_t channels = gpt->channels, rows = (size_t)m->most * gpt->context;
    size_t widest = larger(gpt->context, 4 * channels); /* the most rows of a parameter */
    *lane = (gw_cuda_gpt_lane){.slots = m->recompute ? 1 : gpt->layers};
    for (uint32_t l = 0; l <= gpt->layers; l++) lane->residual[l] = gw_arena_floats(a, rows * channels);
    for (uint32_t l = 0; l < lane->slots; l++) lay_out_slot(a, gpt, m->bf16, rows, &lane->slot[l]);
    lane->final = factor(a, m->bf16, rows * channels);
    lane->final_mean = gw_arena_floats(a, rows);
    lane->final_scale = gw_arena_floats(a, rows);
    lane->logits = factor(a, m->bf16, m->most_logits * m->columns);
    lane->branch = factor(a, m->bf16, rows * channels);
    lane->dout = factor(a, m->bf16, rows * channels);
    lane->delta = gw_arena_floats(a, rows * channels);
    lane->words = gw_arena_floats(a, m->columns * channels);
    lane->gradient = gw_arena_floats(a, widest * channels);
    lane->sums = (gw_cuda_layernorm_sums){.weight = gw_arena_floats(a, 4 * channels),
                                          .bias = gw_arena_floats(a, channels),
                                          .branch = gw_arena_floats(a, channels)};
    lane->parts = gw_arena_floats(
        a, larger(gw_cuda_layernorm_parts(rows, gpt->channels), gw_cuda_parts(rows) * 4 * channels));
    lane->dots = gw_arena_floats(a, rows * gpt->heads);
    lane->of_row = gw_arena_array(a, rows * sizeof *lane->of_row);
    lane->loss = gw_arena_array(a, sizeof *lane->loss);
    lane->workspace = gw_arena_array(a, GW_GEMM_WORKSPACE);
}

uint64_t gw_cuda_gpt_lane_bytes(const gw_cuda_gpt *m) {
    gw_arena counted = {.alignment = GW_CUDA_ALIGN};
    gw_cuda_gpt_lane lane;
    lay_out_lane(&counted, m, &lane);
    return counted.used;
}

bool gw_cuda_gpt_lane_open(const gw_cuda_gpt *m, gw_cuda_gpt_lane **lane, gw_err *err) {
    gw_cuda_gpt_lane *l = calloc(1, sizeof *l);
    void *memory;
    *lane = NULL;
    if (l == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    if (!gw_cuda_allocate(m->gpu.ordinal, gw_cuda_gpt_lane_bytes(m), &memory, err)) {
        free(l);
        return gw_fail_in(err, "scratch of a shard (a smaller --micro-batch, or --recompute, takes less)");
    }
    gw_arena arena = {.base = memory, .alignment = GW_CUDA_ALIGN};
    lay_out_lane(&arena, m, l);
    l->memory = memory;
    *lane = l;
    return true;
}

void gw_cuda_gpt_lane_close(const gw_cuda_gpt *m, gw_cuda_gpt_lane *lane) {
    if (lane == NULL) return;
    gw_cuda_free(m->gpu.ordinal, lane->memory);
    free(lane);
}
