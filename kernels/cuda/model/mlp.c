#include "kernels/cuda/model/mlp.h"

#include "core/base/assert.h"
#include "kernels/cuda/math/layer.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/host/arena.h"

#include <stdlib.h>

/* The products of shards of one size, by layer. */
typedef struct size_plans {
    uint32_t rows;
    uint32_t forward[GW_MLP_LAYERS], weights[GW_MLP_LAYERS], inputs[GW_MLP_LAYERS];
    bool transposed[GW_MLP_LAYERS]; /* whether the factors of `weights` are transposed first */
} size_plans;

/* The least width of layers whose factors are transposed, estimated from the times of the 8192 by 8192
 * product both ways on an H200. */
enum { TRANSPOSED_WIDTH = 512 };

struct gw_cuda_mlp {
    gw_gpu gpu;
    gw_mlp shape;
    gw_gemm *gemm;
    size_plans sizes[GW_CUDA_MLP_SIZES];
    uint32_t size_count, most_rows;
    /* bfloat16 weights; NULL: the weights themselves are the factors */
    uint16_t *rounded[GW_MLP_LAYERS];
    void *memory; /* the memory of `rounded` */
};

static bool is_bf16(const gw_cuda_mlp *m) {
    return m->gpu.precision == GW_PRECISION_BF16;
}

/* Whether a layer's factors are transposed first. The rows of the transposed factors must be aligned to 16
 * bytes, which fast products need. */
static bool is_transposed(const gw_cuda_mlp *m, uint32_t rows, uint64_t in, uint64_t out) {
    return gw_gemm_along_inner(m->gemm) && in >= TRANSPOSED_WIDTH && out >= TRANSPOSED_WIDTH && rows % 4 == 0;
}

static bool plan_size(gw_cuda_mlp *m, uint32_t rows, gw_err *err) {
    for (uint32_t i = 0; i < m->size_count; i++)
        if (m->sizes[i].rows == rows) return true;
    if (rows > GW_CUDA_COLUMN_ROWS)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "a shard of %u samples: on a GPU it may have %d (a smaller --micro-batch has fewer)",
                       rows, (int)GW_CUDA_COLUMN_ROWS);
    GW_ASSERT(m->size_count < GW_CUDA_MLP_SIZES);
    size_plans *plans = &m->sizes[m->size_count++];
    plans->rows = rows;
    if (rows > m->most_rows) m->most_rows = rows;
    for (uint32_t l = 0; l < m->shape.layers; l++) {
        uint64_t in = m->shape.width[l], out = m->shape.width[l + 1];
        gw_gemm_shape forward = {.rows = rows,
                                 .columns = out,
                                 .inner = in,
                                 .finish = l + 1 < m->shape.layers ? GW_GEMM_BIAS_RELU : GW_GEMM_BIAS};
        bool transposed = plans->transposed[l] = is_transposed(m, rows, in, out);
        gw_gemm_shape weights = {.rows = in,
                                 .columns = out,
                                 .inner = rows,
                                 .a_transposed = !transposed,
                                 .b_transposed = transposed};
        gw_gemm_shape inputs = {.rows = rows, .columns = in, .inner = out, .b_transposed = true};
        if (!gw_gemm_plan(m->gemm, &forward, &plans->forward[l], err) ||
            !gw_gemm_plan(m->gemm, &weights, &plans->weights[l], err) ||
            (l > 0 && !gw_gemm_plan(m->gemm, &inputs, &plans->inputs[l], err)))
            return false;
    }
    return true;
}

/* Allocates the weights' factors where these are not the weights themselves. */
static bool open_rounded(gw_cuda_mlp *m, gw_err *err) {
    if (!is_bf16(m)) return true;
    size_t bytes = 0;
    for (uint32_t l = 0; l < m->shape.layers; l++)
        bytes += gw_cuda_aligned((size_t)m->shape.width[l] * m->shape.width[l + 1] * sizeof(uint16_t));
    if (!gw_cuda_allocate(m->gpu.ordinal, bytes, &m->memory, err)) return false;
    char *next = m->memory;
    for (uint32_t l = 0; l < m->shape.layers; l++) {
        m->rounded[l] = (void *)next;
        next += gw_cuda_aligned((size_t)m->shape.width[l] * m->shape.width[l + 1] * sizeof(uint16_t));
    }
    return true;
}

