#include "tools/godwit/metrics/curve.h"

#include <stdlib.h>

/* Joins a bin with the next one. */
static gw_curve_bin join(const gw_curve_bin *one, const gw_curve_bin *next) {
    gw_curve_bin both = {.first = one->first,
                         .last = next->last,
                         .lowest = next->lowest.y < one->lowest.y ? next->lowest : one->lowest,
                         .highest = next->highest.y > one->highest.y ? next->highest : one->highest};
    bool within = one->first.number < one->last.number && one->last.apart;
    both.last.apart |= within || next->first.apart;
    both.lowest.apart = both.highest.apart = false;
    return both;
}

static void halve(gw_curve *curve) {
    for (uint32_t i = 0; i < GW_CURVE_BINS / 2; i++)
        curve->bins[i] = join(&curve->bins[2 * i], &curve->bins[2 * i + 1]);
    curve->bin_count = GW_CURVE_BINS / 2;
    curve->bin_width *= 2;
}

bool gw_curve_add(gw_curve *curve, double x, double y, bool apart, gw_err *err) {
    if (curve->bins == NULL) {
        curve->bins = calloc(GW_CURVE_BINS, sizeof *curve->bins);
        curve->bin_width = 1;
    }
    if (curve->bins == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a curve");
    const gw_curve_point point = {x, y, curve->points, apart};
    const gw_curve_bin alone = {point, point, point, point};
    bool full = curve->points == curve->bin_count * curve->bin_width; /* the last bin is full, too */
    if (full && curve->bin_count == GW_CURVE_BINS) halve(curve);
    if (full)
        curve->bins[curve->bin_count++] = alone;
    else
        curve->bins[curve->bin_count - 1] = join(&curve->bins[curve->bin_count - 1], &alone);
    curve->points++;
    return true;
}

uint32_t gw_curve_bin_points(const gw_curve_bin *bin, gw_curve_point points[GW_CURVE_BIN_POINTS]) {
    bool falls = bin->highest.number < bin->lowest.number;
    const gw_curve_point all[GW_CURVE_BIN_POINTS] = {bin->first, falls ? bin->highest : bin->lowest,
                                                     falls ? bin->lowest : bin->highest, bin->last};
    uint32_t count = 0;
    for (uint32_t i = 0; i < GW_CURVE_BIN_POINTS; i++) {
        if (count == 0 || all[i].number > points[count - 1].number)
            points[count++] = all[i];
        else
            points[count - 1].apart |= all[i].apart;
    }
    return count;
}

void gw_curve_free(gw_curve *curve) {
    free(curve->bins);
    *curve = (gw_curve){.bins = NULL};
}
