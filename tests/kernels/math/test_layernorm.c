#include "kernels/math/layernorm.h"

#include "tests/kernels/math/slopes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { ROWS = 5, MOST = 70 };

/* A loss that is linear in y: its gradient with respect to y is `dy`. */
typedef struct norm {
    size_t channels;
    double x[ROWS * MOST], weight[MOST], bias[MOST], dy[ROWS * MOST];
} norm;

static double reference(const norm *n, double *y) {
    double loss = 0.0;
    for (size_t r = 0; r < ROWS; r++) {
        const double *x = n->x + r * n->channels;
        double mean = 0.0, variance = 0.0;
        for (size_t i = 0; i < n->channels; i++) mean += x[i] / (double)n->channels;
        for (size_t i = 0; i < n->channels; i++)
            variance += (x[i] - mean) * (x[i] - mean) / (double)n->channels;
        for (size_t i = 0; i < n->channels; i++) {
            double value = (x[i] - mean) / sqrt(variance + 1e-5) * n->weight[i] + n->bias[i];
            if (y != NULL) y[r * n->channels + i] = value;
            loss += value * n->dy[r * n->channels + i];
        }
    }
    return loss;
}

static double loss(const void *context) {
    return reference(context, NULL);
}

static void check(size_t channels) {
    static norm n;
    float x[ROWS * MOST], weight[MOST], bias[MOST], dy[ROWS * MOST], y[ROWS * MOST], mean[ROWS], scale[ROWS];
    double expected[ROWS * MOST];
    size_t count = ROWS * channels;
    n.channels = channels;
    slopes_fill(1, count, 2.0, n.x, x);
    slopes_fill(2, channels, 1.5, n.weight, weight);
    slopes_fill(3, channels, 1.0, n.bias, bias);
    slopes_fill(4, count, 1.0, n.dy, dy);
    gw_layernorm_forward(ROWS, channels, x, weight, bias, y, mean, scale);
    reference(&n, expected);
    for (size_t i = 0; i < count; i++) cr_assert_float_eq((double)y[i], expected[i], 2e-6);

    float dx[ROWS * MOST], dweight[MOST], dbias[MOST];
    for (size_t i = 0; i < count; i++) dx[i] = 1.0f; /* the gradient is added to dx */
    gw_layernorm_backward(ROWS, channels, x, weight, mean, scale, dy, dx, dweight, dbias);
    for (size_t i = 0; i < count; i++) dx[i] -= 1.0f;
    slopes_check(loss, &n, n.x, count, 1, dx, 2e-6, "dx");
    slopes_check(loss, &n, n.weight, channels, 1, dweight, 2e-6, "dweight");
    slopes_check(loss, &n, n.bias, channels, 1, dbias, 2e-6, "dbias");
}

Test(layernorm, gradients_agree_with_finite_differences) {
    check(64);
    check(MOST); /* six more than whole vectors */
    check(5);
}

Test(layernorm, bits_are_pinned) {
    double wide[ROWS * MOST];
    float x[ROWS * MOST], weight[MOST], dy[ROWS * MOST], all[4 * ROWS * MOST] = {0};
    slopes_fill(1, ROWS * MOST, 2.0, wide, x);
    slopes_fill(2, MOST, 1.0, wide, weight);
    slopes_fill(3, ROWS * MOST, 1.0, wide, dy);
    float *y = all, *dx = all + ROWS * MOST, *dweight = dx + ROWS * MOST, *dbias = dweight + MOST;
    float *mean = dbias + MOST, *scale = mean + ROWS;
    gw_layernorm_forward(ROWS, MOST, x, weight, weight, y, mean, scale);
    gw_layernorm_backward(ROWS, MOST, x, weight, mean, scale, dy, dx, dweight, dbias);
    cr_assert_str_eq(slopes_hash(all, sizeof all / sizeof all[0]),
                     "f203875621e8ce3ed6dc932460ad5173ac391c199ed9dc5e5b75b3d0aeb9e65a");
}
