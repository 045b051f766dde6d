/* Matrix products as kernels/cuda/gemm.h promises them, by loops in float64. */
#include "fake_cuda.h"

#include "core/check.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_gemm {
    gw_gpu gpu;
    gw_gemm_shape shapes[GW_GEMM_PLANS];
    uint32_t count;
};

bool gw_gemm_open(const gw_gpu *gpu, gw_gemm **gemm, gw_err *err) {
    (void)err;
    *gemm = calloc(1, sizeof **gemm);
    (*gemm)->gpu = *gpu;
    return true;
}

void gw_gemm_close(gw_gemm *gemm) {
    free(gemm);
}

static bool same_shape(const gw_gemm_shape *a, const gw_gemm_shape *b) {
    return a->rows == b->rows && a->columns == b->columns && a->inner == b->inner &&
           a->a_transposed == b->a_transposed && a->b_transposed == b->b_transposed && a->finish == b->finish;
}

bool gw_gemm_plan(gw_gemm *gemm, const gw_gemm_shape *shape, uint32_t *plan, gw_err *err) {
    (void)err;
    for (*plan = 0; *plan < gemm->count; ++*plan)
        if (same_shape(&gemm->shapes[*plan], shape)) return true;
    GW_CHECK(gemm->count < GW_GEMM_PLANS);
    gemm->shapes[gemm->count++] = *shape;
    return true;
}

void gw_gemm_text(const gw_gemm *gemm, char text[GW_GPU_PLAN_TEXT]) {
    snprintf(text, GW_GPU_PLAN_TEXT, "cublaslt=0 plan=%u", gemm->count);
}

bool gw_cuda_libraries(gw_err *err) {
    (void)err;
    return true;
}

uint32_t gw_cuda_cublaslt_version(void) {
    return 130000;
}

typedef struct product {
    gw_gemm_shape shape;
    const void *a, *b;
    const float *bias;
    float *c;
    void *workspace;
    gw_precision precision;
} product;

/* Element i of a factor as the tensor cores take it. */
static double at(const product *p, const void *matrix, uint64_t i) {
    uint32_t bits;
    if (p->precision == GW_PRECISION_BF16)
        bits = (uint32_t)((const uint16_t *)matrix)[i] << 16;
    else
        memcpy(&bits, (const float *)matrix + i, sizeof bits);
    if (p->precision == GW_PRECISION_TF32) bits = (bits + 0x1000u) & ~0x1fffu;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void multiply(void *memory) {
    const product *p = memory;
    const gw_gemm_shape *s = &p->shape;
    memset(p->workspace, 0xEE, 4096); /* what was in it is lost */
    for (uint64_t row = 0; row < s->rows; row++)
        for (uint64_t column = 0; column < s->columns; column++) {
            double sum = 0;
            for (uint64_t k = 0; k < s->inner; k++)
                sum += at(p, p->a, s->a_transposed ? k * s->rows + row : row * s->inner + k) *
                       at(p, p->b, s->b_transposed ? column * s->inner + k : k * s->columns + column);
            if (p->bias != NULL) sum += (double)p->bias[column];
            if (s->finish == GW_GEMM_BIAS_RELU && sum < 0) sum = 0;
            p->c[row * s->columns + column] = (float)sum;
        }
}

bool gw_gemm_run(const gw_gemm *gemm, uint32_t plan, const void *a, const void *b, const float *bias,
                 float *c, void *workspace, cudaStream_t stream, gw_err *err) {
    GW_CHECK(plan < gemm->count);
    product p = {gemm->shapes[plan], a, b, bias, c, workspace, gemm->gpu.precision};
    return fake_launch(stream, multiply, &p, sizeof p) == cudaSuccess ||
           gw_fail(err, GW_E_IO, "a product failed as it was told to");
}
