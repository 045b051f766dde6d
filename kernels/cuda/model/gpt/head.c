/* The head, a chunk of rows after the other: logits, their loss, and, as long as their gradient lies in their
 * place, what it is multiplied by. Logits of a whole shard would be the largest of a lane's arrays by far. */
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

/* Row `first` of an array of so many columns. */
static void *row_of(gw_cuda_factor of, uint64_t first, uint64_t columns) {
    return (char *)of.values + first * columns * (of.bf16 ? sizeof(uint16_t) : sizeof(float));
}

static bool lose(const gw_cuda_gpt_pass *pass, const cuda_gpt_chunk *chunk, uint64_t first, float scale,
                 gw_err *err) {
    const gw_cuda_gpt *m = pass->model;
    gw_cuda_gpt_lane *lane = pass->lane;
    gw_gemm_operands logits = {.a = row_of(lane->final, first, m->shape.channels),
                               .b = cuda_gpt_factor_of(pass, GW_GPT_WORDS),
                               .c = lane->logits.values};
    return cuda_gpt_multiply(pass, chunk->logits, &logits, "logits", err) &&
           cuda_gpt_good(pass,
                         gw_cuda_crossent(chunk->rows, m->shape.vocabulary, m->columns, lane->logits,
                                          pass->targets + first, scale, lane->of_row + first, pass->stream),
                         "loss", err);
}

/* What the gradient of the chunk's logits is multiplied by: the words give that of their input, their input
 * that of the words. */
static bool descend(const gw_cuda_gpt_pass *pass, const cuda_gpt_chunk *chunk, uint64_t first, gw_err *err) {
    gw_cuda_gpt_lane *lane = pass->lane;
    uint64_t channels = pass->model->shape.channels;
    gw_gemm_operands final = {.a = lane->logits.values,
                              .b = cuda_gpt_factor_of(pass, GW_GPT_WORDS),
                              .c = row_of(lane->branch, first, channels)};
    gw_gemm_operands words = {.a = lane->logits.values,
                              .b = row_of(lane->final, first, channels),
                              .c = lane->words,
                              .add = first > 0};
    return cuda_gpt_multiply(pass, chunk->final, &final, "gradient of the logits' input", err) &&
           cuda_gpt_multiply(pass, chunk->words, &words, "gradient of the words", err);
}

bool cuda_gpt_head(const gw_cuda_gpt_pass *pass, float scale, gw_err *err) {
    const cuda_gpt_plans *plans = cuda_gpt_plans_of(pass);
    uint64_t rows = cuda_gpt_rows(pass), each = plans->head.rows;
    for (uint64_t first = 0; first < rows; first += each) {
        const cuda_gpt_chunk *chunk = rows - first < each ? &plans->last : &plans->head;
        GW_ASSERT(chunk->rows <= rows - first);
        if (!lose(pass, chunk, first, scale, err) || (scale != 0.0f && !descend(pass, chunk, first, err)))
            return false;
    }
    return cuda_gpt_good(pass, gw_cuda_crossent_sum(rows, pass->lane->of_row, pass->lane->loss, pass->stream),
                         "loss", err);
}
