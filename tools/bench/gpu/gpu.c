/* `godwit bench gpu` measures the parts of a GPU device (copy, exact addition, optimizer, GPT-2's kernels,
 * matrix products, attention) and the training of `digits` and GPT-2 on it. Times are measured by events
 * of the GPU; each is the median of several. */
#include "tools/bench/bench.h"

#include "kernels/cuda/runtime/cuda.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct options {
    bool json;
    unsigned gpu;
} options;

#ifdef GODWIT_CUDA
#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/math/attention.h"
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/gelu.h"
#include "kernels/cuda/math/gemm.h"
#include "kernels/cuda/math/layer.h"
#include "kernels/cuda/math/layernorm.h"
#include "kernels/cuda/math/norm.h"
#include "kernels/cuda/math/optimizer.h"
#include "kernels/cuda/math/weights.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "tools/bench/gpu/table.h"
#include "tools/bench/gpu/train.h"

#include <jansson.h>

enum { ELEMENTS = 1 << 26, ROUNDS = 15, WARM = 3, SIZE = 4096, TURNS = 4 };
/* Calls between two events. An operation of less than a millisecond is started again before it has ended,
 * as in a model; otherwise the start would be measured. tools/gpu/torch_bench.py measures as many calls of
 * PyTorch. */
enum { PRODUCTS = 20, ATTENTIONS = 20 };

/* Arrays of ELEMENTS, which are far larger than any cache, and matrices that are used in turns, so that
 * they do not fit into a cache either. */
typedef struct bench {
    gw_gpu gpu;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    float *values, *parameters, *first, *second;
    int64_t *sum, *copy;
    gw_cuda_found *found;
    unsigned long long *least;
    gw_cuda_factor factor[2]; /* in the memory of `sum` and `copy` */
    gw_gemm *gemm;
    uint32_t plan;
    void *a[TURNS], *b[TURNS], *workspace;
    float *c;
    int turn;
    const struct attending *attending; /* while attention is measured */
    gw_err err;
} bench;

typedef bool work(bench *b);

static bool good(bench *b, cudaError_t status, const char *what) {
    return gw_cuda_try(b->gpu.ordinal, status, &b->err, "%s", what);
}

static bool take(bench *b, size_t bytes, void *pointer) {
    return gw_cuda_allocate(b->gpu.ordinal, bytes, (void **)pointer, &b->err);
}

static bool copy(bench *b) {
    return good(
        b, cudaMemcpyAsync(b->copy, b->sum, ELEMENTS * sizeof *b->sum, cudaMemcpyDeviceToDevice, b->stream),
        "copy");
}

static bool add_as(bench *b, gw_cuda_adding adding) {
    gw_cuda_piece piece = {
        .format = gw_exact_format_of(40, 120), .count = ELEMENTS, .found = b->found, .least = b->least};
    return good(b, gw_cuda_add_floats(&piece, adding, b->values, b->sum, b->stream), "adding");
}

static bool add(bench *b) {
    return add_as(b, GW_CUDA_ADD);
}

static bool store(bench *b) {
    return add_as(b, GW_CUDA_STORE);
}

static bool fingerprint(bench *b) {
    return good(b, gw_cuda_fingerprint(0, ELEMENTS, b->sum, &b->found->fingerprint, b->stream),
                "fingerprint");
}

static bool adamw(bench *b) {
    gw_adamw how = {.scale = 0x1p-40,
                    .rate = 1e-3f,
                    .beta1 = 0.9f,
                    .beta2 = 0.99f,
                    .epsilon = 1e-8f,
                    .decay = 0.01f,
                    .correction1 = 1.1f,
                    .correction2 = 1.1f};
    return good(b, gw_cuda_adamw(&how, ELEMENTS, b->sum, b->parameters, b->first, b->second, b->stream),
                "adamw");
}

static bool sgd(bench *b) {
    gw_sgd how = {.scale = 0x1p-40, .rate = 1e-3f, .momentum = 0.9f, .decay = 1e-4f};
    return good(b, gw_cuda_sgd(&how, ELEMENTS, b->sum, b->parameters, b->first, b->stream), "sgd");
}

