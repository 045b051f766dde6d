#include "kernels/math/blas.h"

#include "core/base/assert.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* The size that Debian's library maps for each buffer. Where mmap fails, the library retries for ever. */
#define BUFFER_BYTES ((size_t)128 << 20)

static pthread_mutex_t buffers = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t buffer_freed = PTHREAD_COND_INITIALIZER;
/* The counts of buffers are guarded by `buffers`. The library keeps the buffers that it has mapped. */
static uint64_t buffers_asked;
static uint32_t buffers_used, buffers_mapped;

/* The types of the library's functions that blas_memory_alloc and blas_memory_free replace. */
typedef void *alloc_function(int position);
typedef void free_function(void *buffer);

void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

static bool can_map_buffer(void) {
    void *room = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return false;
    munmap(room, BUFFER_BYTES);
    return true;
}

/* Where memory for another buffer is short, waits until another thread returns one. At least one buffer
 * exists since gw_blas_check. */
static void await_buffer(void) {
    while (buffers_mapped > 0 && buffers_used == buffers_mapped && !can_map_buffer())
        pthread_cond_wait(&buffer_freed, &buffers);
}

void *blas_memory_alloc(int position) {
    static alloc_function *real;
    pthread_mutex_lock(&buffers);
    await_buffer();
    if (real == NULL) real = (alloc_function *)dlsym(RTLD_NEXT, "blas_memory_alloc");
    GW_ASSERT(real != NULL);
    void *buffer = real(position);
    buffers_asked++;
    if (++buffers_used > buffers_mapped) buffers_mapped = buffers_used;
    pthread_mutex_unlock(&buffers);
    return buffer;
}

void blas_memory_free(void *buffer) {
    static free_function *real;
    pthread_mutex_lock(&buffers);
    if (real == NULL) real = (free_function *)dlsym(RTLD_NEXT, "blas_memory_free");
    GW_ASSERT(real != NULL);
    real(buffer);
    buffers_used--;
    pthread_cond_signal(&buffer_freed);
    pthread_mutex_unlock(&buffers);
}

void gw_blas_multiply(size_t rows, size_t columns, size_t inner, gw_operand a, gw_operand b, float beta,
                      float *c, size_t c_stride) {
    GW_ASSERT(rows > 0 && columns > 0 && inner > 0);
    GW_ASSERT(rows <= INT_MAX && columns <= INT_MAX && inner <= INT_MAX);
    GW_ASSERT(a.stride <= INT_MAX && b.stride <= INT_MAX && c_stride <= INT_MAX);
    cblas_sgemm(CblasRowMajor, a.transpose == GW_PLAIN ? CblasNoTrans : CblasTrans,
                b.transpose == GW_PLAIN ? CblasNoTrans : CblasTrans, (int)rows, (int)columns, (int)inner,
                1.0f, a.values, (int)a.stride, b.values, (int)b.stride, beta, c, (int)c_stride);
}

/* Refuses threaded libraries. The number of threads that share a product decides how it is divided, and so
 * its bits; it depends on the number of processors. */
static bool check_serial(gw_err *err) {
    if (openblas_get_parallel() == OPENBLAS_SEQUENTIAL) return true;
    return gw_fail(
        err, GW_E_UNSUPPORTED,
        "kernels/blas: the OpenBLAS that was loaded (%s) computes with threads, and other bytes on "
        "machines with other numbers of processors: install the package libopenblas0-serial, and "
        "check that LD_LIBRARY_PATH names no other one",
        openblas_get_config());
}

static bool check_room(gw_err *err) {
    pthread_mutex_lock(&buffers);
    bool room = buffers_mapped > 0 || can_map_buffer();
    pthread_mutex_unlock(&buffers);
    if (room) return true;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_AS, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        return gw_fail(err, GW_E_NOMEM, "kernels/blas: no memory: OpenBLAS takes %zu MB for each worker",
                       BUFFER_BYTES >> 20);
    return gw_fail(
        err, GW_E_NOMEM,
        "kernels/blas: OpenBLAS takes %zu MB of address space for each worker, more than is left of "
        "the %llu MB that `ulimit -v` allows: raise it",
        BUFFER_BYTES >> 20, (unsigned long long)(limit.rlim_cur >> 20));
}

static bool check_guarded(gw_err *err) {
    enum { SIDE = 128 }; /* large enough that every kernel set needs a packing buffer */
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
    return check_serial(err) && check_room(err) && check_guarded(err);
}
