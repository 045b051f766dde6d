/* `gpt` on a GPU. Initial weights, updates and the norm for clipping have a processor's bits; gradients have
 * those of cuBLASLt and of this program's kernels. A shard's input consists of its tokens and targets, its
 * rows grouped by token, which is the order in which the token embedding's gradient is added, and the source
 * of its dropout. Shards of one size differ only by their inputs, so that they can run as one graph. */
#ifdef GODWIT_CUDA
#include "core/gpu.h"
#include "core/base/assert.h"
#include "core/rng.h"
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/norm.h"
#include "kernels/cuda/math/optimizer.h"
#include "kernels/cuda/math/weights.h"
#include "kernels/cuda/model/gpt/gpt.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/jobs/gpt/setup.h"
#include "kernels/math/embedding.h"
#include "kernels/model/gpt/file.h"

#include <stdlib.h>
#include <string.h>

/* number of weights that are read from a file and copied to the GPU at once */
enum { READ_AT_ONCE = 4 << 20 };

typedef struct side {
    gw_gpu gpu;
    gw_cuda_gpt *model;
} side;

/* Inputs. */

/* The parts of a shard's input, each with room for the largest shard; a gw_cuda_draw follows them. */
enum { TOKENS, TARGETS, ORDER, STARTS, INPUTS };

static size_t most_rows(const gpt_job *job) {
    return (size_t)job->micro_batch * job->gpt.context;
}

static size_t part_bytes(const gpt_job *job) {
    return gw_cuda_aligned((most_rows(job) + 1) * sizeof(uint32_t));
}

/* The offset of the gw_cuda_draw in a shard's input. */
static size_t draw_at(const gpt_job *job) {
    return INPUTS * part_bytes(job);
}

static uint64_t gpu_input_bytes(const void *job) {
    return draw_at(job) + sizeof(gw_cuda_draw);
}

static const uint32_t *input_part(const gpt_job *job, const void *input, uint32_t part) {
    return (const uint32_t *)(const void *)((const char *)input + part * part_bytes(job));
}