static bool multiply(bench *b) {
    b->turn = (b->turn + 1) % TURNS;
    gw_gemm_operands product = {.a = b->a[b->turn], .b = b->b[b->turn], .c = b->c};
    return gw_gemm_run(b->gemm, b->plan, &product, b->workspace, b->stream, &b->err);
}

static bool run_times(bench *b, work *run, int calls) {
    for (int i = 0; i < calls; i++)
        if (!run(b)) return false;
    return true;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the median seconds of one call, measured over several calls. */
static bool measure(bench *b, work *run, int calls, double *seconds) {
    double took[ROUNDS];
    for (int i = -WARM; i < ROUNDS; i++) {
        float ms = 0;
        if (!good(b, cudaEventRecord(b->begin, b->stream), "cudaEventRecord") || !run_times(b, run, calls) ||
            !good(b, cudaEventRecord(b->end, b->stream), "cudaEventRecord") ||
            !good(b, cudaEventSynchronize(b->end), "measuring") ||
            !good(b, cudaEventElapsedTime(&ms, b->begin, b->end), "cudaEventElapsedTime"))
            return false;
        if (i >= 0) took[i] = (double)ms * 1e-3;
    }
    qsort(took, ROUNDS, sizeof *took, by_size);
    *seconds = took[ROUNDS / 2] / calls;
    return true;
}

/* Memory. */

static bool open_arrays(bench *b) {
    size_t floats = ELEMENTS * sizeof(float), words = ELEMENTS * sizeof(int64_t);
    return take(b, floats, &b->values) && take(b, floats, &b->parameters) && take(b, floats, &b->first) &&
           take(b, floats, &b->second) && take(b, words, &b->sum) && take(b, words, &b->copy) &&
           take(b, sizeof *b->found, &b->found) && take(b, sizeof *b->least, &b->least) &&
           good(b, gw_cuda_uniform(1, 0, 1.0, ELEMENTS, b->values, b->stream), "random numbers") &&
           good(b, gw_cuda_uniform(2, 0, 1.0, ELEMENTS, b->parameters, b->stream), "random numbers") &&
           add(b);
}

static void close_arrays(bench *b) {
    void *all[] = {b->values, b->parameters, b->first, b->second, b->sum, b->copy, b->found, b->least};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) gw_cuda_free(b->gpu.ordinal, all[i]);
}

typedef struct memory_row {
    const char *name;
    work *run;
    int bytes; /* bytes per element */
} memory_row;

static bool measure_rows(bench *b, const memory_row *rows, size_t count, json_t *figures) {
    for (size_t i = 0; i < count; i++) {
        double seconds;
        if (!measure(b, rows[i].run, 1, &seconds)) return false;
        json_object_set_new(figures, rows[i].name, json_real((double)rows[i].bytes * ELEMENTS / seconds));
    }
    return true;
}

static bool measure_memory(bench *b, json_t *figures) {
    static const memory_row rows[] = {
        {"copy_bytes_per_s", copy, 16},         {"accumulate_bytes_per_s", add, 20},
        {"first_piece_bytes_per_s", store, 12}, {"fingerprint_bytes_per_s", fingerprint, 8},
        {"optimizer_bytes_per_s", adamw, 32},   {"sgd_bytes_per_s", sgd, 24}};
    bool done = open_arrays(b) && measure_rows(b, rows, sizeof rows / sizeof rows[0], figures);
    close_arrays(b);
    return done;
}

/* GPT-2's rows and columns, in bfloat16. */

enum { WIDTH = 1024, TOKENS = ELEMENTS / WIDTH, VOCABULARY = 50257, STRIDE = 50304 };

/* Operands that are small compared with the arrays lie in `second`, one after the other. */
static float *sums_of(const bench *b) {
    return b->second + 2 * TOKENS;
}

static float *parts_of(const bench *b) {
    return b->second + 3 * TOKENS;
}

static gw_cuda_layernorm norm_of(const bench *b) {
    return (gw_cuda_layernorm){.rows = TOKENS,
                               .channels = WIDTH,
                               .weight = b->values,
                               .bias = b->values,
                               .mean = b->second,
                               .scale = b->second + TOKENS};
}

