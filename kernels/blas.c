#include "kernels/blas.h"

#include "core/check.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t buffers = PTHREAD_MUTEX_INITIALIZER;
static uint64_t buffers_asked; /* guarded by `buffers` */

/* The library's functions that the two below stand in front of. */
typedef void *alloc_function(int position);
typedef void free_function(void *buffer);

void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

void *blas_memory_alloc(int position) {
    static alloc_function *real;
    pthread_mutex_lock(&buffers);
    if (real == NULL) real = (alloc_function *)dlsym(RTLD_NEXT, "blas_memory_alloc");
    GW_CHECK(real != NULL);
    void *buffer = real(position);
    buffers_asked++;
    pthread_mutex_unlock(&buffers);
    return buffer;
}

void blas_memory_free(void *buffer) {
    static free_function *real;
    pthread_mutex_lock(&buffers);
    if (real == NULL) real = (free_function *)dlsym(RTLD_NEXT, "blas_memory_free");
    GW_CHECK(real != NULL);
    real(buffer);
    pthread_mutex_unlock(&buffers);
}

void gw_blas_multiply(size_t rows, size_t columns, size_t inner, gw_operand a, gw_operand b, float beta,
                      float *c, size_t c_stride) {
    GW_CHECK(rows > 0 && columns > 0 && inner > 0);
    GW_CHECK(rows <= INT_MAX && columns <= INT_MAX && inner <= INT_MAX);
    GW_CHECK(a.stride <= INT_MAX && b.stride <= INT_MAX && c_stride <= INT_MAX);
    cblas_sgemm(CblasRowMajor, a.transpose == GW_PLAIN ? CblasNoTrans : CblasTrans,
                b.transpose == GW_PLAIN ? CblasNoTrans : CblasTrans, (int)rows, (int)columns, (int)inner,
                1.0f, a.values, (int)a.stride, b.values, (int)b.stride, beta, c, (int)c_stride);
}

/* How many threads share a product decides how it is cut, and with that its bits; they follow the processors.
 */
static bool check_serial(gw_err *err) {
    if (openblas_get_parallel() == OPENBLAS_SEQUENTIAL) return true;
    return gw_fail(
        err, GW_E_UNSUPPORTED,
        "kernels/blas: the OpenBLAS that was loaded (%s) computes with threads, and other bytes on "
        "machines with other numbers of processors: install the package libopenblas0-serial, and "
        "see that LD_LIBRARY_PATH names no other one",
        openblas_get_config());
}

static bool check_guarded(gw_err *err) {
    enum { SIDE = 128 }; /* large enough for every kernel set to want a packing buffer */
    float *square = calloc(2 * SIDE * SIDE, sizeof *square);
    if (square == NULL) return gw_fail(err, GW_E_NOMEM, "kernels/blas: out of memory");
    pthread_mutex_lock(&buffers);
    uint64_t before = buffers_asked;
    pthread_mutex_unlock(&buffers);
    gw_operand operand = {square, SIDE, GW_PLAIN};
    gw_blas_multiply(SIDE, SIDE, SIDE, operand, operand, 0.0f, square + SIDE * SIDE, SIDE);
    free(square);
    pthread_mutex_lock(&buffers);
    bool guarded = buffers_asked > before;
    pthread_mutex_unlock(&buffers);
    if (!guarded)
        return gw_fail(
            err, GW_E_UNSUPPORTED,
            "kernels/blas: %s does not let its buffer table be guarded, and is not safe with threads",
            openblas_get_config());
    return true;
}

bool gw_blas_check(gw_err *err) {
    return check_serial(err) && check_guarded(err);
}
