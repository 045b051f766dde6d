/* A job on a machine with bad memory: a bit of a weight, of a moment, of a gradient or of a finished sum
 * flips where and when a test says. Its state is two tensors of some pages; every weight goes into every
 * contribution, and a moment into its weight as the sum is applied.
 *
 * Where the test has a stand-in for CUDA (FAKE_CUDA), whose "GPU memory" is the process's own, it has code
 * for GPUs as well. There it is GPU 1 whose memory is bad, and a weight or a moment flips in the first shard
 * that it computes from step N on. */
#include "core/gpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WEIGHTS, MOMENTS, GRADIENT, TENSORS, SHARDS = 24, STEPS = 40, ELEMENTS = 20000 };

static const gw_tensor tensors[] = {
    [WEIGHTS] = {.name = "weights", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {ELEMENTS}},
    [MOMENTS] = {.name = "moments",
                 .dtype = GW_F32,
                 .role = GW_STATE,
                 .rank = 1,
                 .dim = {ELEMENTS},
                 .apply_only = true},
    [GRADIENT] = {.name = "gradient", .role = GW_SUMMED, .rank = 1, .dim = {ELEMENTS}, .frac_bits = 40},
};

static const gw_option options[] = {
    {"flip-weight", "N", "-1", "While step N is computed here a bit of a weight flips; -1: never", true},
    {"flip-moment", "N", "-1", "While step N is computed here a bit of a moment flips; -1: never", true},
    {"flip-gradient", "N", "-1",
     "In the first shard computed here from step N on a bit of the gradient flips", true},
    {"flip-gradients", "N", "-1", "In all of them", true},
    {"flip-sum", "N", "-1", "In step N's sum a bit flips after it was checked; -1: never", true},
    {"flip-between", "N", "-1", "After step N's sum was checked a bit of a weight flips; -1: never", true},
    {"flip-after", "N", "-1", "After step N was applied a bit of a weight flips, once; -1: never", true},
    {"hang-again", "N", "-1", "A shard of step N that is computed here a second time never ends; -1: all end",
     true},
    {"wide", "N", "0", "Every N-th element of the gradient is so large that sums are not packed; 0: none",
     true},
    {"pause-us", "N", "1000", "How long a shard takes", true},
    {0},
};

typedef struct flipper {
    int64_t weight, moment, gradient, gradients, sum, between, after, again, wide, pause_us;
    atomic_bool done;              /* once only */
    atomic_uint_fast64_t computed; /* --hang-again: a bit for each shard of its step */
} flipper;

static bool flipper_open(const gw_params *params, void **job, gw_err *err) {
    flipper *f = calloc(1, sizeof *f);
    if (f == NULL) return gw_fail(err, GW_E_NOMEM, "flipper: out of memory");
    *job = f;
    if (gw_param_integer(params, "flip-weight", -1, STEPS, false, &f->weight, err) &&
        gw_param_integer(params, "flip-moment", -1, STEPS, false, &f->moment, err) &&
        gw_param_integer(params, "flip-gradient", -1, STEPS, false, &f->gradient, err) &&
        gw_param_integer(params, "flip-gradients", -1, STEPS, false, &f->gradients, err) &&
        gw_param_integer(params, "flip-sum", -1, STEPS, false, &f->sum, err) &&
        gw_param_integer(params, "flip-between", -1, STEPS, false, &f->between, err) &&
        gw_param_integer(params, "flip-after", -1, STEPS, false, &f->after, err) &&
        gw_param_integer(params, "hang-again", -1, STEPS, false, &f->again, err) &&
        gw_param_integer(params, "wide", 0, ELEMENTS, false, &f->wide, err) &&
        gw_param_integer(params, "pause-us", 0, 1000000, false, &f->pause_us, err))
        return true;
    free(f);
    return false;
}

static bool flipper_describe(void *job, gw_plan *plan, gw_err *err) {
    (void)job, (void)err;
    plan->tensors = tensors;
    plan->tensor_count = TENSORS;
    plan->steps = STEPS;
    return true;
}

static bool flipper_lane_open(void *job, void **lane, gw_err *err) {
    (void)job;
    *lane = malloc(ELEMENTS * sizeof(float));
    return *lane != NULL || gw_fail(err, GW_E_NOMEM, "flipper: out of memory");
}

static void flipper_lane_close(void *job, void *lane) {
    (void)job;
    free(lane);
}

static bool flipper_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)job, (void)err;
    float *weights = state->data[WEIGHTS], *moments = state->data[MOMENTS];
    for (uint64_t i = range->first; i < range->first + range->count; i++) {
        weights[i] = 1.0f / (float)(1 + i);
        moments[i] = 0.0f;
    }
    return true;
}

static uint32_t flipper_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return SHARDS;
}

/* Memory does not ask the threads that read it when one of its bits flips: the thread sanitizer is not
 * told of this write. */
__attribute__((no_sanitize("thread"))) static void flip(void *at) {
    *(uint32_t *)at ^= 1u << 21;
}

static void hang_again(flipper *f, uint64_t step, uint32_t shard) {
    uint64_t bit = UINT64_C(1) << shard;
    bool again = (int64_t)step == f->again && (atomic_fetch_or(&f->computed, bit) & bit) != 0;
    while (again) pause();
}

/* It may compute no shard of the very step. */
static bool is_due(int64_t from, uint64_t step) {
    return from >= 0 && (int64_t)step >= from;
}