static bool norm_forward(bench *b) {
    gw_cuda_layernorm norm = norm_of(b);
    gw_cuda_branch branch = {.values = b->factor[0]};
    return good(b, gw_cuda_layernorm_add(&norm, b->values, &branch, b->parameters, b->factor[1], b->stream),
                "layer norm");
}

static bool norm_backward(bench *b) {
    gw_cuda_layernorm norm = norm_of(b);
    gw_cuda_branch branch = {.values = b->factor[1]};
    float *sums = sums_of(b);
    gw_cuda_layernorm_sums to = {sums, sums + WIDTH, sums + 2 * WIDTH};
    return good(b,
                gw_cuda_layernorm_backward(&norm, b->values, b->factor[0], b->parameters, b->first, &branch,
                                           parts_of(b), &to, b->stream),
                "layer norm's gradient");
}

static bool gelu_forward(bench *b) {
    return good(b, gw_cuda_gelu_forward(ELEMENTS, b->factor[0], b->factor[1], b->stream), "GELU");
}

static bool gelu_backward(bench *b) {
    return good(
        b,
        gw_cuda_gelu_backward(TOKENS, WIDTH, b->factor[0], b->factor[1], parts_of(b), sums_of(b), b->stream),
        "GELU's gradient");
}

static bool crossent(bench *b) {
    const uint32_t *targets = (const uint32_t *)(const void *)parts_of(b);
    return good(b,
                gw_cuda_crossent(ELEMENTS / STRIDE, VOCABULARY, STRIDE, b->factor[0], targets, 1e-6f,
                                 (double *)(void *)b->first, b->stream),
                "cross-entropy");
}

static bool norm_of_sums(bench *b) {
    return good(b, gw_cuda_norm_add(ELEMENTS, b->copy, 0x1p-40, (int64_t *)(void *)b->second, b->stream),
                "norm");
}

static bool measure_model(bench *b, json_t *figures) {
    static const memory_row rows[] = {
        {"layernorm_bytes_per_s", norm_forward, 12}, {"layernorm_back_bytes_per_s", norm_backward, 16},
        {"gelu_bytes_per_s", gelu_forward, 4},       {"gelu_back_bytes_per_s", gelu_backward, 6},
        {"crossent_bytes_per_s", crossent, 4},       {"norm_bytes_per_s", norm_of_sums, 8}};
    bool done = open_arrays(b);
    b->factor[0] = (gw_cuda_factor){b->sum, true};
    b->factor[1] = (gw_cuda_factor){b->copy, true};
    done = done &&
           good(b, gw_cuda_to_bf16(ELEMENTS, b->values, b->factor[0].values, b->stream), "rounding") &&
           good(b, gw_cuda_to_bf16(ELEMENTS, b->values, b->factor[1].values, b->stream), "rounding") &&
           good(b, cudaMemsetAsync(b->second, 0, ELEMENTS * sizeof *b->second, b->stream), "zeros") &&
           measure_rows(b, rows, sizeof rows / sizeof rows[0], figures);
    close_arrays(b);
    return done;
}

/* Products. */

/* The result has the type of the factors, as in PyTorch. */
static bool open_product(bench *b) {
    size_t count = (size_t)SIZE * SIZE;
    gw_gemm_shape shape = {.rows = SIZE, .columns = SIZE, .inner = SIZE, .factor = true};
    bool bf16 = b->gpu.precision == GW_PRECISION_BF16;
    if (!gw_gemm_open(&b->gpu, &b->gemm, &b->err) || !gw_gemm_plan(b->gemm, &shape, &b->plan, &b->err) ||
        !take(b, GW_GEMM_WORKSPACE, &b->workspace) || !take(b, count * sizeof *b->c, &b->c))
        return false;
    for (uint64_t i = 0; i < 2 * TURNS; i++) {
        void **factor = i < TURNS ? &b->a[i] : &b->b[i - TURNS];
        if (!take(b, count * sizeof(float), factor) ||
            !good(b, gw_cuda_uniform(3, i, 1.0, count, bf16 ? b->c : *factor, b->stream), "random numbers") ||
            (bf16 && !good(b, gw_cuda_to_bf16(count, b->c, *factor, b->stream), "rounding")))
            return false;
    }
    return true;
}