bool gw_cuda_mlp_open(const gw_gpu *gpu, const gw_mlp *mlp, const uint32_t *rows, uint32_t count,
                      gw_cuda_mlp **opened, gw_err *err) {
    gw_cuda_mlp *m = calloc(1, sizeof *m);
    *opened = NULL;
    if (m == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    m->gpu = *gpu;
    m->shape = *mlp;
    bool good = gw_gemm_open(gpu, &m->gemm, err) && open_rounded(m, err);
    for (uint32_t i = 0; good && i < count; i++)
        if (rows[i] > 0) good = plan_size(m, rows[i], err);
    if (!good) {
        gw_cuda_mlp_close(m);
        return false;
    }
    *opened = m;
    return true;
}

void gw_cuda_mlp_close(gw_cuda_mlp *m) {
    if (m == NULL) return;
    gw_gemm_close(m->gemm);
    gw_cuda_free(m->gpu.ordinal, m->memory);
    free(m);
}

void gw_cuda_mlp_text(const gw_cuda_mlp *m, char text[GW_GPU_PLAN_TEXT]) {
    gw_gemm_text(m->gemm, text);
}

bool gw_cuda_mlp_derive(gw_cuda_mlp *m, const gw_mlp_parameters *parameters, cudaStream_t stream,
                        gw_err *err) {
    for (uint32_t l = 0; is_bf16(m) && l < m->shape.layers; l++) {
        uint64_t count = (uint64_t)m->shape.width[l] * m->shape.width[l + 1];
        if (!gw_cuda_try(m->gpu.ordinal,
                         gw_cuda_to_bf16(count, parameters->weights[l], m->rounded[l], stream), err,
                         "rounding the weights of layer %u", l + 1))
            return false;
    }
    return true;
}

/* A lane. */

/* The most rows of a shard for which a lane transposes a layer's factors; 0: it transposes none. */
static size_t transposed_rows(const gw_cuda_mlp *m, uint32_t layer) {
    size_t rows = 0;
    for (uint32_t i = 0; i < m->size_count; i++)
        if (m->sizes[i].transposed[layer] && m->sizes[i].rows > rows) rows = m->sizes[i].rows;
    return rows;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Sets a lane's arrays. */
static void lay_out(gw_arena *a, const gw_cuda_mlp *m, gw_cuda_mlp_lane *lane) {
    size_t rows = m->most_rows, widest = 0, most = 0, transposed_in = 0, transposed_out = 0;
    bool bf16 = is_bf16(m);
    for (uint32_t l = 0; l < m->shape.layers; l++) {
        size_t in = m->shape.width[l], out = m->shape.width[l + 1];
        if (out > widest) widest = out;
        if (in * out > most) most = in * out;
        transposed_in = larger(transposed_in, transposed_rows(m, l) * in);
        transposed_out = larger(transposed_out, transposed_rows(m, l) * out);
        lane->factor[l].bf16 = bf16;
        lane->activation[l + 1] = gw_arena_floats(a, rows * out);
        if (l == 0)
            lane->factor[0].values = gw_arena_array(a, rows * in * (bf16 ? sizeof(uint16_t) : sizeof(float)));
        else if (bf16)
            lane->factor[l].values = gw_arena_array(a, rows * in * sizeof(uint16_t));
        else
            lane->factor[l].values = lane->activation[l];
    }
    lane->inputs = lane->factor[0];
    lane->gradient.bf16 = bf16;
    lane->gradient.values = gw_arena_array(a, bf16 ? rows * widest * sizeof(uint16_t) : 0);
    lane->delta = gw_arena_floats(a, rows * widest);
    lane->weights = gw_arena_floats(a, most);
    lane->bias = gw_arena_floats(a, widest);
    lane->transposed_inputs = gw_arena_floats(a, transposed_in);
    lane->transposed_gradient = gw_arena_floats(a, transposed_out);
    lane->parts = gw_arena_floats(a, gw_cuda_parts(rows) * widest);
    lane->workspace = gw_arena_array(a, GW_GEMM_WORKSPACE);
}

uint64_t gw_cuda_mlp_lane_bytes(const gw_cuda_mlp *m) {
    gw_arena counted = {.alignment = GW_CUDA_ALIGN};
    gw_cuda_mlp_lane lane;
    lay_out(&counted, m, &lane);
    return counted.used;
}

bool gw_cuda_mlp_lane_open(const gw_cuda_mlp *m, gw_cuda_mlp_lane *lane, gw_err *err) {
    *lane = (gw_cuda_mlp_lane){0};
    void *memory;
    if (!gw_cuda_allocate(m->gpu.ordinal, gw_cuda_mlp_lane_bytes(m), &memory, err))
        return gw_fail_in(err, "scratch of a shard");
    gw_arena arena = {.base = memory, .alignment = GW_CUDA_ALIGN};
    lay_out(&arena, m, lane);
    lane->memory = memory;
    return true;
}

void gw_cuda_mlp_lane_close(const gw_cuda_mlp *m, gw_cuda_mlp_lane *lane) {
    gw_cuda_free(m->gpu.ordinal, lane->memory);
    *lane = (gw_cuda_mlp_lane){0};
}

/* Passes. */

static const size_plans *plans_of(const gw_cuda_mlp *m, uint32_t rows) {
    for (uint32_t i = 0; i < m->size_count; i++)
        if (m->sizes[i].rows == rows) return &m->sizes[i];
    gw_assert_failed("a number of rows that was planned for", __FILE__, __LINE__, __func__);
}

static const void *weights_of(const gw_cuda_mlp *m, const gw_mlp_parameters *parameters, uint32_t layer) {
    return m->rounded[layer] != NULL ? (const void *)m->rounded[layer] : parameters->weights[layer];
}

bool gw_cuda_mlp_forward(const gw_cuda_mlp *m, const gw_mlp_parameters *parameters, gw_cuda_mlp_lane *lane,
                         uint32_t rows, cudaStream_t stream, gw_err *err) {
    const size_plans *plans = plans_of(m, rows);
    for (uint32_t l = 0; l < m->shape.layers; l++) {
        float *y = lane->activation[l + 1];
        gw_gemm_operands product = {.a = lane->factor[l].values,
                                    .b = weights_of(m, parameters, l),
                                    .bias = parameters->bias[l],
                                    .c = y};
        if (!gw_gemm_run(m->gemm, plans->forward[l], &product, lane->workspace, stream, err))
            return gw_fail_in(err, "layer %u", l + 1);
        bool last = l + 1 == m->shape.layers;
        if (is_bf16(m) && !last &&
            !gw_cuda_try(m->gpu.ordinal,
                         gw_cuda_to_bf16((uint64_t)rows * m->shape.width[l + 1], y,
                                         lane->factor[l + 1].values, stream),
                         err, "rounding the outputs of layer %u", l + 1))
            return false;
    }
    return true;
}

/* Starts the gradient of a layer's weights, from the gradient of its outputs as a factor. */
static bool start_weights(const gw_cuda_mlp *m, const size_plans *plans, gw_cuda_mlp_lane *lane,
                          uint32_t layer, const void *gradient, cudaStream_t stream, gw_err *err) {
    gw_gemm_operands product = {.a = lane->factor[layer].values, .b = gradient, .c = lane->weights};
    if (plans->transposed[layer]) {
        cudaError_t status = gw_cuda_transpose(plans->rows, m->shape.width[layer], lane->factor[layer].values,
                                               lane->transposed_inputs, stream);
        if (!gw_cuda_try(m->gpu.ordinal, status, err, "transposing the inputs")) return false;
        product.a = lane->transposed_inputs;
        product.b = lane->transposed_gradient;
    }
    return gw_gemm_run(m->gemm, plans->weights[layer], &product, lane->workspace, stream, err);
}

bool gw_cuda_mlp_backward(const gw_cuda_mlp *m, const gw_mlp_parameters *parameters,
                          const gw_mlp_gradients *gradients, gw_cuda_mlp_lane *lane, uint32_t rows,
                          cudaStream_t stream, gw_emitter *emitter, gw_err *err) {
    const size_plans *plans = plans_of(m, rows);
    /* there is no ReLU behind the logits */
    const float *above = lane->activation[m->shape.layers], *active = NULL;
    for (uint32_t l = m->shape.layers; l-- > 0;) {
        uint64_t in = m->shape.width[l], out = m->shape.width[l + 1];
        gw_cuda_factor gradient = lane->gradient;
        if (!gradient.bf16) gradient.values = lane->activation[l + 1];
        if (!gw_cuda_try(m->gpu.ordinal,
                         gw_cuda_gate(rows, out, above, active, gradient,
                                      plans->transposed[l] ? lane->transposed_gradient : NULL, lane->parts,
                                      lane->bias, stream),
                         err, "gradient of the bias of layer %u", l + 1))
            return false;
        gw_emit(emitter, gradients->bias[l], 0, out, lane->bias);
        if (!start_weights(m, plans, lane, l, gradient.values, stream, err))
            return gw_fail_in(err, "gradient of the weights of layer %u", l + 1);
        gw_emit(emitter, gradients->weights[l], 0, in * out, lane->weights);
        if (l == 0) break; /* the gradient of the inputs is not needed */
        gw_gemm_operands inputs = {.a = gradient.values, .b = weights_of(m, parameters, l), .c = lane->delta};
        if (!gw_gemm_run(m->gemm, plans->inputs[l], &inputs, lane->workspace, stream, err))
            return gw_fail_in(err, "gradient of the inputs of layer %u", l + 1);
        above = lane->delta;
        active = lane->activation[l];
    }
    return true;
}
