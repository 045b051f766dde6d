/* A curve of any number of points, in memory for a few thousand: enough for a picture of it. Neighbouring
 * points share a bin, which keeps the first, the last, the lowest and the highest of them. When there are
 * too many bins, each two are joined. Thread: a curve belongs to its caller. */
#ifndef GODWIT_TOOLS_GODWIT_METRICS_CURVE_H
#define GODWIT_TOOLS_GODWIT_METRICS_CURVE_H

#include "core/base/err.h"

#include <stdint.h>

/* There are more bins than a picture has columns of pixels, even if only half of them are in use. */
enum { GW_CURVE_BINS = 2048, GW_CURVE_BIN_POINTS = 4 };

typedef struct gw_curve_point {
    double x, y;
    uint64_t number; /* the point's number in the order of addition, from 0 */
    /* Points are missing before it, or before a point of its bin that is not kept: no line leads to it. */
    bool apart;
} gw_curve_point;

typedef struct gw_curve_bin {
    gw_curve_point first, last, lowest, highest;
} gw_curve_bin;

/* A curve; all zero, it has no points. */
typedef struct gw_curve {
    uint64_t points;    /* points that were added */
    uint64_t bin_width; /* points in each bin, except for the last bin */
    uint32_t bin_count;
    gw_curve_bin *bins; /* GW_CURVE_BINS entries; NULL = there is no point yet */
} gw_curve;

/* Adds a point; x need not rise. `apart`: points are missing before it. Fails with GW_E_NOMEM. */
bool gw_curve_add(gw_curve *curve, double x, double y, bool apart, gw_err *err);

/* Writes the points that a bin has kept, in the order of addition; returns how many. */
uint32_t gw_curve_bin_points(const gw_curve_bin *bin, gw_curve_point points[GW_CURVE_BIN_POINTS]);

void gw_curve_free(gw_curve *curve);

#endif
