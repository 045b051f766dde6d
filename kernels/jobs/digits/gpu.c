/* `digits` on a GPU. Initial weights and updates have a processor's bits; gradients have those of cuBLASLt. A
 * shard's input consists of its pixels, as bytes, and its labels. */
#ifdef GODWIT_CUDA
#include "core/gpu.h"
#include "core/base/assert.h"
#include "core/rng.h"
#include "kernels/cuda/math/layer.h"
#include "kernels/cuda/math/loss.h"
#include "kernels/cuda/math/optimizer.h"
#include "kernels/cuda/math/weights.h"
#include "kernels/cuda/model/mlp.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/jobs/digits/setup.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct side {
    gw_gpu gpu;
    gw_cuda_mlp *mlp;
} side;

typedef struct lane {
    gw_cuda_mlp_lane mlp;
    double *of_row;     /* on the GPU: each row's loss */
    gw_cuda_loss *loss; /* on the GPU */
} lane;

static uint32_t most_rows(const digits_job *job) {
    return job->micro_batch > job->test_rows ? job->micro_batch : job->test_rows;
}

/* The offset of the labels in a shard's input. */
static size_t labels_at(const digits_job *job) {
    return gw_cuda_aligned((size_t)most_rows(job) * job->mlp.width[0]);
}

static uint64_t gpu_input_bytes(const void *job_pointer) {
    const digits_job *job = job_pointer;
    return labels_at(job) + most_rows(job);
}

static bool gpu_load(const void *job_pointer, uint64_t step, uint32_t shard, void *host, gw_err *err) {
    const digits_job *job = job_pointer;
    (void)err; /* the data are in memory */
    digits_place place = digits_place_of(job, step);
    digits_samples samples = digits_samples_of(job, &place, shard);
    size_t inputs = job->mlp.width[0];
    uint8_t *pixels = host, *labels = pixels + labels_at(job);
    for (uint32_t r = 0; r < samples.rows; r++) {
        uint64_t sample = digits_sample_at(&samples, r);
        memcpy(pixels + r * inputs, samples.images->pixels + sample * inputs, inputs);
        labels[r] = samples.images->labels[sample];
    }
    return true;
}

/* Lists the numbers of rows of the first and the last shard, which may be smaller, of steps of every kind;
 * returns the length of the list. */
static uint32_t list_rows(const digits_job *job, uint32_t rows[GW_CUDA_MLP_SIZES]) {
    uint64_t steps[DIGITS_STEPS];
    const uint32_t count = digits_steps(job, steps);
    for (uint32_t i = 0; i < count; i++) {
        digits_place place = digits_place_of(job, steps[i]);
        rows[2 * i] = digits_samples_of(job, &place, 0).rows;
        rows[2 * i + 1] = digits_samples_of(job, &place, place.shards - 1).rows;
    }
    return 2 * count;
}

static void gpu_close(void *job, void *side_pointer) {
    (void)job;
    side *s = side_pointer;
    gw_cuda_mlp_close(s->mlp);
    free(s);
}

static bool gpu_open(void *job_pointer, const gw_gpu *gpu, void **side_out, char *plan, gw_err *err) {
    const digits_job *job = job_pointer;
    side *s = calloc(1, sizeof *s);
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    s->gpu = *gpu;
    uint32_t rows[GW_CUDA_MLP_SIZES];
    if (!gw_cuda_mlp_open(gpu, &job->mlp, rows, list_rows(job, rows), &s->mlp, err)) {
        gpu_close(job_pointer, s);
        return false;
    }
    gw_cuda_mlp_text(s->mlp, plan);
    *side_out = s;
    return true;
}

static void gpu_lane_close(void *job, void *side_pointer, void *lane_pointer) {
    const side *s = side_pointer;
    lane *l = lane_pointer;
    (void)job;
    gw_cuda_mlp_lane_close(s->mlp, &l->mlp);
    gw_cuda_free(s->gpu.ordinal, l->of_row);
    gw_cuda_free(s->gpu.ordinal, l->loss);
    free(l);
}

static uint64_t gpu_lane_bytes(const void *job, const void *side_pointer) {
    const side *s = side_pointer;
    return gw_cuda_mlp_lane_bytes(s->mlp) + most_rows(job) * sizeof(double);
}

