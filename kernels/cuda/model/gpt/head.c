/* The head: logits, their loss, and the gradients of their input and of the token embedding. It computes one
 * chunk of rows after the other, since the logits of a whole shard would be by far the largest array of a
 * lane. */
#include "core/base/assert.h"
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/model/gpt/inside.h"

uint64_t cuda_gpt_chunk_rows(uint64_t rows) {
    GW_ASSERT(rows > 0);
    uint64_t chunks = (rows + GW_CUDA_GPT_CHUNK_ROWS - 1) / GW_CUDA_GPT_CHUNK_ROWS;
    if (chunks == 1) return rows;
    uint64_t each = (rows + chunks - 1) / chunks;
    return (each + GW_CUDA_GPT_CHUNK_UNIT - 1) / GW_CUDA_GPT_CHUNK_UNIT * GW_CUDA_GPT_CHUNK_UNIT;
}

bool cuda_gpt_plan_head(gw_cuda_gpt *m, uint64_t rows, cuda_gpt_chunk *chunk, gw_err *err) {
    uint64_t channels = m->shape.channels, columns = m->columns;
    gw_gemm_shape logits = {
        .rows = rows, .columns = columns, .inner = channels, .b_transposed = true, .factor = true};
    gw_gemm_shape final = {.rows = rows, .columns = channels, .inner = columns, .factor = true};
    gw_gemm_shape words = {.rows = columns, .columns = channels, .inner = rows, .a_transposed = true};
    chunk->rows = rows;
    return gw_gemm_plan(m->gemm, &logits, &chunk->logits, err) &&
           gw_gemm_plan(m->gemm, &final, &chunk->final, err) &&
           gw_gemm_plan(m->gemm, &words, &chunk->words, err);
}

/* The address of row `first` of an array with `columns` columns. */
static void *row_of(gw_cuda_factor of, uint64_t first, uint64_t columns) {
    return (char *)of.values + first * columns * (of.bf16 ? sizeof(uint16_t) : sizeof(float));
}

/* Computes a chunk's logits and their loss. With a scale that is not 0, their gradient replaces the logits.
 */
static bool chunk_forward(const gw_cuda_gpt_pass *pass, const cuda_gpt_chunk *chunk, uint64_t first,
                          float scale, gw_err *err) {
    const gw_cuda_gpt *m = pass->model;
    gw_cuda_gpt_lane *lane = pass->lane;
    gw_gemm_operands logits = {.a = row_of(lane->final, first, m->shape.channels),
                               .b = cuda_gpt_factor_of(pass, GW_GPT_TOKEN_EMBEDDING),
                               .c = lane->logits.values};
    return cuda_gpt_multiply(pass, chunk->logits, &logits, "logits", err) &&
           cuda_gpt_good(pass,
                         gw_cuda_crossent(chunk->rows, m->shape.vocabulary, m->columns, lane->logits,
                                          pass->targets + first, scale, lane->of_row + first, pass->stream),
                         "loss", err);
}

/* Multiplies the gradient of a chunk's logits by the token embedding, which gives the gradient of their
 * input, and by their input, which gives the gradient of the token embedding. */
static bool chunk_backward(const gw_cuda_gpt_pass *pass, const cuda_gpt_chunk *chunk, uint64_t first,
                           gw_err *err) {
    gw_cuda_gpt_lane *lane = pass->lane;
    uint64_t channels = pass->model->shape.channels;
    gw_gemm_operands final = {.a = lane->logits.values,
                              .b = cuda_gpt_factor_of(pass, GW_GPT_TOKEN_EMBEDDING),
                              .c = row_of(lane->branch, first, channels)};
    gw_gemm_operands words = {.a = lane->logits.values,
                              .b = row_of(lane->final, first, channels),
                              .c = lane->words,
                              .add = first > 0};
    return cuda_gpt_multiply(pass, chunk->final, &final, "gradient of the logits' input", err) &&
           cuda_gpt_multiply(pass, chunk->words, &words, "gradient of the token embedding", err);
}

bool cuda_gpt_head(const gw_cuda_gpt_pass *pass, float scale, gw_err *err) {
    const cuda_gpt_plans *plans = cuda_gpt_plans_of(pass);
    uint64_t rows = cuda_gpt_rows(pass), each = plans->head.rows;
    for (uint64_t first = 0; first < rows; first += each) {
        const cuda_gpt_chunk *chunk = rows - first < each ? &plans->last : &plans->head;
        GW_ASSERT(chunk->rows <= rows - first);
        if (!chunk_forward(pass, chunk, first, scale, err) ||
            (scale != 0.0f && !chunk_backward(pass, chunk, first, err)))
            return false;
    }
    return cuda_gpt_good(pass, gw_cuda_crossent_sum(rows, pass->lane->of_row, pass->lane->loss, pass->stream),
                         "loss", err);
}
