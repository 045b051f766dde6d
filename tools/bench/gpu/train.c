#ifdef GODWIT_CUDA
#include "tools/bench/gpu/train.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/runtime/call.h"
#include "tools/bench/job.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LANES = 2, MOST_STEPS = 100, WARM = 3, MOST_REPEATED = 8 };

/* The data shared by the lanes' threads and the caller, which takes part in both barriers. */
typedef struct training {
    const gw_bench_training *what;
    int gpu;
    void *job;
    gw_plan plan;
    gw_device *device;
    uint32_t lanes;
    pthread_barrier_t begin, end;
    bool over;         /* this and the next three fields are written before `begin` */
    gw_unit_work unit; /* work on the state; 0 = the step's shards */
    uint64_t step;
    uint32_t shards;
    _Atomic uint32_t next, failed;
    uint64_t found[MOST_REPEATED]; /* fingerprints of the first shards */
    pthread_mutex_t lock;
    gw_err err; /* error of the first failure */
} training;

static void note(training *t, const gw_err *err) {
    pthread_mutex_lock(&t->lock);
    if (atomic_fetch_add(&t->failed, 1) == 0) t->err = *err;
    pthread_mutex_unlock(&t->lock);
}

static bool contribute(training *t, gw_lane *lane, uint32_t shard, gw_err *err) {
    const gw_device_ops *ops = t->device->ops;
    if (shard + t->lanes < t->shards) ops->prefetch(t->device, lane, t->step, shard + t->lanes);
    if (ops->contribute(t->device, lane, t->step, shard, err) != GW_SHARD_HELD) return false;
    if (shard < MOST_REPEATED) t->found[shard] = ops->fingerprint(t->device, lane);
    return true;
}

static void *lane_main(void *context) {
    training *t = context;
    const gw_device_ops *ops = t->device->ops;
    gw_lane *lane = NULL;
    gw_err err;
    gw_state_print part;
    if (!ops->lane_open(t->device, &lane, &err)) note(t, &err);
    for (;;) {
        pthread_barrier_wait(&t->begin);
        if (t->over) break;
        uint32_t count = t->unit != 0 ? 1 : t->shards;
        for (uint32_t i; lane != NULL && (i = atomic_fetch_add(&t->next, 1)) < count;)
            if (t->unit != 0 ? !ops->unit(t->device, t->unit, 0, &part, &err) : !contribute(t, lane, i, &err))
                note(t, &err);
        pthread_barrier_wait(&t->end);
    }
    ops->lane_close(t->device, lane);
    return NULL;
}

/* Lets the lanes' threads do the work. */
static bool together(training *t, gw_unit_work unit, gw_err *err) {
    t->unit = unit;
    atomic_store(&t->next, 0);
    pthread_barrier_wait(&t->begin);
    pthread_barrier_wait(&t->end);
    if (atomic_load(&t->failed) == 0) return true;
    *err = t->err;
    return false;
}

/* Copies what one member sends, as its sum. A lone peer sends nothing. */
static bool copy_sums(const training *t, gw_segments send, gw_segments receive, gw_err *err) {
    for (uint32_t i = 0; i < send.count; i++) {
        size_t bytes = send.list[i].count * (send.list[i].is_float ? sizeof(float) : sizeof(int64_t));
        if (!gw_cuda_try(t->gpu,
                         cudaMemcpy(receive.list[i].data, send.list[i].data, bytes, cudaMemcpyDeviceToDevice),
                         err, "copying a sum"))
            return false;
    }
    /* A copy within the GPU may still be running when the call returns. */
    return gw_cuda_try(t->gpu, cudaDeviceSynchronize(), err, "copying a sum");
}

static bool finish_step(training *t, gw_reduce mode, gw_err *err) {
    const gw_device_ops *ops = t->device->ops;
    gw_segments send, receive;
    gw_verdict verdict;
    gw_scalars scalars;
    if (!ops->reduce_begin(t->device, mode, GW_PLACE_GPU, &send, &receive, err) ||
        !copy_sums(t, send, receive, err) || !ops->reduce_end(t->device, &verdict, err) ||
        !gw_bench_sum_is_right(&verdict, t->step, err))
        return false;
    return ops->scalars(t->device, &scalars, err) && together(t, GW_UNIT_APPLY, err);
}

