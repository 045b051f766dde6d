#include "kernels/math/linear.h"

#include "tests/kernels/catcher.h"
#include "tests/kernels/math/slopes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static double *wide(size_t count) {
    return malloc(count * sizeof(double));
}

static float *narrow(size_t count) {
    return malloc(count * sizeof(float));
}

/* The rounding error that a sum of so many terms of size 1 may have. */
static double tolerance(size_t terms) {
    return 2e-6 * sqrt((double)terms);
}

/* Compares all results with sums in double; of a matrix, every `stride`-th element. */
static void check(size_t rows, size_t in, size_t out, size_t stride, uint32_t pieces) {
    gw_linear shape = {rows, in, out};
    double *dx = wide(rows * in), *dw = wide(in * out), *db = wide(out), *ddy = wide(rows * out);
    float *x = narrow(rows * in), *w = narrow(in * out), *b = narrow(out), *dy = narrow(rows * out);
    float *y = narrow(rows * out), *back = narrow(rows * in), *piece = narrow(gw_linear_piece(in, out) + out);
    slopes_fill(1, rows * in, 1.0, dx, x);
    slopes_fill(2, in * out, 1.0, dw, w);
    slopes_fill(3, out, 1.0, db, b);
    slopes_fill(4, rows * out, 1.0, ddy, dy);
    for (int residual = 0; residual < 2; residual++) {
        gw_linear_forward(&shape, x, w, b, residual ? dy : NULL, y);
        for (size_t i = 0; i < rows * out; i += stride) {
            double sum = db[i % out] + (residual ? ddy[i] : 0.0);
            for (size_t k = 0; k < in; k++) sum += dx[i / out * in + k] * dw[k * out + i % out];
            cr_assert_float_eq((double)y[i], sum, tolerance(in), "y[%zu]", i);
        }
    }
    gw_linear_backward(&shape, dy, w, back);
    for (size_t i = 0; i < rows * in; i += stride) {
        double sum = 0.0;
        for (size_t k = 0; k < out; k++) sum += ddy[i / in * out + k] * dw[i % in * out + k];
        cr_assert_float_eq((double)back[i], sum, tolerance(out), "dx[%zu]", i);
    }
    catcher *c = catcher_make(2, (const uint64_t[]){in * out, out});
    gw_linear_emit(&shape, x, dy, 0, 1, piece, &c->emitter);
    catcher_whole(c);
    cr_assert_eq(c->pieces[0], pieces);
    for (size_t i = 0; i < in * out; i += stride) {
        double sum = 0.0;
        for (size_t r = 0; r < rows; r++) sum += dx[r * in + i / out] * ddy[r * out + i % out];
        cr_assert_float_eq((double)c->values[0][i], sum, tolerance(rows), "dw[%zu]", i);
    }
    for (size_t i = 0; i < out; i++) {
        double sum = 0.0;
        for (size_t r = 0; r < rows; r++) sum += ddy[r * out + i];
        cr_assert_float_eq((double)c->values[1][i], sum, tolerance(rows), "db[%zu]", i);
    }
    catcher_free(c);
    void *all[] = {dx, dw, db, ddy, x, w, b, dy, y, back, piece};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

Test(linear, agrees_with_sums_in_double) {
    check(9, 5, 7, 1, 1);
    check(1, 1, 1, 1, 1);
    check(33, 64, 48, 7, 1);
}

Test(linear, a_large_gradient_is_emitted_in_even_pieces) {
    check(5, 700, 1001, 997, 3);
    check(2, 3, 300000, 9973, 3); /* rows longer than a piece */
}