static bool contribute(flipper *f, bool bad_memory, float *gradient, uint64_t step, uint32_t shard,
                       const gw_state *state, gw_emitter *emitter) {
    float *weights = state->data[WEIGHTS], *moments = state->data[MOMENTS];
    hang_again(f, step, shard);
    usleep((useconds_t)f->pause_us); /* long enough for every peer to get some of a step */
    if (bad_memory && is_due(f->weight, step) && !atomic_exchange(&f->done, true)) flip(&weights[777]);
    if (bad_memory && is_due(f->moment, step) && !atomic_exchange(&f->done, true)) flip(&moments[777]);
    for (uint32_t i = 0; i < ELEMENTS; i++) gradient[i] = 0.01f * weights[i] / (float)(1 + shard);
    for (uint32_t i = 0; f->wide > 0 && i < ELEMENTS; i += (uint32_t)f->wide)
        gradient[i] = i % 8 == 0 ? 2e5f : -2e5f;
    bool once = is_due(f->gradient, step) && !atomic_exchange(&f->done, true);
    if (once || is_due(f->gradients, step)) flip(&gradient[4242]);
    gw_emit(emitter, GRADIENT, 0, ELEMENTS, gradient);
    return true;
}

static bool flipper_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                               gw_emitter *emitter, gw_err *err) {
    (void)err;
    return contribute(job, true, lane, step, shard, state, emitter);
}

static bool flipper_scalars(void *job, uint64_t step, const gw_sums *sums, const gw_state *state,
                            gw_scalars *scalars, gw_err *err) {
    flipper *f = job;
    float *weights = state->data[WEIGHTS];
    (void)scalars, (void)err;
    if ((int64_t)step == f->between && !atomic_exchange(&f->done, true)) flip(&weights[777]);
    if ((int64_t)step == f->sum) flip((int64_t *)(uintptr_t)&sums->data[GRADIENT][99]);
    return true;
}

static bool flipper_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                          const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    (void)job, (void)step, (void)scalars, (void)err;
    float *weights = state->data[WEIGHTS], *moments = state->data[MOMENTS];
    for (uint64_t i = range->first; i < range->first + range->count; i++) {
        moments[i] = 0.5f * moments[i] + (float)gw_sum_value(sums, GRADIENT, i);
        weights[i] -= moments[i];
    }
    return true;
}

static bool flipper_commit(void *job, uint64_t step, const gw_state *state, gw_err *err) {
    flipper *f = job;
    float *weights = state->data[WEIGHTS];
    (void)err;
    if ((int64_t)step == f->after && !atomic_exchange(&f->done, true)) flip(&weights[777]);
    return true;
}

/* The job on a stand-in for a GPU, which does its work when it is started. */

static bool gpu_open(void *job, const gw_gpu *gpu, void **side, char *plan, gw_err *err) {
    int *ordinal = malloc(sizeof *ordinal);
    (void)job, (void)plan;
    if (ordinal == NULL) return gw_fail(err, GW_E_NOMEM, "flipper: out of memory");
    *ordinal = gpu->ordinal;
    *side = ordinal;
    return true;
}

static void gpu_close(void *job, void *side) {
    (void)job;
    free(side);
}

static bool gpu_lane_open(void *job, void *side, void **lane, gw_err *err) {
    (void)side;
    return flipper_lane_open(job, lane, err);
}

static void gpu_lane_close(void *job, void *side, void *lane) {
    (void)side;
    flipper_lane_close(job, lane);
}

static bool gpu_init(void *job, void *side, const gw_range *range, const gw_state *state,
                     struct CUstream_st *stream, gw_err *err) {
    (void)side, (void)stream;
    return flipper_init(job, range, state, err);
}

static bool gpu_contribute(void *job, void *side, void *lane, const gw_gpu_shard *shard,
                           const gw_state *state, gw_emitter *emitter, gw_err *err) {
    const int *ordinal = side;
    (void)err;
    return contribute(job, *ordinal == 1, lane, shard->step, shard->shard, state, emitter);
}

static bool gpu_apply(void *job, void *side, uint64_t step, const gw_range *range, const gw_sums *sums,
                      const gw_scalars *scalars, const gw_state *state, struct CUstream_st *stream,
                      gw_err *err) {
    (void)side, (void)stream;
    return flipper_apply(job, step, range, sums, scalars, state, err);
}

static const gw_job_gpu gpu = {
    .open = gpu_open,
    .close = gpu_close,
    .lane_open = gpu_lane_open,
    .lane_close = gpu_lane_close,
    .init = gpu_init,
    .contribute = gpu_contribute,
    .apply = gpu_apply,
};

const gw_job_type *godwit_job(void); /* what `godwit run ./flipper.so` looks for */

const gw_job_type *godwit_job(void) {
    static gw_job_type type = {
        .api = GW_JOB_API,
        .name = "flipper",
        .about = "bits that flip in memory",
        .options = options,
        .open = flipper_open,
        .close = free,
        .describe = flipper_describe,
        .lane_open = flipper_lane_open,
        .lane_close = flipper_lane_close,
        .init = flipper_init,
        .shards = flipper_shards,
        .contribute = flipper_contribute,
        .scalars = flipper_scalars,
        .apply = flipper_apply,
        .commit = flipper_commit,
    };
    type.gpu = getenv("FAKE_CUDA") != NULL ? &gpu : NULL;
    return &type;
}