static bool gpu_load(const void *job_pointer, uint64_t step, uint32_t shard, void *host, gw_err *err) {
    const gpt_job *job = job_pointer;
    gpt_place place = gpt_place_of(job, step);
    uint32_t *part[INPUTS];
    gw_cuda_draw draw = gw_cuda_gpt_draw(gpt_dropout_key(job, step), shard);
    memcpy((char *)host + draw_at(job), &draw, sizeof draw);
    for (uint32_t i = 0; i < INPUTS; i++) part[i] = (void *)((char *)host + i * part_bytes(job));
    size_t rows = (size_t)gpt_sequences(job, &place, shard) * job->gpt.context;
    if (!gpt_gather(job, &place, shard, part[TOKENS], part[TARGETS], err)) return false;
    if (place.phase != GW_TRAIN) return true;
    uint64_t *sorted = malloc(rows * sizeof *sorted);
    if (sorted == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to sort %zu tokens", rows);
    gw_embedding_group(rows, part[TOKENS], sorted, part[ORDER], part[STARTS]);
    free(sorted);
    return true;
}

/* Opening. */

static void gpu_close(void *job, void *side_pointer) {
    (void)job;
    side *s = side_pointer;
    gw_cuda_gpt_close(s->model);
    free(s);
}

/* Lists the numbers of sequences of the first and the last shard of an update and of an evaluation; returns
 * the length of the list. */
static uint32_t list_sizes(const gpt_job *job, uint32_t sizes[GW_CUDA_GPT_SIZES]) {
    uint32_t count = 0;
    uint64_t first_evaluation = job->eval_every < job->updates ? job->eval_every : job->updates;
    const uint64_t steps[] = {0 - job->shift, first_evaluation - job->shift};
    for (int i = 0; i < (job->eval_windows > 0 ? 2 : 1); i++) {
        gpt_place place = gpt_place_of(job, steps[i]);
        sizes[count++] = gpt_sequences(job, &place, 0);
        sizes[count++] = gpt_sequences(job, &place, place.shards - 1);
    }
    return count;
}

static bool gpu_open(void *job_pointer, const gw_gpu *gpu, void **side_out, char *plan, gw_err *err) {
    const gpt_job *job = job_pointer;
    side *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    s->gpu = *gpu;
    uint32_t sizes[GW_CUDA_GPT_SIZES], count = list_sizes(job, sizes);
    if (!gw_cuda_gpt_open(gpu, &job->gpt, job->recompute, sizes, count, &s->model, err)) {
        gpu_close(job_pointer, s);
        return false;
    }
    gw_cuda_gpt_text(s->model, plan);
    *side_out = s;
    return true;
}

static uint64_t gpu_lane_bytes(const void *job, const void *side_pointer) {
    const side *s = side_pointer;
    (void)job;
    return gw_cuda_gpt_lane_bytes(s->model);
}

static bool gpu_lane_open(void *job, void *side_pointer, void **lane_out, gw_err *err) {
    const side *s = side_pointer;
    gw_cuda_gpt_lane *lane;
    (void)job;
    if (!gw_cuda_gpt_lane_open(s->model, &lane, err)) return false;
    *lane_out = lane;
    return true;
}

static void gpu_lane_close(void *job, void *side_pointer, void *lane) {
    const side *s = side_pointer;
    (void)job;
    gw_cuda_gpt_lane_close(s->model, lane);
}

/* State. */

static bool clear(const side *s, void *memory, size_t bytes, cudaStream_t stream, gw_err *err) {
    return gw_cuda_try(s->gpu.ordinal, cudaMemsetAsync(memory, 0, bytes, stream), err, "clearing the state");
}

/* Reads a whole parameter of the first weights. */
static bool read_values(const gpt_job *job, const side *s, const gw_range *range, float *values,
                        cudaStream_t stream, gw_err *err) {
    void *piece;
    bool good = true;
    if (!gw_cuda_pin(s->gpu.ordinal, READ_AT_ONCE * sizeof(float), &piece, err)) return false;
    for (uint64_t first = 0, count; good && first < range->count; first += count) {
        count = range->count - first < READ_AT_ONCE ? range->count - first : READ_AT_ONCE;
        good = gw_gpt_file_read(&job->gpt, &job->init, range->group, first, count, piece, err) &&
               gw_cuda_try(s->gpu.ordinal,
                           cudaMemcpyAsync(values + first, piece, count * sizeof(float),
                                           cudaMemcpyHostToDevice, stream),
                           err, "copying first weights") &&
               gw_cuda_try(s->gpu.ordinal, cudaStreamSynchronize(stream), err, "copying first weights");
    }
    gw_cuda_unpin(s->gpu.ordinal, piece);
    return good;
}

static bool gpu_init(void *job_pointer, void *side_pointer, const gw_range *range, const gw_state *state,
                     struct CUstream_st *stream, gw_err *err) {
    const gpt_job *job = job_pointer;
    const side *s = side_pointer;
    GW_ASSERT(range->first == 0);
    if (range->group == job->parameters)
        return clear(s, state->data[job->results + GPT_RESULT_LOSS], sizeof(double), stream, err) &&
               clear(s, state->data[job->results + GPT_RESULT_VALIDATION], sizeof(double), stream, err);
    gw_gpt_parameter parameter = gw_gpt_parameter_of(&job->gpt, range->group);
    void *const *tensors = &state->data[GPT_KINDS * range->group];
    for (int kind = GPT_FIRST_MOMENT; kind <= GPT_SECOND_MOMENT; kind++)
        if (!clear(s, tensors[kind], range->count * sizeof(float), stream, err)) return false;
    float *values = tensors[GPT_VALUE];
    if (job->init.list != NULL) return read_values(job, s, range, values, stream, err);
    cudaError_t status = parameter.deviation > 0.0f
                             ? gw_cuda_normal(gw_mix64(job->seed), range->group, (double)parameter.deviation,
                                              range->count, values, stream)
                             : gw_cuda_fill(range->count, parameter.constant, values, stream);
    return gw_cuda_try(s->gpu.ordinal, status, err, "drawing '%s'", parameter.name);
}

static void list_parameters(const gpt_job *job, const gw_state *state,
                            const float *parameters[GW_GPT_PARAMETERS]) {
    for (uint32_t i = 0; i < job->parameters; i++) parameters[i] = state->data[GPT_KINDS * i + GPT_VALUE];
}

static bool gpu_derive(void *job_pointer, void *side_pointer, const gw_state *state,
                       struct CUstream_st *stream, gw_err *err) {
    const side *s = side_pointer;
    const float *parameters[GW_GPT_PARAMETERS];
    list_parameters(job_pointer, state, parameters);
    return gw_cuda_gpt_derive(s->model, parameters, stream, err);
}

static bool gpu_measure(void *job_pointer, void *side_pointer, uint64_t step, const gw_sums *sums,
                        int64_t *words, struct CUstream_st *stream, gw_err *err) {
    const gpt_job *job = job_pointer;
    const side *s = side_pointer;
    _Static_assert((int)GW_NORM_WORDS <= (int)GW_GPU_MEASURED, "a norm fits what may be measured");
    if (gpt_place_of(job, step).phase != GW_TRAIN) return true;
    for (uint32_t i = 0; i < job->parameters; i++) {
        const gw_tensor *gradient = &job->tensors[job->gradients[i]];
        if (!gw_cuda_try(s->gpu.ordinal,
                         gw_cuda_norm_add(gw_tensor_elements(gradient), sums->data[job->gradients[i]],
                                          GPT_GRADIENT_UNIT, words, stream),
                         err, "norm of '%s'", gradient->name))
            return false;
    }
    return true;
}

static bool gpu_apply(void *job_pointer, void *side_pointer, uint64_t step, const gw_range *range,
                      const gw_sums *sums, const gw_scalars *scalars, const gw_state *state,
                      struct CUstream_st *stream, gw_err *err) {
    const gpt_job *job = job_pointer;
    const side *s = side_pointer;
    cudaError_t status = cudaSuccess;
    GW_ASSERT(range->first == 0);
    if (range->group == job->parameters) {
        status = gw_cuda_set_double(state->data[gpt_result(job, step)], gpt_loss(scalars), stream);
    } else if (gpt_place_of(job, step).phase == GW_TRAIN) {
        uint32_t t = GPT_KINDS * range->group;
        gw_adamw adamw = gpt_adamw(job, range->group, scalars);
        status = gw_cuda_adamw(&adamw, range->count, sums->data[t + GPT_GRADIENT], state->data[t + GPT_VALUE],
                               state->data[t + GPT_FIRST_MOMENT], state->data[t + GPT_SECOND_MOMENT], stream);
    }
    return gw_cuda_try(s->gpu.ordinal, status, err, "updating group %u", range->group);
}

/* Shards. */

static uint64_t gpu_graph(const void *job_pointer, uint64_t step, uint32_t shard) {
    const gpt_job *job = job_pointer;
    gpt_place place = gpt_place_of(job, step);
    return job->graphs ? (uint64_t)gpt_sequences(job, &place, shard) << 1 | (place.phase == GW_TRAIN) : 0;
}

static bool gpu_contribute(void *job_pointer, void *side_pointer, void *lane, const gw_gpu_shard *shard,
                           const gw_state *state, gw_emitter *emitter, gw_err *err) {
    const gpt_job *job = job_pointer;
    const side *s = side_pointer;
    gpt_place place = gpt_place_of(job, shard->step);
    const float *parameters[GW_GPT_PARAMETERS];
    const gw_cuda_crossent_loss *loss;
    bool train = place.phase == GW_TRAIN;
    list_parameters(job, state, parameters);
    const gw_cuda_draw *drawn = (const void *)((const char *)shard->input + draw_at(job));
    const gw_cuda_gpt_pass pass = {
        .model = s->model,
        .lane = lane,
        .parameters = parameters,
        .tokens = input_part(job, shard->input, TOKENS),
        .targets = input_part(job, shard->input, TARGETS),
        .order = input_part(job, shard->input, ORDER),
        .starts = input_part(job, shard->input, STARTS),
        .sequences = gpt_sequences(job, &place, shard->shard),
        .dropout = train ? (float)job->dropout : 0.0f,
        .draw = job->graphs ? (gw_cuda_draw){0, 0}
                            : gw_cuda_gpt_draw(gpt_dropout_key(job, shard->step), shard->shard),
        .drawn = job->graphs ? drawn : NULL,
        .stream = shard->stream,
    };
    if (!gw_cuda_gpt_forward(&pass, train ? gpt_gradient_scale(job) : 0.0f, &loss, err)) return false;
    gw_emit_integers(emitter, job->results + GPT_SUM_COUNT, 0, 1, &loss->tokens);
    gw_emit(emitter, job->results + GPT_SUM_LOSS, 0, 1, &loss->sum);
    return !train || gw_cuda_gpt_backward(&pass, job->gradients, emitter, err);
}

const gw_job_gpu gpt_gpu = {
    .lanes = 1, /* one shard keeps a GPU busy, and its scratch is large */
    .open = gpu_open,
    .close = gpu_close,
    .lane_bytes = gpu_lane_bytes,
    .lane_open = gpu_lane_open,
    .lane_close = gpu_lane_close,
    .input_bytes = gpu_input_bytes,
    .load = gpu_load,
    .init = gpu_init,
    .derive = gpu_derive,
    .contribute = gpu_contribute,
    .graph = gpu_graph,
    .measure = gpu_measure,
    .apply = gpu_apply,
};
#endif
