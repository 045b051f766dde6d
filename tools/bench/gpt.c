/* `godwit bench gpt` measures training steps as a lone peer computes them, on its worker threads, and
 * beside them the time of the same matrix products and the same exact additions alone. */
#include "kernels/jobs/gpt/gpt.h"
#include "core/base/assert.h"
#include "kernels/device/device.h"
#include "kernels/exact/exact.h"
#include "kernels/host/memory.h"
#include "kernels/math/blas.h"
#include "kernels/model/gpt/config.h"
#include "tools/bench/bench.h"
#include "tools/bench/job.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MOST = 256, ADD_ELEMENTS = 1 << 16 };

static const gw_option options[] = {
    {"workers", "N", "2", "worker threads", true},
    {NULL, NULL, NULL, NULL, false},
};

typedef enum phase { CONTRIBUTE, APPLY, INIT, PRODUCTS, ADDITIONS, STOP } phase;

typedef struct bench {
    void *job;
    gw_plan plan;
    gw_device *device;
    uint32_t workers;
    size_t layers, channels, vocabulary, rows; /* sizes of the model; rows: tokens of a shard */
    uint32_t shards, training_shards;          /* shards of this step; shards of a training step */
    uint64_t training_steps;                   /* training steps so far */
    pthread_barrier_t barrier;
    phase phase; /* the work between two barriers */
    uint64_t step;
    _Atomic uint64_t next;
    _Atomic bool failed;
    gw_err err; /* error of the first worker that failed */
} bench;

typedef struct moment {
    double wall_ms, cpu_ms; /* CPU time of all threads, which does not depend on other processes */
} moment;

static double clock_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + 1e-6 * (double)now.tv_nsec;
}

static moment moment_now(void) {
    return (moment){clock_ms(CLOCK_MONOTONIC), clock_ms(CLOCK_PROCESS_CPUTIME_ID)};
}

static moment since(moment begin) {
    moment now = moment_now();
    return (moment){now.wall_ms - begin.wall_ms, now.cpu_ms - begin.cpu_ms};
}

static void fail(bench *b, const gw_err *err) {
    if (!atomic_exchange(&b->failed, true)) b->err = *err;
}

/* Computes a layer's three products: forward, the gradient of the input, and that of the weights. */
static void multiply_layer(size_t rows, size_t in, size_t out, const float *w, float *x, float *y,
                           float *dw) {
    gw_operand inputs = {x, in, GW_PLAIN}, outputs = {y, out, GW_PLAIN};
    gw_blas_multiply(rows, out, in, inputs, (gw_operand){w, out, GW_PLAIN}, 0.0f, y, out);
    gw_blas_multiply(rows, in, out, outputs, (gw_operand){w, out, GW_TRANSPOSED}, 0.0f, x, in);
    gw_blas_multiply(in, out, rows, (gw_operand){x, in, GW_TRANSPOSED}, outputs, 0.0f, dw, out);
}

/* Computes the products of one shard, without those of attention. */
static void multiply_shard(const bench *b, float *memory) {
    size_t c = b->channels, widest = 4 * c, most = b->vocabulary > widest ? b->vocabulary : widest;
    float *w = memory, *dw = w + most * c, *x = dw + most * c, *y = x + b->rows * widest;
    for (size_t l = 0; l < b->layers; l++) {
        multiply_layer(b->rows, c, 3 * c, w, x, y, dw);
        multiply_layer(b->rows, c, c, w, x, y, dw);
        multiply_layer(b->rows, c, 4 * c, w, x, y, dw);
        multiply_layer(b->rows, 4 * c, c, w, x, y, dw);
    }
    multiply_layer(b->rows, c, b->vocabulary, w, x, y, dw);
}

static size_t products_floats(const bench *b) {
    size_t c = b->channels, most = b->vocabulary > 4 * c ? b->vocabulary : 4 * c;
    return 2 * most * c + b->rows * 4 * c + b->rows * most;
}

