#include "kernels/math/gelu.h"

#include "tests/kernels/math/slopes.h"

#include <criterion/criterion.h>
#include <math.h>

static double gelu(double x) {
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

enum { COUNT = 4003 };

static float value_at(int i) {
    return (float)(-12.0 + 24.0 * i / (COUNT - 1));
}

Test(gelu, values_and_slopes_agree_with_the_definition) {
    float y[COUNT], slope[COUNT];
    for (int i = 0; i < COUNT; i++) y[i] = value_at(i);
    gw_gelu_forward(COUNT, y, slope);
    for (int i = 0; i < COUNT; i++) {
        double x = (double)value_at(i), move = 1e-6;
        cr_assert_float_eq((double)y[i], gelu(x), 5e-7 * (0.1 + fabs(x)), "gelu(%g) = %g", x, (double)y[i]);
        cr_assert_float_eq((double)slope[i], (gelu(x + move) - gelu(x - move)) / (2.0 * move), 2e-6, "at %g",
                           x);
    }
    float gradient[COUNT];
    for (int i = 0; i < COUNT; i++) gradient[i] = 2.0f;
    gw_gelu_backward(COUNT, slope, gradient);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(gradient[i], 2.0f * slope[i]);
}

Test(gelu, ends) {
    float x[] = {1e4f, -1e4f, 0.0f, NAN, INFINITY}, slope[5];
    gw_gelu_forward(5, x, slope);
    cr_assert_eq(x[0], 1e4f);
    cr_assert_eq(slope[0], 1.0f);
    cr_assert_float_eq(x[1], 0.0f, 1e-30);
    cr_assert_float_eq(slope[1], 0.0f, 1e-25);
    cr_assert_eq(x[2], 0.0f);
    cr_assert_eq(slope[2], 0.5f);
    cr_assert(isnan(x[3]) && isnan(slope[3]));
    cr_assert_eq(x[4], INFINITY);
}

Test(gelu, bits_are_pinned) {
    float all[2 * COUNT];
    for (int i = 0; i < COUNT; i++) all[i] = value_at(i);
    gw_gelu_forward(COUNT, all, all + COUNT);
    cr_assert_str_eq(slopes_hash(all, 2 * COUNT),
                     "9157e970bc32ba605e9aa1b05bcf520bd35e5475ab7ad69346c028bd7f165d10");
}
