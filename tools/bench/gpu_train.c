#ifdef GODWIT_CUDA
#include "tools/bench/gpu_train.h"

#include "kernels/cuda/device.h"
#include "kernels/jobs/digits.h"
#include "tools/bench/job.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LANES = 2, BATCH = 8192, STEPS = 24, WARM = 4 };

static const char *const settings[][2] = {{"hidden", "8192,8192"}, {"batch", "8192"},
                                          {"micro-batch", "2048"}, {"samples", "65536"},
                                          {"epochs", "1000"},      {"lr", "0.001"}};

/* What the lanes' threads share with the caller, who takes part in both barriers. */
typedef struct training {
    void *job;
    gw_plan plan;
    gw_device *device;
    gw_lane *applier; /* the caller's, for units */
    pthread_barrier_t begin, end;
    bool over; /* written before `begin` */
    uint64_t step;
    uint32_t shards;
    _Atomic uint32_t next, failed;
    pthread_mutex_t lock;
    gw_err err; /* of the first failure */
} training;

static void note(training *t, const gw_err *err) {
    pthread_mutex_lock(&t->lock);
    if (atomic_fetch_add(&t->failed, 1) == 0) t->err = *err;
    pthread_mutex_unlock(&t->lock);
}

static void *lane_main(void *context) {
    training *t = context;
    const gw_device_ops *ops = t->device->ops;
    gw_lane *lane = NULL;
    gw_err err;
    if (!ops->lane_open(t->device, &lane, &err)) note(t, &err);
    for (;;) {
        pthread_barrier_wait(&t->begin);
        if (t->over) break;
        for (uint32_t shard; lane != NULL && (shard = atomic_fetch_add(&t->next, 1)) < t->shards;) {
            if (shard + LANES < t->shards) ops->prefetch(t->device, lane, t->step, shard + LANES);
            if (ops->contribute(t->device, lane, t->step, shard, &err) != GW_SHARD_HELD) note(t, &err);
        }
        pthread_barrier_wait(&t->end);
    }
    ops->lane_close(t->device, lane);
    return NULL;
}

static bool finish_step(training *t, gw_err *err) {
    const gw_device_ops *ops = t->device->ops;
    gw_segments none;
    gw_verdict verdict;
    gw_scalars scalars;
    uint64_t part;
    if (!ops->reduce_begin(t->device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, err) ||
        !ops->reduce_end(t->device, &verdict, err))
        return false;
    if (!verdict.coverage_ok || !verdict.fingerprint_ok || verdict.bad > 0)
        return gw_fail(err, GW_E_CORRUPT, "the sum of step %llu is wrong", (unsigned long long)t->step);
    return ops->scalars(t->device, &scalars, err) &&
           ops->unit(t->device, t->applier, GW_UNIT_APPLY, 0, &part, err);
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool train(training *t, double *rate, gw_err *err) {
    double took[STEPS];
    uint64_t part;
    int counted = 0;
    if (!t->device->ops->unit(t->device, t->applier, GW_UNIT_INIT, 0, &part, err)) return false;
    for (t->step = 0; counted < STEPS + WARM; t->step++) {
        gw_phase phase;
        double began = now();
        t->shards = gw_job_digits.shards(t->job, t->step, &phase);
        atomic_store(&t->next, 0);
        t->device->ops->step_begin(t->device, t->step);
        pthread_barrier_wait(&t->begin);
        pthread_barrier_wait(&t->end);
        if (atomic_load(&t->failed) > 0) {
            *err = t->err;
            return false;
        }
        if (!finish_step(t, err)) return false;
        if (phase != GW_TRAIN) continue;
        if (counted >= WARM) took[counted - WARM] = now() - began;
        counted++;
    }
    qsort(took, STEPS, sizeof *took, by_size);
    *rate = BATCH / took[STEPS / 2];
    return true;
}

static bool open_job(training *t, gw_param *list, gw_err *err) {
    gw_params params = {list, 0};
    for (const gw_option *option = gw_job_digits.options; option->name != NULL; option++) {
        const char *value = option->fallback;
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
            if (strcmp(settings[i][0], option->name) == 0) value = settings[i][1];
        if (value != NULL) list[params.count++] = (gw_param){option->name, value};
    }
    return gw_job_digits.open(&params, &t->job, err) && gw_job_digits.describe(t->job, &t->plan, err);
}

static bool run_lanes(training *t, double *rate, gw_err *err) {
    pthread_t threads[LANES];
    pthread_barrier_init(&t->begin, NULL, LANES + 1);
    pthread_barrier_init(&t->end, NULL, LANES + 1);
    for (int i = 0; i < LANES; i++) {
        int failure = pthread_create(&threads[i], NULL, lane_main, t);
        if (failure != 0) return gw_fail_errno(err, failure, "a thread"); /* the process ends with this */
    }
    bool done = train(t, rate, err);
    t->over = true;
    pthread_barrier_wait(&t->begin);
    for (int i = 0; i < LANES; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&t->begin);
    pthread_barrier_destroy(&t->end);
    return done;
}

bool gw_bench_gpu_train(const gw_gpu *gpu, double *rate, gw_err *err) {
    training t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    gw_param list[GW_BENCH_PARAMS];
    gw_device_options options = {
        .type = &gw_job_digits, .plan = &t.plan, .workers = LANES, .boundary_words = 1};
    bool done = open_job(&t, list, err);
    options.job = t.job;
    done = done && gw_device_cuda_open(&options, gpu, &t.device, err) &&
           t.device->ops->lane_open(t.device, &t.applier, err) && run_lanes(&t, rate, err);
    if (t.applier != NULL) t.device->ops->lane_close(t.device, t.applier);
    if (t.device != NULL) t.device->ops->close(t.device);
    if (t.job != NULL) gw_job_digits.close(t.job);
    return done;
}
#endif
