#include "tests/gpu_fake/fake_cublaslt.h"

#include "core/base/assert.h"
#include "kernels/cuda/runtime/library.h"
#include "tests/gpu_fake/fake_cuda.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REFUSED = 4, MOST_ANSWERS = 4 };

/* Column-major, as the library has it. */
typedef struct matrix {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride;
} matrix;

typedef struct description {
    cublasComputeType_t compute;
    cublasOperation_t first, second;
    cublasLtEpilogue_t epilogue;
    cudaDataType bias_type, aux_type;
    const void *bias;
    void *aux;
    int64_t aux_stride;
} description;

typedef struct product {
    description how;
    matrix a, b, d;
    const void *a_values, *b_values;
    void *values, *workspace;
    bool add; /* to the values that are there */
} product;

static struct {
    cublasLtEpilogue_t epilogue;
    cublasStatus_t status;
} refused[MOST_REFUSED];
static uint32_t refused_count;

void fake_cublaslt_refuse(cublasLtEpilogue_t epilogue, cublasStatus_t status) {
    GW_ASSERT(refused_count < MOST_REFUSED);
    refused[refused_count].epilogue = epilogue;
    refused[refused_count++].status = status;
}

static fake_cublaslt_algorithm answers_now[MOST_ANSWERS] = {{.waves = 1.0f}};
static uint32_t answer_count = 1;
static uint64_t latest_answer, garbage;

void fake_cublaslt_answer(const fake_cublaslt_algorithm *algorithms, uint32_t count) {
    GW_ASSERT(count >= 1 && count <= MOST_ANSWERS);
    memcpy(answers_now, algorithms, count * sizeof *algorithms);
    answer_count = count;
}

uint64_t fake_cublaslt_answer_used(void) {
    return latest_answer;
}

/* ---- descriptions ---- */

