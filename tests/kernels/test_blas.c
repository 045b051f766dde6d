/* Products from several threads at once: without the guard around the library's buffers some of them are
 * wrong. */
#include "kernels/blas.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 37, INNER = 211, COLUMNS = 129, THREADS = 8, PRODUCTS = 3000 };

static float a[ROWS * INNER], b[INNER * COLUMNS], expected[ROWS * COLUMNS];

static void multiply(float *c) {
    gw_blas_multiply(ROWS, COLUMNS, INNER, (gw_operand){a, INNER, GW_PLAIN},
                     (gw_operand){b, COLUMNS, GW_PLAIN}, 0.0f, c, COLUMNS);
}

static void *repeat(void *wrong) {
    float *c = malloc(sizeof expected);
    for (int i = 0; i < PRODUCTS; i++) {
        multiply(c);
        *(int *)wrong += memcmp(c, expected, sizeof expected) != 0;
    }
    free(c);
    return NULL;
}

static void fill(void) {
    for (int i = 0; i < ROWS * INNER; i++) a[i] = (float)(i % 101) / 101.0f - 0.5f;
    for (int i = 0; i < INNER * COLUMNS; i++) b[i] = (float)(i % 97) / 97.0f - 0.5f;
}

Test(blas, threads_get_the_same_bits_as_one) {
    gw_err err;
    cr_assert(gw_blas_check(&err), "%s", err.text);
    fill();
    multiply(expected);
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) cr_assert_eq(pthread_create(&threads[i], NULL, repeat, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(wrong[i], 0, "thread %d: %d products of %d", i, wrong[i], PRODUCTS);
    }
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
