#include "kernels/cuda/math/gemm.h"

#include "core/base/assert.h"
#include "core/base/id.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/cuda.h"
#include "kernels/cuda/runtime/library.h"

#include <cublasLt.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* bytes to which all matrices and biases are aligned: the library's default */
enum { ALIGNMENT = 256 };
/* For short products: the answers of the heuristics that are compared, the largest inner dimension, and the
 * most waves that an answer may have for one wave of the first answer. */
enum { ANSWERS = 8, SHORT_INNER = 1024, MOST_WAVES = 3 };

/* The functions of cuBLASLt that are used, named without the prefix "cublasLt". */
#define FUNCTIONS(ONE)                                                                                       \
    ONE(Create)                                                                                              \
    ONE(Destroy)                                                                                             \
    ONE(GetVersion)                                                                                          \
    ONE(GetStatusString)                                                                                     \
    ONE(Matmul)                                                                                              \
    ONE(MatmulAlgoConfigGetAttribute)                                                                        \
    ONE(MatmulAlgoGetHeuristic)                                                                              \
    ONE(MatmulDescCreate)                                                                                    \
    ONE(MatmulDescDestroy)                                                                                   \
    ONE(MatmulDescSetAttribute)                                                                              \
    ONE(MatmulPreferenceCreate)                                                                              \
    ONE(MatmulPreferenceDestroy)                                                                             \
    ONE(MatmulPreferenceSetAttribute)                                                                        \
    ONE(MatrixLayoutCreate)                                                                                  \
    ONE(MatrixLayoutDestroy)

typedef struct lt_functions {
#define MEMBER(name) __typeof__(cublasLt##name) *(name);
    FUNCTIONS(MEMBER)
#undef MEMBER
} lt_functions;

