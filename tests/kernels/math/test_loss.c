#include "kernels/math/loss.h"

#include "core/base/id.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 33, CLASSES_MOST = 130 };

static float logits[ROWS * CLASSES_MOST];
static uint8_t labels[ROWS];

static void fill(size_t classes, double spread) {
    gw_rng rng = gw_rng_seeded(classes);
    for (size_t i = 0; i < ROWS * classes; i++) logits[i] = (float)((gw_rng_unit(&rng) - 0.5) * spread);
    for (size_t r = 0; r < ROWS; r++) labels[r] = (uint8_t)gw_rng_below(&rng, classes);
}

/* Computes the loss and its gradient in long double, by their definition. */
static void check_against_reference(size_t classes, double spread) {
    fill(classes, spread);
    float before[ROWS * CLASSES_MOST];
    memcpy(before, logits, sizeof before);
    const float scale = 0.25f;
    gw_loss loss = gw_loss_softmax(logits, labels, ROWS, classes, scale);
    long double sum = 0.0L;
    int64_t correct = 0;
    for (size_t r = 0; r < ROWS; r++) {
        const float *row = before + r * classes;
        long double total = 0.0L;
        size_t best = 0;
        for (size_t i = 0; i < classes; i++) {
            total += expl((long double)row[i]);
            if (row[i] > row[best]) best = i;
        }
        correct += best == labels[r];
        sum += logl(total) - (long double)row[labels[r]];
        for (size_t i = 0; i < classes; i++) {
            long double p = expl((long double)row[i]) / total;
            double gradient = (double)((p - (i == labels[r] ? 1.0L : 0.0L)) * (long double)scale);
            cr_assert_float_eq((double)logits[r * classes + i], gradient, 1e-7, "row %zu class %zu", r, i);
        }
    }
    cr_assert_eq(loss.correct, correct);
    cr_assert_float_eq(loss.sum, (double)sum, 1e-6 * (1.0 + (double)sum));
}

Test(loss, agrees_with_the_definition) {
    check_against_reference(2, 4.0);
    check_against_reference(10, 1e-3);
    check_against_reference(10, 20.0);
    check_against_reference(10, 160.0);
    check_against_reference(CLASSES_MOST - 1, 8.0);
}

Test(loss, large_logits_do_not_overflow) {
    float row[] = {3e38f, -3e38f, 0.0f};
    const uint8_t label = 0;
    gw_loss loss = gw_loss_softmax(row, &label, 1, 3, 1.0f);
    cr_assert_eq(loss.sum, 0.0);
    cr_assert_eq(loss.correct, 1);
    cr_assert_eq(row[0], 0.0f);
}

Test(loss, what_is_not_finite_stays_visible) {
    const float bad[] = {NAN, INFINITY};
    for (int k = 0; k < 2; k++) {
        float row[] = {1.0f, bad[k], 0.5f};
        const uint8_t label = 0;
        gw_loss loss = gw_loss_softmax(row, &label, 1, 3, 1.0f);
        cr_assert_not(isfinite(loss.sum));
        cr_assert_not(isfinite(row[0]) && isfinite(row[1]) && isfinite(row[2]));
    }
}

Test(loss, minus_infinity_is_a_class_of_probability_0) {
    float row[] = {1.0f, -INFINITY, 0.5f}, two[] = {1.0f, 0.5f};
    const uint8_t label = 0, impossible = 1;
    cr_expect_eq(gw_loss_softmax(row, &label, 1, 3, 1.0f).sum, gw_loss_softmax(two, &label, 1, 2, 1.0f).sum);
    cr_expect(row[0] == two[0] && row[1] == 0.0f && row[2] == two[1]);
    float of_label[] = {1.0f, -INFINITY, 0.5f}, all[] = {-INFINITY, -INFINITY};
    cr_expect_eq(gw_loss_softmax(of_label, &impossible, 1, 3, 1.0f).sum, (double)INFINITY);
    cr_expect(isnan(gw_loss_softmax(all, &label, 1, 2, 1.0f).sum));
}

Test(loss, of_equal_logits_the_first_counts) {
    float row[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    const uint8_t label[] = {1, 0};
    cr_assert_eq(gw_loss_softmax(row, label, 2, 3, 0.0f).correct, 1);
}

Test(loss, bits_are_pinned) {
    fill(10, 12.0);
    gw_loss loss = gw_loss_softmax(logits, labels, ROWS, 10, 1.0f / 480.0f);
    gw_hash hash;
    char text[GW_HASH_TEXT];
    gw_blake2b(logits, ROWS * 10 * sizeof *logits, &hash, sizeof hash);
    gw_hex(&hash, sizeof hash, text);
    cr_assert_str_eq(text, "61fb228c71c62192f21ae62db7488e34209a1e506bbb103973222484a65080ea");
    cr_assert_eq(loss.sum, 0x1.8005fec8685fp+7, "%a", loss.sum);
}