static void close_product(bench *b) {
    for (int i = 0; i < TURNS; i++) {
        gw_cuda_free(b->gpu.ordinal, b->a[i]);
        gw_cuda_free(b->gpu.ordinal, b->b[i]);
        b->a[i] = b->b[i] = NULL;
    }
    gw_cuda_free(b->gpu.ordinal, b->c);
    gw_cuda_free(b->gpu.ordinal, b->workspace);
    gw_gemm_close(b->gemm);
    b->c = b->workspace = NULL;
    b->gemm = NULL;
}

static bool measure_products(bench *b, json_t *figures) {
    static const struct {
        const char *name;
        gw_precision precision;
    } rows[] = {{"gemm_bf16_flops", GW_PRECISION_BF16},
                {"gemm_tf32_flops", GW_PRECISION_TF32},
                {"gemm_fp32_flops", GW_PRECISION_FP32}};
    const double operations = 2.0 * SIZE * SIZE * SIZE;
    bool done = true;
    for (size_t i = 0; done && i < sizeof rows / sizeof rows[0]; i++) {
        double seconds;
        b->gpu.precision = rows[i].precision;
        done = open_product(b) && measure(b, multiply, PRODUCTS, &seconds);
        if (done) json_object_set_new(figures, rows[i].name, json_real(operations / seconds));
        close_product(b);
    }
    return done;
}

/* Attention. */

enum { SEQUENCES = 32, POSITIONS = 1024, CHANNELS = 1024 };

/* Factors in bfloat16, as in GPT-2. */
typedef struct attending {
    bench *b;
    gw_cuda_attention shape;
    gw_cuda_factor qkv, out, dout, dqkv;
    float *norms, *dots, *wide;
} attending;

static bool attend(bench *b) {
    const attending *a = b->attending;
    return good(b, gw_cuda_attention_forward(&a->shape, a->qkv, a->out, a->norms, b->stream), "attention");
}

static bool attend_back(bench *b) {
    const attending *a = b->attending;
    return good(
        b,
        gw_cuda_attention_backward(&a->shape, a->qkv, a->out, a->norms, a->dout, a->dqkv, a->dots, b->stream),
        "attention's gradient");
}

static bool take_factor(attending *a, uint64_t number, size_t count, gw_cuda_factor *factor) {
    bench *b = a->b;
    factor->bf16 = true;
    return take(b, count * sizeof(uint16_t), &factor->values) &&
           good(b, gw_cuda_uniform(4, number, 1.0, count, a->wide, b->stream), "random numbers") &&
           good(b, gw_cuda_to_bf16(count, a->wide, factor->values, b->stream), "rounding");
}

static bool open_attention(attending *a) {
    const size_t count = (size_t)SEQUENCES * POSITIONS * CHANNELS;
    const size_t norms = (size_t)SEQUENCES * POSITIONS * a->shape.heads * sizeof(float);
    return take(a->b, 3 * count * sizeof(float), &a->wide) && take(a->b, norms, &a->norms) &&
           take(a->b, norms, &a->dots) && take_factor(a, 0, 3 * count, &a->qkv) &&
           take_factor(a, 1, count, &a->out) && take_factor(a, 2, count, &a->dout) &&
           take_factor(a, 3, 3 * count, &a->dqkv);
}

static void close_attention(const attending *a) {
    void *all[] = {a->qkv.values, a->out.values, a->dout.values, a->dqkv.values, a->norms, a->dots, a->wide};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) gw_cuda_free(a->b->gpu.ordinal, all[i]);
}