/* The library is opened once in a process, and stays open. */
static struct {
    pthread_mutex_t lock;
    bool open;
    lt_functions call;
    size_t version; /* 130100 is 13.1.0 */
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct plan {
    gw_gemm_shape shape;
    gw_gemm_finish in_product; /* the finish that the library computes; if it is PLAIN, our kernel finishes */
    /* the description of products without a bias; a bias's address is part of a description */
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulAlgo_t algorithm;
} plan;

struct gw_gemm {
    gw_gpu gpu;
    const lt_functions *lt;
    cublasLtHandle_t handle;
    bool hopper; /* the GPU's architecture is Hopper or later */
    plan *plans;
    uint32_t count;
};

#define STRING(x)         #x
#define LIBRARY_OF(major) "libcublasLt.so." STRING(major)
static const char library_name[] = LIBRARY_OF(CUBLAS_VER_MAJOR);

static const gw_library_function lt_table[] = {
#define ENTRY(name) {"cublasLt" #name, offsetof(lt_functions, name), false},
    FUNCTIONS(ENTRY)
#undef ENTRY
};

static const char *version_text(size_t version, char text[24]) {
    snprintf(text, 24, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return text;
}

/* A gw_library_judge: the library must be at least as new as the headers that this program was built with. */
static bool is_new_enough(const void *context, const char *path, const void *table, gw_err *why) {
    char theirs[24], ours[24];
    (void)context, (void)path;
    size_t version = ((const lt_functions *)table)->GetVersion();
    return version >= CUBLAS_VERSION ||
           gw_fail(why, GW_E_UNSUPPORTED, "version %s is older than %s, which this program was built with",
                   version_text(version, theirs), version_text(CUBLAS_VERSION, ours));
}

/* The caller holds the lock. */
static bool open_library(gw_err *err) {
    if (library.open) return true;
    const gw_library_wanted wanted = {.file = library_name,
                                      .functions = lt_table,
                                      .function_count = sizeof lt_table / sizeof lt_table[0],
                                      .judge = is_new_enough};
    library.open = gw_cuda_library_open(&wanted, &library.call, err);
    if (library.open) library.version = library.call.GetVersion();
    return library.open;
}

bool gw_cuda_libraries(gw_err *err) {
    pthread_mutex_lock(&library.lock);
    bool good = open_library(err);
    pthread_mutex_unlock(&library.lock);
    return good;
}

uint32_t gw_cuda_cublaslt_version(void) {
    pthread_mutex_lock(&library.lock);
    size_t version = library.open ? library.version : 0;
    pthread_mutex_unlock(&library.lock);
    return (uint32_t)version;
}

static bool succeeded(const gw_gemm *gemm, cublasStatus_t status, gw_err *err, const char *call) {
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    gw_code code = status == CUBLAS_STATUS_ALLOC_FAILED    ? GW_E_NOMEM
                   : status == CUBLAS_STATUS_NOT_SUPPORTED ? GW_E_UNSUPPORTED
                   : status == CUBLAS_STATUS_INVALID_VALUE ? GW_E_INVALID
                                                           : GW_E_IO;
    return gw_fail(err, code, "GPU %d: %s: %s%s", gemm->gpu.ordinal, call, gemm->lt->GetStatusString(status),
                   code == GW_E_NOMEM ? GW_CUDA_LESS_MEMORY : "");
}
#define TRY(call) succeeded(gemm, gemm->lt->call, err, "cublasLt" #call)

static bool find_kind(gw_gemm *gemm, gw_err *err) {
    int major;
    if (!gw_cuda_try(gemm->gpu.ordinal,
                     cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gemm->gpu.ordinal),
                     err, "cudaDeviceGetAttribute"))
        return false;
    gemm->hopper = major >= 9;
    return true;
}

bool gw_gemm_open(const gw_gpu *gpu, gw_gemm **gemm_out, gw_err *err) {
    *gemm_out = NULL;
    if (!gw_cuda_libraries(err)) return false;
    gw_gemm *gemm = calloc(1, sizeof *gemm);
    if (gemm == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for matrix products");
    gemm->gpu = *gpu;
    gemm->lt = &library.call;
    gemm->plans = calloc(GW_GEMM_PLANS, sizeof *gemm->plans);
    if (gemm->plans == NULL) {
        gw_gemm_close(gemm);
        return gw_fail(err, GW_E_NOMEM, "no memory for matrix products");
    }
    if (!TRY(Create(&gemm->handle))) gemm->handle = NULL;
    if (gemm->handle == NULL || !find_kind(gemm, err)) {
        gw_gemm_close(gemm);
        return false;
    }
    *gemm_out = gemm;
    return true;
}

static void free_plan(gw_gemm *gemm, plan *p) {
    if (p->how != NULL) (void)gemm->lt->MatmulDescDestroy(p->how);
    if (p->first != NULL) (void)gemm->lt->MatrixLayoutDestroy(p->first);
    if (p->second != NULL) (void)gemm->lt->MatrixLayoutDestroy(p->second);
    if (p->result != NULL) (void)gemm->lt->MatrixLayoutDestroy(p->result);
}

bool gw_gemm_along_inner(const gw_gemm *gemm) {
    return gemm->hopper && gemm->gpu.precision == GW_PRECISION_TF32;
}

void gw_gemm_close(gw_gemm *gemm) {
    if (gemm == NULL) return;
    for (uint32_t i = 0; i < gemm->count; i++) free_plan(gemm, &gemm->plans[i]);
    if (gemm->handle != NULL) (void)gemm->lt->Destroy(gemm->handle);
    free(gemm->plans);
    free(gemm);
}

static cublasComputeType_t compute_of(gw_precision precision) {
    return precision == GW_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static cudaDataType_t factor_of(gw_precision precision) {
    return precision == GW_PRECISION_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cudaDataType_t result_of(const gw_gemm *gemm, const gw_gemm_shape *s) {
    return s->factor ? factor_of(gemm->gpu.precision) : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue_of(gw_gemm_finish finish) {
    switch (finish) {
    case GW_GEMM_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case GW_GEMM_BIAS_RELU:
        return CUBLASLT_EPILOGUE_RELU_BIAS;
    case GW_GEMM_BIAS_GELU:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* Adds to a description the finish that the library computes. */
static bool describe_finish(const gw_gemm *gemm, const plan *p, const gw_gemm_operands *operands,
                            cublasLtMatmulDesc_t how, gw_err *err) {
    if (p->in_product == GW_GEMM_PLAIN) return true;
    cudaDataType_t type = result_of(gemm, &p->shape);
    int64_t stride = (int64_t)p->shape.columns;
    return TRY(MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type)) &&
           TRY(MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands->bias,
                                      sizeof operands->bias)) &&
           (p->in_product != GW_GEMM_BIAS_GELU ||
            (TRY(MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &type,
                                        sizeof type)) &&
             TRY(MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &stride, sizeof stride)) &&
             TRY(MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &operands->before,
                                        sizeof operands->before))));
}

/* The matrices of cuBLASLt are column-major; read so, a row-major matrix is its transpose. The library
 * therefore computes C^T = B^T A^T, with B as its first factor and the bias along its columns. */
static bool describe_how(const gw_gemm *gemm, const plan *p, const gw_gemm_operands *operands,
                         cublasLtMatmulDesc_t *how, gw_err *err) {
    cublasOperation_t first = p->shape.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = p->shape.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(p->in_product);
    return TRY(MatmulDescCreate(how, compute_of(gemm->gpu.precision), CUDA_R_32F)) &&
           TRY(MatmulDescSetAttribute(*how, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first)) &&
           TRY(MatmulDescSetAttribute(*how, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second)) &&
           TRY(MatmulDescSetAttribute(*how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue)) &&
           describe_finish(gemm, p, operands, *how, err);
}

static bool describe(const gw_gemm *gemm, plan *p, gw_err *err) {
    const gw_gemm_shape *s = &p->shape;
    cudaDataType_t type = factor_of(gemm->gpu.precision);
    uint64_t b_fast = s->b_transposed ? s->inner : s->columns,
             b_slow = s->b_transposed ? s->columns : s->inner;
    uint64_t a_fast = s->a_transposed ? s->rows : s->inner, a_slow = s->a_transposed ? s->inner : s->rows;
    /* This address is never read: the library is only asked which algorithm it takes at this alignment. */
    void *somewhere = (void *)(uintptr_t)ALIGNMENT;
    const gw_gemm_operands operands = {.bias = somewhere, .before = somewhere};
    return describe_how(gemm, p, &operands, &p->how, err) &&
           TRY(MatrixLayoutCreate(&p->first, type, b_fast, b_slow, (int64_t)b_fast)) &&
           TRY(MatrixLayoutCreate(&p->second, type, a_fast, a_slow, (int64_t)a_fast)) &&
           TRY(MatrixLayoutCreate(&p->result, result_of(gemm, s), s->columns, s->rows, (int64_t)s->columns));
}

/* The attributes that identify an algorithm, as the library reports them. The bytes of a cublasLtMatmulAlgo_t
 * are opaque, and some of them differ between equal algorithms. */
typedef struct algorithm_config {
    int32_t id, split;
    uint32_t tile, stages, reduction, swizzling, custom;
    uint16_t inner, cluster;
} algorithm_config;

/* An attribute that the algorithm does not have stays 0. */
static algorithm_config config_of(const gw_gemm *gemm, const cublasLtMatmulAlgo_t *algorithm) {
    algorithm_config c;
    memset(&c, 0, sizeof c); /* padding too, since all bytes are hashed */
    const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        void *to;
        size_t bytes;
    } all[] = {{CUBLASLT_ALGO_CONFIG_ID, &c.id, sizeof c.id},
               {CUBLASLT_ALGO_CONFIG_TILE_ID, &c.tile, sizeof c.tile},
               {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &c.split, sizeof c.split},
               {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &c.reduction, sizeof c.reduction},
               {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, &c.swizzling, sizeof c.swizzling},
               {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &c.custom, sizeof c.custom},
               {CUBLASLT_ALGO_CONFIG_STAGES_ID, &c.stages, sizeof c.stages},
               {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, &c.inner, sizeof c.inner},
               {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &c.cluster, sizeof c.cluster}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t written;
        (void)gemm->lt->MatmulAlgoConfigGetAttribute(algorithm, all[i].attribute, all[i].to, all[i].bytes,
                                                     &written);
    }
    return c;
}

/* Whether the library is asked for more than its first answer: its heuristics misjudge the share of a short
 * product's time that writing the tiles takes. */
static bool is_short(const gw_gemm *gemm, const gw_gemm_shape *shape) {
    return gemm->hopper && result_of(gemm, shape) == CUDA_R_16BF && shape->inner <= SHORT_INNER;
}

/* Picks one of the answers, which the library lists by its estimate of their time. The smaller tiles are, the
 * more of their writing overlaps with other tiles' products: for GPT-2's products with an inner dimension of
 * 768, the answer with most waves took 9 to 20 % less time on an H200 than the first. A single wave has
 * nothing to overlap with. The parts of a split product count as waves as well, but another kernel adds them,
 * so split answers are not picked. */
static const cublasLtMatmulHeuristicResult_t *
pick(const gw_gemm *gemm, const cublasLtMatmulHeuristicResult_t *answers, int count) {
    const cublasLtMatmulHeuristicResult_t *picked = &answers[0];
    if (picked->wavesCount <= 1.0f) return picked;
    for (int i = 1; i < count; i++) {
        const cublasLtMatmulHeuristicResult_t *answer = &answers[i];
        if (answer->state == CUBLAS_STATUS_SUCCESS && answer->wavesCount > picked->wavesCount &&
            answer->wavesCount <= MOST_WAVES * answers[0].wavesCount &&
            config_of(gemm, &answer->algo).split <= 1)
            picked = answer;
    }
    return picked;
}

/* Chooses the plan's algorithm. The inner dimension may be split where a kernel adds the parts in a fixed
 * order; it may not where blocks add to the output in turns. */
static bool choose(gw_gemm *gemm, plan *p, gw_err *err) {
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t answers[ANSWERS];
    memset(answers, 0, sizeof answers);
    size_t workspace = GW_GEMM_WORKSPACE;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    int count = 0;
    bool good =
        TRY(MatmulPreferenceCreate(&preference)) &&
        TRY(MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace)) &&
        TRY(MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                         sizeof reductions)) &&
        TRY(MatmulAlgoGetHeuristic(gemm->handle, p->how, p->first, p->second, p->result, p->result,
                                   preference, is_short(gemm, &p->shape) ? ANSWERS : 1, answers, &count));
    if (preference != NULL) (void)gemm->lt->MatmulPreferenceDestroy(preference);
    if (good && (count < 1 || answers[0].state != CUBLAS_STATUS_SUCCESS))
        good = gw_fail(err, GW_E_UNSUPPORTED, "GPU %d: cuBLASLt has no algorithm for this product",
                       gemm->gpu.ordinal);
    p->algorithm = pick(gemm, answers, count)->algo;
    return good;
}