static double now(void) {
    return (double)gw_now_ns() * 1e-9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Trains further steps; evaluations are not measured. */
static bool train(training *t, gw_reduce mode, double *seconds, gw_err *err) {
    double took[MOST_STEPS];
    uint32_t counted = 0, steps = t->what->steps;
    GW_ASSERT(steps > 0 && steps <= MOST_STEPS);
    for (; counted < steps + WARM; t->step++) {
        gw_phase phase;
        double began = now();
        t->shards = t->what->type->shards(t->job, t->step, &phase);
        t->device->ops->step_begin(t->device, t->step);
        if (!together(t, 0, err) || !finish_step(t, mode, err)) return false;
        if (phase != GW_TRAIN) continue;
        if (counted >= WARM) took[counted - WARM] = now() - began;
        counted++;
    }
    qsort(took, steps, sizeof *took, by_size);
    *seconds = took[steps / 2];
    return true;
}

bool gw_bench_gpu_taken(int gpu, uint64_t *bytes, gw_err *err) {
    size_t free_bytes, all_bytes;
    if (!gw_cuda_try(gpu, cudaMemGetInfo(&free_bytes, &all_bytes), err, "cudaMemGetInfo")) return false;
    *bytes = all_bytes - free_bytes;
    return true;
}

/* Computes the same shards from the same state again and again, and counts other fingerprints. */
static bool repeat(training *t, uint32_t *others, gw_err *err) {
    uint64_t first[MOST_REPEATED];
    const size_t bytes = t->what->repeated * sizeof *first;
    GW_ASSERT(t->what->repeated <= MOST_REPEATED);
    for (uint32_t i = 0; t->what->repeated > 0 && i < GW_BENCH_REPEATS; i++) {
        t->shards = t->what->repeated;
        t->device->ops->step_begin(t->device, t->step);
        if (!together(t, 0, err)) return false;
        if (i == 0) memcpy(first, t->found, bytes);
        *others += memcmp(first, t->found, bytes) != 0;
    }
    return true;
}

static bool train_all(training *t, gw_bench_trained *got, gw_err *err) {
    if (!together(t, GW_UNIT_INIT, err) || !repeat(t, &got->others, err) ||
        !train(t, GW_REDUCE_ALONE, &got->alone, err) || !gw_bench_gpu_taken(t->gpu, &got->bytes, err))
        return false;
    got->shards = t->shards;
    return train(t, GW_REDUCE_EXACT, &got->exact, err) && train(t, GW_REDUCE_FAST, &got->fast, err);
}

static bool open_job(training *t, gw_param *list, gw_err *err) {
    gw_params params = {.list = list};
    for (const gw_option *option = t->what->type->options; option->name != NULL; option++) {
        const char *value = option->fallback;
        for (const gw_bench_setting *set = t->what->settings; set->name != NULL; set++)
            if (strcmp(set->name, option->name) == 0) value = set->value;
        if (value != NULL) list[params.count++] = (gw_param){option->name, value};
    }
    return t->what->type->open(&params, &t->job, err) && t->what->type->describe(t->job, &t->plan, err);
}

static bool run_lanes(training *t, gw_bench_trained *got, gw_err *err) {
    pthread_t threads[MOST_LANES] = {0};
    pthread_barrier_init(&t->begin, NULL, t->lanes + 1);
    pthread_barrier_init(&t->end, NULL, t->lanes + 1);
    for (uint32_t i = 0; i < t->lanes; i++) {
        int failure = pthread_create(&threads[i], NULL, lane_main, t);
        if (failure != 0) return gw_fail_errno(err, failure, "a thread"); /* the process ends after this */
    }
    bool done = train_all(t, got, err);
    t->over = true;
    pthread_barrier_wait(&t->begin);
    for (uint32_t i = 0; i < t->lanes; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&t->begin);
    pthread_barrier_destroy(&t->end);
    return done;
}

bool gw_bench_gpu_train(const gw_gpu *gpu, const gw_bench_training *what, gw_bench_trained *got,
                        gw_err *err) {
    training t = {.what = what, .gpu = gpu->ordinal, .lock = PTHREAD_MUTEX_INITIALIZER};
    gw_param list[GW_BENCH_PARAMS];
    uint32_t lanes = what->type->gpu->lanes;
    t.lanes = lanes == 1 ? 1 : MOST_LANES;
    gw_device_options options = {
        .type = what->type, .plan = &t.plan, .workers = t.lanes, .boundary_words = 1};
    *got = (gw_bench_trained){0};
    bool done = gw_cuda_try(t.gpu, cudaSetDevice(t.gpu), err, "cudaSetDevice") && open_job(&t, list, err);
    options.job = t.job;
    for (uint32_t i = 0; done && i < t.plan.tensor_count; i++)
        if (t.plan.tensors[i].role == GW_SUMMED) got->elements += gw_tensor_elements(&t.plan.tensors[i]);
    done = done && gw_device_cuda_open(&options, gpu, &t.device, err) && run_lanes(&t, got, err);
    if (t.device != NULL) t.device->ops->close(t.device);
    if (t.job != NULL) what->type->close(t.job);
    return done;
}
#endif
