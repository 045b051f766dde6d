/* A curve of any number of points in memory for some thousand: what a picture of it shows. As many points
 * that follow one another as were too many are one bin, of which the first, the last, the lowest and the
 * highest stay. Thread: a curve belongs to its caller. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_CURVE_H
#define GODWIT_TOOLS_GODWIT_METRICS_CURVE_H

#include "core/base/err.h"

#include <stdint.h>

/* More than a picture's columns of pixels, when half of them are in use. */
enum { GW_CURVE_BINS = 2048, GW_CURVE_BIN_POINTS = 4 };

typedef struct gw_curve_point {
    double x, y;
    uint64_t number; /* of the points that were added, from 0 */
} gw_curve_point;

typedef struct gw_curve_bin {
    gw_curve_point first, last, lowest, highest;
} gw_curve_bin;

/* All zero: a curve without points. */
typedef struct gw_curve {
    uint64_t points;    /* that were added */
    uint64_t bin_width; /* of them in each bin, but for the last */
    uint32_t bin_count;
    gw_curve_bin *bins; /* GW_CURVE_BINS of them; NULL: there is no point yet */
} gw_curve;

/* Adds a point behind the others; x need not rise. Fails with GW_E_NOMEM. */
bool gw_curve_add(gw_curve *curve, double x, double y, gw_err *err);

/* The points that are left of a bin, in the order in which they were added: how many. */
uint32_t gw_curve_bin_points(const gw_curve_bin *bin, gw_curve_point points[GW_CURVE_BIN_POINTS]);

void gw_curve_free(gw_curve *curve);

#endif