static bool gpu_lane_open(void *job_pointer, void *side_pointer, void **lane_out, gw_err *err) {
    const digits_job *job = job_pointer;
    const side *s = side_pointer;
    void *of_row = NULL, *loss = NULL;
    lane *l = calloc(1, sizeof *l);
    if (l == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    bool good = gw_cuda_mlp_lane_open(s->mlp, &l->mlp, err) &&
                gw_cuda_allocate(s->gpu.ordinal, most_rows(job) * sizeof *l->of_row, &of_row, err) &&
                gw_cuda_allocate(s->gpu.ordinal, sizeof *l->loss, &loss, err);
    l->of_row = of_row;
    l->loss = loss;
    if (!good) {
        gpu_lane_close(job_pointer, side_pointer, l);
        return false;
    }
    *lane_out = l;
    return true;
}

static bool gpu_init(void *job_pointer, void *side_pointer, const gw_range *range, const gw_state *state,
                     struct CUstream_st *stream, gw_err *err) {
    const digits_job *job = job_pointer;
    const side *s = side_pointer;
    GW_ASSERT(range->first == 0);
    for (uint32_t t = 0; t < job->tensor_count; t++) {
        const gw_tensor *tensor = &job->tensors[t];
        if (tensor->group != range->group || tensor->role != GW_STATE) continue;
        size_t bytes = range->count * gw_dtype_bytes(tensor->dtype);
        if (!gw_cuda_try(s->gpu.ordinal, cudaMemsetAsync(state->data[t], 0, bytes, stream), err,
                         "clearing '%s'", tensor->name))
            return false;
    }
    if (range->group == job->result_group || range->group % 2 != 0) return true;
    const digits_group *group = &job->groups[range->group];
    return gw_cuda_try(s->gpu.ordinal,
                       gw_cuda_uniform(gw_mix64(job->seed), range->group, digits_weight_bound(job, group),
                                       range->count, state->data[group->parameter], stream),
                       err, "drawing the weights of layer %u", group->layer + 1);
}

static gw_mlp_parameters parameters_of(const digits_job *job, const gw_state *state) {
    gw_mlp_parameters parameters;
    for (uint32_t l = 0; l < job->mlp.layers; l++) {
        parameters.weights[l] = state->data[job->groups[2 * l].parameter];
        parameters.bias[l] = state->data[job->groups[2 * l + 1].parameter];
    }
    return parameters;
}

static bool gpu_derive(void *job_pointer, void *side_pointer, const gw_state *state,
                       struct CUstream_st *stream, gw_err *err) {
    const side *s = side_pointer;
    gw_mlp_parameters parameters = parameters_of(job_pointer, state);
    return gw_cuda_mlp_derive(s->mlp, &parameters, stream, err);
}

static bool gpu_contribute(void *job_pointer, void *side_pointer, void *lane_pointer,
                           const gw_gpu_shard *shard, const gw_state *state, gw_emitter *emitter,
                           gw_err *err) {
    const digits_job *job = job_pointer;
    const side *s = side_pointer;
    lane *l = lane_pointer;
    digits_place place = digits_place_of(job, shard->step);
    uint32_t rows = digits_samples_of(job, &place, shard->shard).rows;
    const uint8_t *pixels = shard->input, *labels = pixels + labels_at(job);
    gw_mlp_parameters parameters = parameters_of(job, state);
    if (!gw_cuda_try(s->gpu.ordinal,
                     gw_cuda_normalise((uint64_t)rows * job->mlp.width[0], pixels, job->pixel_scale,
                                       job->pixel_shift, l->mlp.inputs, shard->stream),
                     err, "preparing the inputs") ||
        !gw_cuda_mlp_forward(s->mlp, &parameters, &l->mlp, rows, shard->stream, err) ||
        !gw_cuda_try(s->gpu.ordinal,
                     gw_cuda_softmax_loss(rows, GW_CLASSES, l->mlp.activation[job->mlp.layers], labels,
                                          1.0f / (float)job->batch, l->of_row, l->loss, shard->stream),
                     err, "loss"))
        return false;
    gw_emit_integers(emitter, job->correct, 0, 1, &l->loss->correct);
    gw_emit_integers(emitter, job->count, 0, 1, &l->loss->count);
    gw_emit(emitter, job->loss, 0, 1, &l->loss->sum);
    return place.phase != GW_TRAIN || gw_cuda_mlp_backward(s->mlp, &parameters, &job->gradients, &l->mlp,
                                                           rows, shard->stream, emitter, err);
}

static cudaError_t apply_group(const digits_job *job, const gw_range *range, const gw_sums *sums,
                               const gw_scalars *scalars, const gw_state *state, cudaStream_t stream) {
    const digits_group *group = &job->groups[range->group];
    const int64_t *gradient = sums->data[group->gradient];
    float *parameter = state->data[group->parameter], *first = state->data[group->first];
    if (job->optimizer == DIGITS_SGD) {
        gw_sgd sgd = digits_sgd(job, range->group, scalars);
        return gw_cuda_sgd(&sgd, range->count, gradient, parameter, first, stream);
    }
    gw_adamw adamw = digits_adamw(job, range->group, scalars);
    return gw_cuda_adamw(&adamw, range->count, gradient, parameter, first, state->data[group->second],
                         stream);
}

static bool gpu_apply(void *job_pointer, void *side_pointer, uint64_t step, const gw_range *range,
                      const gw_sums *sums, const gw_scalars *scalars, const gw_state *state,
                      struct CUstream_st *stream, gw_err *err) {
    const digits_job *job = job_pointer;
    const side *s = side_pointer;
    bool evaluate = digits_place_of(job, step).phase == GW_EVALUATE,
         results = range->group == job->result_group;
    cudaError_t status = cudaSuccess;
    GW_ASSERT(range->first == 0);
    if (evaluate && results) {
        status = gw_cuda_set_double(state->data[job->result_loss], scalars->value[DIGITS_LOSS], stream);
        if (status == cudaSuccess)
            status = gw_cuda_set_double(state->data[job->result_accuracy], scalars->value[DIGITS_ACCURACY],
                                        stream);
    } else if (!evaluate && !results) {
        status = apply_group(job, range, sums, scalars, state, stream);
    }
    return gw_cuda_try(s->gpu.ordinal, status, err, "updating group %u", range->group);
}

const gw_job_gpu digits_gpu = {
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
    .apply = gpu_apply,
};
#endif