/* Operations as they are usually counted for attention: those below the diagonal, and none twice. */
static bool measure_attention(bench *b, json_t *figures) {
    static const struct {
        uint32_t width;
        const char *forward, *backward;
    } rows[] = {{64, "attention_64_flops", "attention_64_back_flops"},
                {128, "attention_128_flops", "attention_128_back_flops"}};
    const double operations = 2.0 * SEQUENCES * CHANNELS * POSITIONS * POSITIONS;
    bool done = true;
    for (size_t i = 0; done && i < sizeof rows / sizeof rows[0]; i++) {
        attending a = {.b = b,
                       .shape = {.sequences = SEQUENCES,
                                 .positions = POSITIONS,
                                 .heads = CHANNELS / rows[i].width,
                                 .channels = CHANNELS}};
        double forward = 0, backward = 0;
        b->attending = &a;
        done = open_attention(&a) && measure(b, attend, ATTENTIONS, &forward) &&
               measure(b, attend_back, ATTENTIONS, &backward);
        close_attention(&a);
        if (!done) break;
        json_object_set_new(figures, rows[i].forward, json_real(operations / forward));
        json_object_set_new(figures, rows[i].backward, json_real(2.5 * operations / backward));
    }
    b->attending = NULL;
    return done;
}

/* All measurements. */

static bool measure_all(const options *o, json_t *figures, gw_err *err) {
    bench b = {.gpu = {.ordinal = (int)o->gpu, .precision = GW_PRECISION_TF32}};
    uint64_t idle_bytes;
    bool done = good(&b, cudaSetDevice(b.gpu.ordinal), "cudaSetDevice") &&
                gw_bench_gpu_taken(b.gpu.ordinal, &idle_bytes, &b.err) &&
                good(&b, cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "cudaStreamCreate") &&
                good(&b, cudaEventCreate(&b.begin), "cudaEventCreate") &&
                good(&b, cudaEventCreate(&b.end), "cudaEventCreate") && measure_memory(&b, figures) &&
                measure_model(&b, figures) && measure_products(&b, figures) &&
                measure_attention(&b, figures) &&
                gw_bench_gpu_trainings(b.gpu.ordinal, idle_bytes, figures, &b.err);
    if (!done) *err = b.err;
    if (b.begin != NULL) (void)cudaEventDestroy(b.begin);
    if (b.end != NULL) (void)cudaEventDestroy(b.end);
    if (b.stream != NULL) (void)cudaStreamDestroy(b.stream);
    return done;
}

static int run(const char *command, const options *o, const gw_cuda_info *info) {
    gw_err err = {0};
    json_t *figures = json_object();
    json_object_set_new(figures, "gpu", json_string(info->name));
    bool done = measure_all(o, figures, &err);
    if (done && o->json) {
        gw_json_print(json_incref(figures));
    } else if (done) {
        printf("GPU %u, %s\n", info->ordinal, info->name);
        gw_bench_gpu_table(figures);
    } else {
        fprintf(stderr, "%s: %s\n", command, err.text);
    }
    json_decref(figures);
    return done ? 0 : 1;
}
#else
static int run(const char *command, const options *o, const gw_cuda_info *info) {
    (void)command, (void)o, (void)info;
    return 1; /* a build without CUDA cannot get here */
}
#endif

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'j':
        o->json = true;
        return 0;
    case 'g':
        o->gpu = (unsigned)gw_number_of_option(state, "--gpu", argument, 0, GW_CUDA_GPUS - 1);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int gw_bench_gpu(int argc, char **argv) {
    static const struct argp_option list[] = {{"json", 'j', NULL, 0, "Print one JSON object", 0},
                                              {"gpu", 'g', "N", 0, "The number of the GPU (0)", 0},
                                              {0}};
    static const struct argp parser = {
        list,
        parse,
        NULL,
        "Measures a GPU as jobs use it: exact addition and optimizers compared with a copy, a model's "
        "kernels, matrix products, attention, and training.",
        NULL,
        NULL,
        NULL};
    options o = {0};
    gw_cuda_info gpus[GW_CUDA_GPUS];
    uint32_t count;
    gw_err err;
    if (gw_argp_parse(&parser, argc, argv, &o) != 0) return 2;
    if (gw_cuda_list(gpus, &count, &err)) {
        if (o.gpu < count) return run(argv[0], &o, &gpus[o.gpu]);
        gw_fail(&err, GW_E_NOTFOUND, "there is no GPU %u", o.gpu);
    }
    fprintf(stderr, "%s: %s\n", argv[0], err.text);
    return 1;
}
