#include "tools/godwit/metrics/curve.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { MILLION = 1000000, LOW = 123456, HIGH = 876543, GAP = 654321 };

static void add(gw_curve *curve, double x, double y) {
    gw_err err;
    cr_assert(gw_curve_add(curve, x, y, x == GAP, &err), "%s", err.text);
}

/* Returns all points that are left; the caller frees. */
static gw_curve_point *left_of(const gw_curve *curve, uint32_t *count) {
    gw_curve_point *all = calloc(GW_CURVE_BINS * GW_CURVE_BIN_POINTS, sizeof *all);
    cr_assert(all != NULL && curve->bin_count <= GW_CURVE_BINS);
    *count = 0;
    for (uint32_t b = 0; b < curve->bin_count; b++)
        *count += gw_curve_bin_points(&curve->bins[b], all + *count);
    return all;
}

Test(curve, some_thousand_points_are_all_there) {
    gw_curve curve = {0};
    for (uint32_t i = 0; i < GW_CURVE_BINS; i++) add(&curve, i % 100, i * i % 77);
    uint32_t count;
    gw_curve_point *all = left_of(&curve, &count);
    cr_assert(count == GW_CURVE_BINS && curve.points == GW_CURVE_BINS);
    for (uint32_t i = 0; i < count; i++) cr_assert(all[i].x == i % 100 && all[i].y == i * i % 77);
    free(all);
    gw_curve_free(&curve);
}

Test(curve, of_a_million_points_the_ends_and_the_extremes_stay) {
    gw_curve curve = {0};
    for (uint32_t i = 0; i < MILLION; i++)
        add(&curve, i, i == LOW ? -5.0 : i == HIGH ? 9.0 : (i & 1) + 1e-6 * i);
    uint32_t count, low = 0, high = 0, gaps = 0;
    gw_curve_point *all = left_of(&curve, &count);
    cr_assert(curve.points == MILLION && curve.bin_count > GW_CURVE_BINS / 2 && count > GW_CURVE_BINS);
    cr_assert(all[0].number == 0 && all[count - 1].number == MILLION - 1);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert(all[i].x == (double)all[i].number && (i == 0 || all[i].number > all[i - 1].number));
        low += all[i].number == LOW && all[i].y == -5.0;
        high += all[i].number == HIGH && all[i].y == 9.0;
        gaps += all[i].apart;
        cr_assert(!all[i].apart || (all[i].number >= GAP && all[i].number < GAP + curve.bin_width));
    }
    cr_assert(low == 1 && high == 1 && gaps == 1);
    free(all);
    gw_curve_free(&curve);
}

/* For every number of points, and every place of the extremes, each bin keeps its own. */
Test(curve, every_bin_keeps_its_own) {
    gw_curve curve = {0};
    const uint32_t points = 3 * GW_CURVE_BINS + 1; /* bins of four points, and one of one point */
    for (uint32_t i = 0; i < points; i++) add(&curve, i, (i * 2654435761u) >> 16);
    cr_assert(curve.bin_width == 4 && curve.bin_count == points / 4 + 1);
    for (uint32_t b = 0; b < curve.bin_count; b++) {
        const gw_curve_bin *bin = &curve.bins[b];
        uint32_t begin = 4 * b, end = begin + 4 < points ? begin + 4 : points;
        cr_assert(bin->first.number == begin && bin->last.number == end - 1);
        for (uint32_t i = begin; i < end; i++) {
            double y = (i * 2654435761u) >> 16;
            cr_assert(bin->lowest.y <= y && bin->highest.y >= y);
        }
        cr_assert(bin->lowest.number >= begin && bin->highest.number < end);
    }
    gw_curve_free(&curve);
}