/* Adds as many elements as a shard's gradient has, from floats in cache to the sums in memory. */
static void add_shard(const bench *b, const float *values, int64_t *sums, uint64_t elements) {
    const gw_exact_path *path = gw_exact_path_best();
    gw_exact_format format = gw_exact_format_of(40, b->shards);
    gw_exact_part part = {0, 0};
    for (uint64_t first = 0; first < elements; first += ADD_ELEMENTS)
        path->add(&format, first, elements - first < ADD_ELEMENTS ? elements - first : ADD_ELEMENTS, values,
                  sums + first, &part);
    GW_ASSERT(part.bad == 0);
}

static uint64_t gradient_elements(const bench *b) {
    uint64_t elements = 0;
    for (uint32_t t = 0; t < b->plan.tensor_count; t++)
        if (b->plan.tensors[t].role == GW_SUMMED) elements += gw_tensor_elements(&b->plan.tensors[t]);
    return elements;
}

/* A worker's memory for the operations that are measured alone. */
typedef struct alone {
    float *products, *values;
    int64_t *sums;
} alone;

static bool alone_open(const bench *b, alone *a, gw_err *err) {
    void *products, *sums;
    *a = (alone){.values = calloc(ADD_ELEMENTS, sizeof(float))};
    if (a->values == NULL || !gw_memory_map(products_floats(b) * sizeof(float), &products, err)) return false;
    a->products = products;
    for (size_t i = 0; i < products_floats(b); i++) a->products[i] = (float)(i % 17) * 1e-3f;
    if (!gw_memory_map(gradient_elements(b) * sizeof(int64_t), &sums, err)) return false;
    a->sums = sums;
    return true;
}

static void alone_close(const bench *b, alone *a) {
    gw_memory_unmap(a->products, products_floats(b) * sizeof(float));
    gw_memory_unmap(a->sums, gradient_elements(b) * sizeof(int64_t));
    free(a->values);
}

static bool run_item(bench *b, gw_lane *lane, alone *a, uint64_t item, gw_err *err) {
    gw_state_print part;
    switch (b->phase) {
    case CONTRIBUTE:
        return b->device->ops->contribute(b->device, lane, b->step, (uint32_t)item, err) == GW_SHARD_HELD;
    case APPLY:
        return b->device->ops->unit(b->device, GW_UNIT_APPLY, item, &part, err);
    case INIT:
        return b->device->ops->unit(b->device, GW_UNIT_INIT, item, &part, err);
    case PRODUCTS:
        multiply_shard(b, a->products);
        return true;
    case ADDITIONS:
        add_shard(b, a->values, a->sums, gradient_elements(b));
        return true;
    default:
        return true;
    }
}

static uint64_t items_of(const bench *b) {
    return b->phase == APPLY || b->phase == INIT ? b->device->unit_count : b->shards;
}

static void *worker(void *argument) {
    bench *b = argument;
    gw_lane *lane = NULL;
    alone a = {0};
    gw_err err;
    if (!b->device->ops->lane_open(b->device, &lane, &err) || !alone_open(b, &a, &err)) fail(b, &err);
    for (;;) {
        pthread_barrier_wait(&b->barrier);
        if (b->phase == STOP) break;
        for (uint64_t item; !atomic_load(&b->failed) && (item = atomic_fetch_add(&b->next, 1)) < items_of(b);)
            if (!run_item(b, lane, &a, item, &err)) fail(b, &err);
        pthread_barrier_wait(&b->barrier);
    }
    alone_close(b, &a);
    if (lane != NULL) b->device->ops->lane_close(b->device, lane);
    return NULL;
}

/* Lets the workers do a phase; returns the time that it took. */
static moment together(bench *b, phase what) {
    b->phase = what;
    atomic_store(&b->next, 0);
    moment begin = moment_now();
    pthread_barrier_wait(&b->barrier);
    if (what != STOP) pthread_barrier_wait(&b->barrier);
    return since(begin);
}

enum {
    PART_CONTRIBUTE,
    PART_CHECK,
    PART_SCALARS,
    PART_APPLY,
    PART_ALL,
    PART_PRODUCTS,
    PART_ADDITIONS,
    PARTS
};