static bool same_shape(const gw_gemm_shape *a, const gw_gemm_shape *b) {
    return a->rows == b->rows && a->columns == b->columns && a->inner == b->inner &&
           a->a_transposed == b->a_transposed && a->b_transposed == b->b_transposed &&
           a->factor == b->factor && a->finish == b->finish;
}

/* Fails with GW_E_UNSUPPORTED where there is no algorithm. After a failure *p is empty. */
static bool make_plan(gw_gemm *gemm, const gw_gemm_shape *shape, gw_gemm_finish in_product, plan *p,
                      gw_err *err) {
    *p = (plan){.shape = *shape, .in_product = in_product};
    if (describe(gemm, p, err) && choose(gemm, p, err)) return true;
    free_plan(gemm, p);
    *p = (plan){0};
    return false;
}

bool gw_gemm_plan(gw_gemm *gemm, const gw_gemm_shape *shape, uint32_t *number, gw_err *err) {
    GW_ASSERT(shape->rows > 0 && shape->columns > 0 && shape->inner > 0);
    for (*number = 0; *number < gemm->count; ++*number)
        if (same_shape(&gemm->plans[*number].shape, shape)) return true;
    if (gemm->count == GW_GEMM_PLANS)
        return gw_fail(err, GW_E_LIMIT, "more than %d shapes of matrix products", (int)GW_GEMM_PLANS);
    plan *p = &gemm->plans[gemm->count];
    /* the library's GELU has an approximate tanh, which float32 would show */
    bool inexact = shape->finish == GW_GEMM_BIAS_GELU && result_of(gemm, shape) == CUDA_R_32F;
    bool made = !inexact && make_plan(gemm, shape, shape->finish, p, err);
    /* The library refuses some finishes at some sizes as invalid, others as not supported. */
    bool refused = !made && !inexact && (err->code == GW_E_UNSUPPORTED || err->code == GW_E_INVALID);
    if (inexact || (refused && shape->finish != GW_GEMM_PLAIN))
        made = make_plan(gemm, shape, GW_GEMM_PLAIN, p, err);
    if (!made)
        return gw_fail_in(err, "product of [%llu, %llu] and [%llu, %llu]", (unsigned long long)shape->rows,
                          (unsigned long long)shape->inner, (unsigned long long)shape->inner,
                          (unsigned long long)shape->columns);
    gemm->count++;
    return true;
}

