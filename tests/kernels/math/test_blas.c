/* Products from several threads at once, some of which are wrong without the lock around the library's
 * buffers; and the libraries that are accepted. */
#include "kernels/math/blas.h"

#include "address_space.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, PRODUCTS = 3000, MOST = 64 * 1024 /* number of elements of a matrix */ };

/* The library computes small products without a packing buffer. */
static const struct shape { size_t rows, columns, inner; } packed = {37, 129, 211}, small = {64, 64, 32};

static const struct shape *shape;
static float a[MOST], b[MOST], expected[MOST];
static int flavour; /* 0 is OPENBLAS_SEQUENTIAL */

/* Replaces the library's function. */
int openblas_get_parallel(void);
int openblas_get_parallel(void) {
    return flavour;
}

static void multiply(float *c) {
    gw_blas_multiply(shape->rows, shape->columns, shape->inner, (gw_operand){a, shape->inner, GW_PLAIN},
                     (gw_operand){b, shape->columns, GW_PLAIN}, 0.0f, c, shape->columns);
}

static void *repeat(void *wrong) {
    float *c = malloc(sizeof expected);
    for (int i = 0; i < PRODUCTS; i++) {
        multiply(c);
        *(int *)wrong += memcmp(c, expected, shape->rows * shape->columns * sizeof *c) != 0;
    }
    free(c);
    return NULL;
}

static void fill(void) {
    for (int i = 0; i < MOST; i++) a[i] = (float)(i % 101) / 101.0f - 0.5f;
    for (int i = 0; i < MOST; i++) b[i] = (float)(i % 97) / 97.0f - 0.5f;
}

static void expect_same_bits(const struct shape *of) {
    gw_err err;
    cr_assert(gw_blas_check(&err), "%s", err.text);
    fill();
    shape = of;
    multiply(expected);
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) cr_assert_eq(pthread_create(&threads[i], NULL, repeat, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(wrong[i], 0, "thread %d: %d products of %d", i, wrong[i], PRODUCTS);
    }
}

Test(blas, threads_get_the_same_bits_as_one) {
    expect_same_bits(&packed);
}

Test(blas, threads_get_the_same_bits_as_one_of_small_products) {
    expect_same_bits(&small);
}

/* Debian's libopenblas0-pthread and -openmp have the serial one's name and version. */
void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

Test(blas, there_are_buffers_for_all_threads_that_may_multiply_at_once) {
    static void *buffers[GW_BLAS_THREADS];
    for (int i = 0; i < GW_BLAS_THREADS; i++) {
        buffers[i] = blas_memory_alloc(0);
        cr_assert_not_null(buffers[i], "%d", i);
    }
    for (int i = 0; i < GW_BLAS_THREADS; i++) blas_memory_free(buffers[i]);
}

Test(blas, a_library_that_computes_with_threads_is_refused) {
    gw_err err;
    for (flavour = 1; flavour <= 2; flavour++) {
        cr_assert_not(gw_blas_check(&err));
        cr_assert_eq(err.code, GW_E_UNSUPPORTED);
        cr_assert_not_null(strstr(err.text, "threads"), "%s", err.text);
        cr_assert_not_null(strstr(err.text, "libopenblas0-serial"), "%s", err.text);
    }
    flavour = 0;
    cr_assert(gw_blas_check(&err), "%s", err.text);
}

Test(blas, transposed_operands_and_beta) {
    /* C = A^T B + C with A 2 x 3 read as 3 x 2 */
    const float left[] = {1, 2, 3, 4, 5, 6}, right[] = {1, 0, 0, 1};
    float c[] = {10, 10, 10, 10, 10, 10};
    gw_blas_multiply(3, 2, 2, (gw_operand){left, 3, GW_TRANSPOSED}, (gw_operand){right, 2, GW_TRANSPOSED},
                     1.0f, c, 2);
    const float sum[] = {11, 14, 12, 15, 13, 16};
    cr_assert_arr_eq(c, sum, sizeof sum);
}

/* Without memory, the library would retry for ever. */
Test(blas, without_room_for_a_buffer_it_is_refused, .timeout = 60) {
    gw_err err;
    leave_address_space(100 << 20);
    cr_assert_not(gw_blas_check(&err));
    cr_expect_eq(err.code, GW_E_NOMEM);
    cr_expect_not_null(strstr(err.text, "`ulimit -v` allows: raise it"), "%s", err.text);
}

Test(blas, threads_without_room_for_buffers_wait_for_each_other, .timeout = 60) {
    gw_err err;
    int wrong[4] = {0};
    pthread_t threads[4];
    pthread_attr_t small_stack;
    cr_assert(gw_blas_check(&err), "%s", err.text);
    fill();
    shape = &packed;
    multiply(expected);
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, 1 << 20);
    leave_address_space(60 << 20);
    for (int i = 0; i < 4; i++) cr_assert_eq(pthread_create(&threads[i], &small_stack, repeat, &wrong[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) cr_assert_eq(wrong[i], 0, "thread %d", i);
}