static bool run_step(bench *b, moment *took) {
    const gw_device_ops *ops = b->device->ops;
    gw_segments send, receive;
    gw_verdict verdict;
    gw_scalars scalars;
    moment begin = moment_now();
    ops->step_begin(b->device, b->step);
    took[PART_CONTRIBUTE] = together(b, CONTRIBUTE);
    if (atomic_load(&b->failed)) return false;
    moment reduced = moment_now();
    if (!ops->reduce_begin(b->device, GW_REDUCE_ALONE, GW_PLACE_HOST, &send, &receive, &b->err) ||
        !ops->reduce_end(b->device, &verdict, &b->err) || !gw_bench_sum_is_right(&verdict, b->step, &b->err))
        return false;
    took[PART_CHECK] = since(reduced);
    moment checked = moment_now();
    if (!ops->scalars(b->device, &scalars, &b->err)) return false;
    took[PART_SCALARS] = since(checked);
    took[PART_APPLY] = together(b, APPLY);
    took[PART_ALL] = since(begin);
    return !atomic_load(&b->failed);
}

/* Runs all steps of the job; evaluations are not measured. */
static bool run_steps(bench *b, moment (*took)[PARTS]) {
    for (b->step = 0; b->step < b->plan.steps; b->step++) {
        gw_phase kind;
        moment *step = took[b->training_steps];
        b->shards = gw_job_gpt.shards(b->job, b->step, &kind);
        if (!run_step(b, step)) return false;
        if (kind != GW_TRAIN) continue;
        step[PART_PRODUCTS] = together(b, PRODUCTS);
        step[PART_ADDITIONS] = together(b, ADDITIONS);
        b->training_shards = b->shards;
        b->training_steps++;
    }
    return true;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint64_t count) {
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static void print_result(const bench *b, moment (*took)[PARTS]) {
    static const char *const names[PARTS] = {
        "shards, with their exact sum", "check of the sum", "norm of the gradient",
        "AdamW and fingerprint",        "a step",           "its GEMMs alone, without attention's",
        "its exact additions alone"};
    uint64_t steps = b->training_steps;
    double *column = calloc(steps, sizeof *column), wall[PARTS];
    GW_ASSERT_MEMORY(column != NULL);
    GW_ASSERT(steps > 0);
    printf("%u shards of %zu tokens out of %zu, %u workers, %llu parameters; medians of %llu steps\n\n%-38s "
           "%10s %10s\n",
           b->training_shards, b->rows, b->vocabulary, b->workers,
           (unsigned long long)gradient_elements(b) - 2, (unsigned long long)steps, "ms", "wall", "CPU");
    for (int part = 0; part < PARTS; part++) {
        for (uint64_t s = 0; s < steps; s++) column[s] = took[s][part].wall_ms;
        wall[part] = median(column, steps);
        for (uint64_t s = 0; s < steps; s++) column[s] = took[s][part].cpu_ms;
        printf("%-38s %10.2f %10.2f\n", names[part], wall[part], median(column, steps));
    }
    printf("\nexact additions: %.1f %% of a step\n", 100 * wall[PART_ADDITIONS] / wall[PART_ALL]);
    free(column);
}

static bool measure(bench *b) {
    pthread_t threads[WORKERS_MOST] = {0};
    moment(*took)[PARTS] = calloc(b->plan.steps, sizeof *took);
    if (took == NULL) return gw_fail(&b->err, GW_E_NOMEM, "out of memory");
    pthread_barrier_init(&b->barrier, NULL, b->workers + 1);
    for (uint32_t w = 0; w < b->workers; w++) GW_ASSERT(pthread_create(&threads[w], NULL, worker, b) == 0);
    together(b, INIT);
    bool done = !atomic_load(&b->failed) && run_steps(b, took);
    together(b, STOP);
    for (uint32_t w = 0; w < b->workers; w++) pthread_join(threads[w], NULL);
    pthread_barrier_destroy(&b->barrier);
    if (done) print_result(b, took);
    free(took);
    return done;
}

static const gw_tensor *tensor_named(const bench *b, const char *name) {
    uint32_t t = 0;
    while (strcmp(b->plan.tensors[t].name, name) != 0) t++;
    return &b->plan.tensors[t];
}

/* Opens job and device. The sizes are taken from the plan, because the job's own structures are private. */
static bool open_all(bench *b, const gw_params *params, gw_err *err) {
    int64_t workers, micro;
    if (!gw_param_integer(params, "workers", 1, WORKERS_MOST, false, &workers, err) ||
        !gw_job_gpt.open(params, &b->job, err) || !gw_job_gpt.describe(b->job, &b->plan, err) ||
        !gw_param_integer(params, "micro-batch", 1, INT32_MAX, false, &micro, err))
        return false;
    const gw_tensor *words = tensor_named(b, "wte.weight"), *places = tensor_named(b, "wpe.weight");
    b->workers = (uint32_t)workers;
    for (uint32_t t = 0; t < b->plan.tensor_count; t++)
        b->layers += strstr(b->plan.tensors[t].name, ".mlp.c_fc.bias.grad") != NULL;
    b->channels = words->dim[1];
    b->vocabulary = words->dim[0];
    b->rows = (size_t)micro * places->dim[0];
    gw_device_options device = {.type = &gw_job_gpt, .job = b->job, .plan = &b->plan, .workers = b->workers};
    return gw_device_cpu_open(&device, &b->device, err);
}

/* Writes the default data: bytes without meaning, for llm.c's small model. */
static bool write_data(char *path, gw_err *err) {
    enum { BYTES = 1 << 20 };
    int fd = mkstemp(path);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot make %s", path);
    uint8_t *bytes = malloc(BYTES);
    for (size_t i = 0; bytes != NULL && i < BYTES; i++) bytes[i] = (uint8_t)(i * i % 251);
    bool written = bytes != NULL && write(fd, bytes, BYTES) == BYTES;
    int reason = errno;
    free(bytes);
    close(fd);
    return written || gw_fail_errno(err, reason, "cannot write %s", path);
}

static void set_default(gw_params *params, gw_param *list, const char *name, const char *value) {
    if (gw_param_text(params, name) == NULL) list[params->count++] = (gw_param){name, value};
}

/* Keeps the vocabulary of the chosen model: the default data are bytes, but a model's head is as wide as
 * its own vocabulary. Only nano is made for bytes. */
static void set_vocabulary(gw_params *params, gw_param *list, char text[16]) {
    gw_gpt gpt;
    double rate;
    gw_err err; /* of an invalid shape, which the job itself reports */
    if (strcmp(gw_param_text(params, "model"), "nano") == 0 || gw_param_text(params, "init") != NULL ||
        !gw_gpt_configure(params, &gpt, &rate, &err))
        return;
    snprintf(text, 16, "%u", gpt.vocabulary);
    set_default(params, list, "vocab", text);
}

int gw_bench_gpt(int argc, char **argv) {
    gw_param list[GW_BENCH_PARAMS + 6];
    gw_params params;
    if (!gw_bench_job_params(argc, argv, &gw_job_gpt, options,
                             "Measures training steps of gpt. Without --data it trains on bytes without "
                             "meaning, and a --model other than nano keeps its own vocabulary.\v"
                             "Defaults: --micro-batch 2 --batch-tokens 256 --context 64 --updates 20.",
                             list, &params))
        return 2;
    bench b = {.next = 0};
    char path[] = "/tmp/godwit-bench-XXXXXX", vocabulary[16];
    bool done = write_data(path, &b.err);
    if (gw_param_text(&params, "data") == NULL) set_vocabulary(&params, list, vocabulary);
    set_default(&params, list, "data", path);
    set_default(&params, list, "micro-batch", "2");
    set_default(&params, list, "batch-tokens", "256");
    set_default(&params, list, "context", "64");
    set_default(&params, list, "updates", "20");
    done = done && open_all(&b, &params, &b.err) && measure(&b);
    if (!done) fprintf(stderr, "%s: %s\n", argv[0], b.err.text);
    if (b.device != NULL) b.device->ops->close(b.device);
    if (b.job != NULL) gw_job_gpt.close(b.job);
    unlink(path);
    return done ? 0 : b.err.code == GW_E_USAGE ? 2 : 1;
}
