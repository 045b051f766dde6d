/* `godwit bench digits` trains in one thread on the CPU device, as a lone peer with one worker does, and
 * compares the CPU time with that of OpenBLAS for the same matrix products alone. */
#include "kernels/jobs/digits/digits.h"
#include "core/base/assert.h"
#include "kernels/device/device.h"
#include "kernels/math/blas.h"
#include "tools/bench/bench.h"
#include "tools/bench/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench {
    void *job;
    gw_plan plan;
    gw_device *device;
    gw_lane *lane;
    double contribute_seconds, apply_seconds, gemm_seconds; /* CPU time of the training steps */
    uint64_t train_steps, train_shards;
} bench;

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reduces a step whose shards are all computed, computes its scalars, and applies it. */
static bool finish_step(bench *b, uint64_t step, gw_err *err) {
    const gw_device_ops *ops = b->device->ops;
    gw_segments send, receive;
    gw_verdict verdict;
    gw_scalars scalars = {0};
    if (!ops->reduce_begin(b->device, GW_REDUCE_ALONE, GW_PLACE_HOST, &send, &receive, err) ||
        !ops->reduce_end(b->device, &verdict, err) || !gw_bench_sum_is_right(&verdict, step, err))
        return false;
    if (!ops->scalars(b->device, &scalars, err)) return false;
    for (uint64_t unit = 0; unit < b->device->unit_count; unit++) {
        gw_state_print part;
        if (!ops->unit(b->device, GW_UNIT_APPLY, unit, &part, err)) return false;
    }
    return true;
}

static bool train(bench *b, gw_err *err) {
    const gw_device_ops *ops = b->device->ops;
    for (uint64_t unit = 0; unit < b->device->unit_count; unit++) {
        gw_state_print part;
        if (!ops->unit(b->device, GW_UNIT_INIT, unit, &part, err)) return false;
    }
    for (uint64_t step = 0; step < b->plan.steps; step++) {
        gw_phase phase;
        uint32_t shards = gw_job_digits.shards(b->job, step, &phase);
        double begin = cpu_seconds();
        ops->step_begin(b->device, step);
        for (uint32_t shard = 0; shard < shards; shard++)
            if (ops->contribute(b->device, b->lane, step, shard, err) != GW_SHARD_HELD) return false;
        double middle = cpu_seconds();
        if (!finish_step(b, step, err)) return false;
        if (phase != GW_TRAIN) continue;
        b->train_steps++;
        b->train_shards += shards;
        b->contribute_seconds += middle - begin;
        b->apply_seconds += cpu_seconds() - middle;
    }
    return true;
}

/* Computes the products of one layer in one shard: forward, weight gradient, and input gradient, except
 * for the first layer. */
static void multiply_layer(const float *x, const float *w, float *y, float *dw, float *dx, size_t rows,
                           size_t in, size_t out) {
    gw_blas_multiply(rows, out, in, (gw_operand){x, in, GW_PLAIN}, (gw_operand){w, out, GW_PLAIN}, 1.0f, y,
                     out);
    gw_blas_multiply(in, out, rows, (gw_operand){x, in, GW_TRANSPOSED}, (gw_operand){y, out, GW_PLAIN}, 0.0f,
                     dw, out);
    if (dx != NULL)
        gw_blas_multiply(rows, in, out, (gw_operand){y, out, GW_PLAIN}, (gw_operand){w, out, GW_TRANSPOSED},
                         0.0f, dx, in);
}

/* Measures one layer. The first layer is the last one that the job's table lists, and the only one without
 * an input gradient. */
static bool time_layer(bench *b, const gw_tensor *gradient, bool first, size_t rows, gw_err *err) {
    size_t in = gradient->dim[0], out = gradient->dim[1];
    size_t total = 2 * in * out + 2 * rows * in + rows * out;
    float *memory = malloc(total * sizeof *memory);
    if (memory == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    for (size_t i = 0; i < total; i++) memory[i] = (float)(i % 17) * 1e-3f;
    float *w = memory, *dw = w + in * out, *x = dw + in * out, *dx = x + rows * in, *y = dx + rows * in;
    double begin = cpu_seconds();
    for (uint64_t shard = 0; shard < b->train_shards; shard++) {
        memset(y, 0, rows * out * sizeof *y);
        multiply_layer(x, w, y, dw, first ? NULL : dx, rows, in, out);
    }
    b->gemm_seconds += cpu_seconds() - begin;
    free(memory);
    return true;
}

/* Measures the same products for as many shards as were trained (a partial last shard of an epoch counts
 * as whole). */
static bool time_products(bench *b, size_t rows, gw_err *err) {
    const gw_tensor *first = NULL;
    for (uint32_t i = 0; i < b->plan.tensor_count; i++)
        if (b->plan.tensors[i].role == GW_SUMMED && b->plan.tensors[i].rank == 2) first = &b->plan.tensors[i];
    GW_ASSERT(first != NULL);
    for (uint32_t i = 0; i < b->plan.tensor_count; i++) {
        const gw_tensor *tensor = &b->plan.tensors[i];
        if (tensor->role == GW_SUMMED && tensor->rank == 2 &&
            !time_layer(b, tensor, tensor == first, rows, err))
            return false;
    }
    return true;
}

static bool open_all(bench *b, const gw_params *params, gw_err *err) {
    if (!gw_job_digits.open(params, &b->job, err) || !gw_job_digits.describe(b->job, &b->plan, err))
        return false;
    gw_device_options options = {.type = &gw_job_digits, .job = b->job, .plan = &b->plan, .workers = 1};
    return gw_device_cpu_open(&options, &b->device, err) &&
           b->device->ops->lane_open(b->device, &b->lane, err);
}

static void close_all(bench *b) {
    if (b->lane != NULL) b->device->ops->lane_close(b->device, b->lane);
    if (b->device != NULL) b->device->ops->close(b->device);
    if (b->job != NULL) gw_job_digits.close(b->job);
}

static void print_result(const bench *b) {
    char summary[200];
    b->device->ops->summary(b->device, b->plan.steps, summary, sizeof summary);
    double training = b->contribute_seconds + b->apply_seconds;
    printf("data                  %s\n", b->plan.data_text);
    printf("training              %llu steps, %llu shards\n", (unsigned long long)b->train_steps,
           (unsigned long long)b->train_shards);
    printf("CPU time              %.3f s: shards %.3f s, check and apply %.3f s\n", training,
           b->contribute_seconds, b->apply_seconds);
    printf("the same GEMMs alone  %.3f s\n", b->gemm_seconds);
    printf("ratio                 %.2f\n", training / b->gemm_seconds);
    printf("result                %s\n", summary);
}

int gw_bench_digits(int argc, char **argv) {
    gw_param list[GW_BENCH_PARAMS];
    gw_params params;
    if (!gw_bench_job_params(
            argc, argv, &gw_job_digits, NULL,
            "Trains `digits` in one thread and compares its CPU time with that of the GEMMs.", list, &params))
        return 2;
    gw_err err = {0};
    bench b = {0};
    int64_t rows = 0;
    bool done = open_all(&b, &params, &err) && train(&b, &err) &&
                gw_param_integer(&params, "micro-batch", 1, INT64_MAX, false, &rows, &err) &&
                time_products(&b, (size_t)rows, &err);
    if (done)
        print_result(&b);
    else
        fprintf(stderr, "%s: %s\n", argv[0], err.text);
    close_all(&b);
    return done ? 0 : err.code == GW_E_USAGE ? 2 : 1;
}
