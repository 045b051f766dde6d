#include "kernels/math/crossent.h"

#include "core/rng.h"
#include "tests/kernels/math/slopes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 7, GAP = 5 };

typedef struct classifier {
    size_t classes;
    double *logits; /* without gaps */
    uint32_t targets[ROWS];
} classifier;

static double loss(const void *context) {
    const classifier *c = context;
    double sum = 0.0;
    for (size_t r = 0; r < ROWS; r++) {
        const double *row = c->logits + r * c->classes;
        double largest = row[0], total = 0.0;
        for (size_t i = 1; i < c->classes; i++) largest = fmax(largest, row[i]);
        for (size_t i = 0; i < c->classes; i++) total += exp(row[i] - largest);
        sum += log(total) + largest - row[c->targets[r]];
    }
    return sum;
}

static void check(size_t classes, double spread, size_t stride) {
    classifier c = {.classes = classes, .logits = malloc(ROWS * classes * sizeof(double))};
    float *narrow = malloc(ROWS * classes * sizeof *narrow),
          *logits = malloc(ROWS * (classes + GAP) * sizeof *logits);
    gw_rng rng = gw_rng_seeded(classes);
    slopes_fill(classes, ROWS * classes, spread, c.logits, narrow);
    for (size_t r = 0; r < ROWS; r++) {
        c.targets[r] = (uint32_t)gw_rng_below(&rng, classes);
        for (size_t i = 0; i < classes + GAP; i++)
            logits[r * (classes + GAP) + i] = i < classes ? narrow[r * classes + i] : 1e9f;
    }
    double sum = gw_crossent(ROWS, classes, classes + GAP, logits, c.targets, 1.0f);
    cr_assert_float_eq(sum, loss(&c), 2e-7 * (1.0 + sum), "%.9g, not %.9g", sum, loss(&c));
    for (size_t r = 0; r < ROWS; r++) {
        cr_assert_eq(logits[r * (classes + GAP) + classes], 1e9f); /* the space between rows is not written */
        for (size_t i = 0; i < classes; i++) narrow[r * classes + i] = logits[r * (classes + GAP) + i];
    }
    slopes_check(loss, &c, c.logits, ROWS * classes, stride, narrow, 1e-6, "dlogits");
    free(c.logits);
    free(narrow);
    free(logits);
}

Test(crossent, gradients_agree_with_finite_differences) {
    check(256, 4.0, 1);
    check(2, 1.0, 1);
    check(27, 30.0, 1);
    check(5003, 6.0, 977);
}

Test(crossent, scale_is_applied_and_0_leaves_the_loss_alone) {
    float a[] = {1.0f, 2.0f, 3.0f}, b[] = {1.0f, 2.0f, 3.0f}, c[] = {1.0f, 2.0f, 3.0f};
    const uint32_t target = 1;
    double loss_a = gw_crossent(1, 3, 3, a, &target, 1.0f), loss_b = gw_crossent(1, 3, 3, b, &target, 0.125f);
    cr_assert_eq(loss_a, loss_b);
    cr_assert_eq(loss_a, gw_crossent(1, 3, 3, c, &target, 0.0f));
    for (int i = 0; i < 3; i++) cr_assert_float_eq((double)b[i], (double)a[i] * 0.125, 1e-8);
}

Test(crossent, large_logits_do_not_overflow) {
    float row[] = {3e38f, -3e38f, 0.0f};
    const uint32_t target = 0;
    cr_assert_eq(gw_crossent(1, 3, 3, row, &target, 1.0f), 0.0);
    cr_assert_eq(row[0], 0.0f);
}

Test(crossent, what_is_not_finite_stays_visible) {
    const float bad[] = {NAN, INFINITY};
    for (int at = 0; at < 3; at++)
        for (int k = 0; k < 2; k++) {
            float row[] = {1.0f, 0.25f, 0.5f};
            const uint32_t target = 1;
            row[at] = bad[k];
            cr_assert_not(isfinite(gw_crossent(1, 3, 3, row, &target, 1.0f)), "%g at %d", (double)bad[k], at);
        }
}

Test(crossent, minus_infinity_is_a_class_of_probability_0) {
    float row[] = {1.0f, -INFINITY, 0.5f}, two[] = {1.0f, 0.5f};
    const uint32_t target = 0, impossible = 1;
    cr_expect_eq(gw_crossent(1, 3, 3, row, &target, 1.0f), gw_crossent(1, 2, 2, two, &target, 1.0f));
    cr_expect(row[0] == two[0] && row[1] == 0.0f && row[2] == two[1]);
    float of_target[] = {1.0f, -INFINITY, 0.5f}, all[] = {-INFINITY, -INFINITY};
    cr_expect_eq(gw_crossent(1, 3, 3, of_target, &impossible, 1.0f), (double)INFINITY);
    cr_expect(isnan(gw_crossent(1, 2, 2, all, &target, 1.0f)));
}

Test(crossent, bits_are_pinned) {
    enum { CLASSES = 1301 };
    static double wide[ROWS * CLASSES];
    static float logits[ROWS * CLASSES];
    uint32_t targets[ROWS];
    slopes_fill(5, ROWS * CLASSES, 6.0, wide, logits);
    for (uint32_t r = 0; r < ROWS; r++) targets[r] = 97 * r;
    double sum = gw_crossent(ROWS, CLASSES, CLASSES, logits, targets, 1.0f / 512.0f);
    cr_assert_str_eq(slopes_hash(logits, ROWS * CLASSES),
                     "312a1d512ef7a8ca382bf5386c1e7da02e2553763ada997db33310557a99a74f");
    cr_assert_eq(sum, 0x1.344f2283a0df6p+6, "%a", sum);
}