static cublasStatus_t create(cublasLtHandle_t *handle) {
    *handle = calloc(1, 1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(cublasLtHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

static size_t present_version = CUBLAS_VERSION;

void fake_cublaslt_version(size_t version) {
    present_version = version;
}

static size_t version(void) {
    return present_version;
}

static const char *status_string(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "failed as it was told to";
}

static cublasStatus_t how_create(cublasLtMatmulDesc_t *how, cublasComputeType_t compute, cudaDataType scale) {
    GW_ASSERT(scale == CUDA_R_32F);
    description *made = calloc(1, sizeof *made);
    made->compute = compute;
    made->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    made->bias_type = made->aux_type = CUDA_R_32F;
    *how = (void *)made;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t how_destroy(cublasLtMatmulDesc_t how) {
    free(how);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t how_set(cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t attribute,
                              const void *value, size_t bytes) {
    description *d = (void *)how;
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        void *field;
        size_t bytes;
    } fields[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &d->first, sizeof d->first},
        {CUBLASLT_MATMUL_DESC_TRANSB, &d->second, sizeof d->second},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &d->epilogue, sizeof d->epilogue},
        {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &d->bias_type, sizeof d->bias_type},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->bias, sizeof d->bias},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &d->aux_type, sizeof d->aux_type},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &d->aux, sizeof d->aux},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d->aux_stride, sizeof d->aux_stride},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].attribute != attribute) continue;
        if (bytes != fields[i].bytes) return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(fields[i].field, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t wishes_create(cublasLtMatmulPreference_t *wishes) {
    *wishes = calloc(1, sizeof **wishes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t wishes_destroy(cublasLtMatmulPreference_t wishes) {
    free(wishes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t wishes_set(cublasLtMatmulPreference_t wishes,
                                 cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                 size_t bytes) {
    (void)wishes, (void)attribute, (void)value, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t layout_create(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                    uint64_t columns, int64_t stride) {
    GW_ASSERT(stride >= (int64_t)rows);
    matrix *made = calloc(1, sizeof *made);
    *made = (matrix){type, rows, columns, stride};
    *layout = (void *)made;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t layout_destroy(cublasLtMatrixLayout_t layout) {
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

/* The algorithm that is chosen contains what it was chosen for, so that plans differ where those of the
 * library would. */
static cublasStatus_t choose(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                             cublasLtMatmulPreference_t wishes, int wanted,
                             cublasLtMatmulHeuristicResult_t *answer, int *answers) {
    (void)handle, (void)a, (void)b, (void)c, (void)wishes;
    const description *what = (const void *)how;
    const matrix *result = (const void *)d;
    GW_ASSERT(wanted >= 1);
    *answers = 0;
    bool keeps = what->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    if ((what->epilogue != CUBLASLT_EPILOGUE_DEFAULT && what->bias_type != result->type) ||
        (keeps && (what->aux_type != result->type || what->aux_stride % 8 != 0)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (uint32_t i = 0; i < refused_count; i++)
        if (refused[i].epilogue == what->epilogue) return refused[i].status;
    for (; *answers < wanted && *answers < (int)answer_count; ++*answers, answer++) {
        const fake_cublaslt_algorithm *algorithm = &answers_now[*answers];
        answer->state = algorithm->broken ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
        answer->wavesCount = algorithm->waves;
        answer->algo.data[0] = result->rows * 31 + result->columns;
        answer->algo.data[1] = (uint64_t)*answers;
        answer->algo.data[2] = algorithm->parts;
        answer->algo.data[3] = garbage++;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* The algorithms of the stand-in have three of the attributes by which those of the library differ. */
static cublasStatus_t config_get(const cublasLtMatmulAlgo_t *algorithm,
                                 cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t bytes,
                                 size_t *written) {
    *written = 0;
    if (attribute != CUBLASLT_ALGO_CONFIG_ID && attribute != CUBLASLT_ALGO_CONFIG_TILE_ID &&
        attribute != CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    uint64_t word = attribute == CUBLASLT_ALGO_CONFIG_ID        ? algorithm->data[0]
                    : attribute == CUBLASLT_ALGO_CONFIG_TILE_ID ? algorithm->data[1]
                                                                : algorithm->data[2];
    uint32_t half = (uint32_t)word;
    if (bytes != sizeof half) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &half, sizeof half);
    *written = sizeof half;
    return CUBLAS_STATUS_SUCCESS;
}

static double value_of(cudaDataType type, const void *values, uint64_t i) {
    uint32_t bits;
    float value;
    if (type == CUDA_R_16BF)
        bits = (uint32_t)((const uint16_t *)values)[i] << 16;
    else
        memcpy(&bits, (const float *)values + i, sizeof bits);
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Element i of a factor as the tensor cores take it. */
static double at(cublasComputeType_t compute, const matrix *of, const void *values, uint64_t i) {
    uint32_t bits;
    float value = (float)value_of(of->type, values, i);
    memcpy(&bits, &value, sizeof bits);
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void put(cudaDataType type, void *values, uint64_t i, double sum) {
    float value = (float)sum;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == CUDA_R_16BF) /* to nearest, ties to even; no NaN comes here */
        ((uint16_t *)values)[i] = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
    else
        ((float *)values)[i] = value;
}

static uint64_t place(const matrix *m, cublasOperation_t op, uint64_t row, uint64_t column) {
    uint64_t stride = (uint64_t)m->stride;
    return op == CUBLAS_OP_N ? column * stride + row : row * stride + column;
}

/* What becomes of the sum of one element of the product. */
static void finish(const product *p, uint64_t row, uint64_t column, double sum) {
    const description *how = &p->how;
    if (how->epilogue != CUBLASLT_EPILOGUE_DEFAULT) sum += value_of(how->bias_type, how->bias, row);
    if (how->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS && sum < 0) sum = 0;
    if (how->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        put(how->aux_type, how->aux, column * (uint64_t)how->aux_stride + row, sum);
        sum = 0.5 * sum * (1 + tanh(sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
    }
    uint64_t at_place = place(&p->d, CUBLAS_OP_N, row, column);
    if (p->add) sum += value_of(p->d.type, p->values, at_place);
    put(p->d.type, p->values, at_place, sum);
}

/* The elements of a column are summed side by side, each in the order of the inner index. */
static void multiply(void *memory) {
    const product *p = memory;
    const description *how = &p->how;
    uint64_t inner = how->first == CUBLAS_OP_N ? p->a.columns : p->a.rows, rows = p->d.rows;
    double *first = malloc((inner * rows + 1) * sizeof *first), *sums = malloc((rows + 1) * sizeof *sums);
    GW_ASSERT(first != NULL && sums != NULL);
    memset(p->workspace, 0xEE, 4096); /* what was in it is lost */
    for (uint64_t k = 0; k < inner; k++)
        for (uint64_t row = 0; row < rows; row++)
            first[k * rows + row] = at(how->compute, &p->a, p->a_values, place(&p->a, how->first, row, k));
    for (uint64_t column = 0; column < p->d.columns; column++) {
        memset(sums, 0, rows * sizeof *sums);
        for (uint64_t k = 0; k < inner; k++) {
            double second = at(how->compute, &p->b, p->b_values, place(&p->b, how->second, k, column));
            for (uint64_t row = 0; row < rows; row++) sums[row] += first[k * rows + row] * second;
        }
        for (uint64_t row = 0; row < rows; row++) finish(p, row, column, sums[row]);
    }
    free(first);
    free(sums);
}

static cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void *alpha,
                             const void *a, cublasLtMatrixLayout_t a_is, const void *b,
                             cublasLtMatrixLayout_t b_is, const void *beta, const void *c,
                             cublasLtMatrixLayout_t c_is, void *d, cublasLtMatrixLayout_t d_is,
                             const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                             cudaStream_t stream) {
    (void)handle, (void)workspace_bytes;
    const float kept = *(const float *)beta;
    latest_answer = algorithm->data[1];
    product p = {*(const description *)(const void *)how,
                 *(const matrix *)(const void *)a_is,
                 *(const matrix *)(const void *)b_is,
                 *(const matrix *)(const void *)d_is,
                 a,
                 b,
                 d,
                 workspace,
                 kept != 0.0f};
    GW_ASSERT(*(const float *)alpha == 1.0f && (kept == 0.0f || kept == 1.0f) && c == d && c_is == d_is);
    GW_ASSERT((p.d.type == CUDA_R_32F || p.d.type == p.a.type) && p.a.type == p.b.type);
    if (p.how.epilogue != CUBLASLT_EPILOGUE_DEFAULT && p.how.epilogue != CUBLASLT_EPILOGUE_BIAS &&
        p.how.epilogue != CUBLASLT_EPILOGUE_RELU_BIAS && p.how.epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    cudaError_t status = fake_launch(stream, multiply, &p, sizeof p);
    if (status == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
    (void)cudaGetLastError(); /* the library has a runtime of its own, and keeps its errors there */
    return status == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* ---- opened instead of the library ---- */

typedef void (*function)(void);

static const struct {
    const char *name;
    function function;
} functions[] = {
#define ONE(name, of)                                                                                        \
    { "cublasLt" name, (function)(of) }
    ONE("Create", create),
    ONE("Destroy", destroy),
    ONE("GetVersion", version),
    ONE("GetStatusString", status_string),
    ONE("Matmul", matmul),
    ONE("MatmulAlgoConfigGetAttribute", config_get),
    ONE("MatmulAlgoGetHeuristic", choose),
    ONE("MatmulDescCreate", how_create),
    ONE("MatmulDescDestroy", how_destroy),
    ONE("MatmulDescSetAttribute", how_set),
    ONE("MatmulPreferenceCreate", wishes_create),
    ONE("MatmulPreferenceDestroy", wishes_destroy),
    ONE("MatmulPreferenceSetAttribute", wishes_set),
    ONE("MatrixLayoutCreate", layout_create),
    ONE("MatrixLayoutDestroy", layout_destroy),
#undef ONE
};

bool gw_cuda_library_open(const gw_library_wanted *wanted, void *table, gw_err *err) {
    for (size_t at = 0; at < wanted->function_count; at++) {
        const gw_library_function *wants = &wanted->functions[at];
        function found = NULL;
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
            if (strcmp(functions[i].name, wants->name) == 0) found = functions[i].function;
        if (found == NULL)
            return gw_fail(err, GW_E_UNSUPPORTED, "the stand-in has no function %s", wants->name);
        memcpy((char *)table + wants->offset, &found, sizeof found);
    }
    return wanted->judge(wanted->context, "the stand-in", table, err);
}