void gw_gemm_text(const gw_gemm *gemm, char text[GW_GPU_PLAN_TEXT]) {
    gw_hash digest = {0};
    char hex[GW_HASH_TEXT], version[24];
    struct {
        algorithm_config algorithm;
        uint64_t in_product;
    } *chosen = calloc(GW_GEMM_PLANS, sizeof *chosen);
    GW_ASSERT_MEMORY(chosen != NULL);
    for (uint32_t i = 0; i < gemm->count; i++) {
        chosen[i].algorithm = config_of(gemm, &gemm->plans[i].algorithm);
        chosen[i].in_product = gemm->plans[i].in_product;
    }
    gw_blake2b(chosen, gemm->count * sizeof *chosen, digest.bytes, sizeof digest.bytes);
    free(chosen);
    gw_hex(digest.bytes, 8, hex);
    snprintf(text, GW_GPU_PLAN_TEXT, "cublaslt=%s plan=%s", version_text(library.version, version), hex);
}

static bool multiply(const gw_gemm *gemm, const plan *p, const gw_gemm_operands *operands, void *c,
                     void *workspace, cudaStream_t stream, gw_err *err) {
    const float one = 1.0f, kept = operands->add ? 1.0f : 0.0f;
    cublasLtMatmulDesc_t own = NULL; /* threads may run the plan with different biases at once */
    bool good = p->in_product == GW_GEMM_PLAIN || describe_how(gemm, p, operands, &own, err);
    good = good && TRY(Matmul(gemm->handle, own != NULL ? own : p->how, &one, operands->b, p->first,
                              operands->a, p->second, &kept, c, p->result, c, p->result, &p->algorithm,
                              workspace, GW_GEMM_WORKSPACE, stream));
    if (own != NULL) (void)gemm->lt->MatmulDescDestroy(own);
    return good;
}

bool gw_gemm_run(const gw_gemm *gemm, uint32_t number, const gw_gemm_operands *operands, void *workspace,
                 cudaStream_t stream, gw_err *err) {
    GW_ASSERT(number < gemm->count);
    const plan *p = &gemm->plans[number];
    const gw_gemm_shape *s = &p->shape;
    GW_ASSERT((operands->bias != NULL) == (s->finish != GW_GEMM_PLAIN));
    GW_ASSERT((operands->before != NULL) == (s->finish == GW_GEMM_BIAS_GELU));
    GW_ASSERT(!operands->add || s->finish == GW_GEMM_PLAIN);
    bool ours = p->in_product != s->finish, bf16 = result_of(gemm, s) == CUDA_R_16BF;
    gw_cuda_factor c = {operands->c, bf16}, from = c;
    if (ours && operands->before != NULL) from.values = operands->before;
    if (!multiply(gemm, p, operands, from.values, workspace, stream, err)) return false;
    if (!ours) return true;
    return gw_cuda_try(gemm->gpu.ordinal,
                       gw_cuda_finish(s->rows, s->columns, s->finish, operands->bias, from, c, stream), err,
                       "finishing a product");
}
