/* Charts as SVG inside of a page: lines over steps, each with the band between its lowest and highest values. */
#ifndef GODWIT_TOOLS_GODWIT_REPORT_CHART_H
#define GODWIT_TOOLS_GODWIT_REPORT_CHART_H

#include "tools/godwit/series/levels.h"

#include <stdint.h>
#include <stdio.h>

enum { GW_CHART_LINES = 4, GW_CHART_POINTS = 600 };

typedef struct gw_chart_line {
    const char *name; /* for the legend */
    const gw_series_point *points;
    uint32_t count; /* at most GW_CHART_POINTS */
} gw_chart_line;

/* Draws a chart of at most GW_CHART_LINES lines. The vertical axis is logarithmic where all values are above 0 and
 * span more than two powers of ten. Values that are not finite are left out; without any, nothing is drawn. Returns
 * whether it drew. */
bool gw_chart_draw(FILE *out, const char *title, const gw_chart_line *lines, uint32_t count);

#endif
