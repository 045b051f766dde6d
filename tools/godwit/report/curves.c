#include "tools/godwit/report/inside.h"

#include "core/base/assert.h"
#include "core/os/durable.h"
#include "tools/godwit/metrics/table.h"
#include "tools/godwit/report/chart.h"
#include "tools/godwit/report/html.h"
#include "tools/godwit/series/series.h"

#include <stdlib.h>
#include <string.h>

/* The key of a series, without where its numbers are from: "loss" of "train/loss". */
static const char *key_of(const char *name) {
    const char *slash = strchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

/* Draws the series of one key, of training and evaluation in one chart. */
static void draw_key(const gw_series_set *set, uint32_t first, bool *drawn, gw_series_point *points,
                     FILE *out) {
    gw_chart_line lines[GW_CHART_LINES];
    uint32_t count = 0;
    const char *key = key_of(set->name[first]);
    bool of_run = strncmp(set->name[first], "run/", 4) == 0;
    for (uint32_t i = first; i < set->count && count < GW_CHART_LINES; i++) {
        bool same =
            strcmp(key_of(set->name[i]), key) == 0 && (strncmp(set->name[i], "run/", 4) == 0) == of_run;
        if (!same) continue;
        gw_series_point *to = points + (size_t)count * GW_CHART_POINTS;
        uint32_t read = gw_levels_read(&set->levels[i], 0, UINT64_MAX, GW_CHART_POINTS, to);
        lines[count++] = (gw_chart_line){.name = set->name[i], .points = to, .count = read};
        drawn[i] = true;
    }
    gw_chart_draw(out, count > 1 ? key : set->name[first], lines, count);
}

/* In which order curves are drawn: losses, what else the job reports, how far it is, how the steps went. */
static int place_of(const char *name) {
    const char *key = key_of(name);
    if (strncmp(name, "run/", 4) == 0) return 3;
    return strstr(key, "loss") != NULL ? 0 : strcmp(key, "epoch") == 0 ? 2 : 1;
}

static void draw_set(const gw_series_set *set, gw_series_point *points, FILE *out) {
    bool drawn[GW_SERIES_MOST] = {false};
    for (int place = 0; place <= 3; place++)
        for (uint32_t i = 0; i < set->count; i++)
            if (!drawn[i] && place_of(set->name[i]) == place) draw_key(set, i, drawn, points, out);
}

/* Draws the series of the directory that has come the furthest. Returns whether there are any. */
static bool draw_series(const gw_report_sources *sources, const gw_report_peer *peers,
                        gw_series_point *points, FILE *out) {
    gw_series_set *best = calloc(1, sizeof *best), *one = calloc(1, sizeof *one);
    GW_ASSERT_MEMORY(best != NULL && one != NULL);
    gw_err ignored;
    bool any = false;
    for (int i = 0; i < sources->record->journal_count; i++) {
        if (!peers[i].has_job ||
            !gw_series_read_file(sources->record->journals[i].dir, &peers[i].job, one, &ignored))
            continue;
        if (!any || gw_series_set_last(one) > gw_series_set_last(best)) {
            gw_series_set *other = best;
            best = one;
            one = other;
        }
        gw_series_set_free(one);
        any = true;
    }
    if (any) draw_set(best, points, out);
    gw_series_set_free(best);
    free(best);
    free(one);
    return any;
}

/* Makes points of a curve of a file of metrics: a bin, or some of them, become one. */
static uint32_t points_of(const gw_curve *curve, gw_series_point *points) {
    uint32_t each = curve->bin_count / GW_CHART_POINTS + 1, count = 0;
    for (uint32_t i = 0; i < curve->bin_count; i += each) {
        const gw_curve_bin *bin = &curve->bins[i];
        if (bin->first.x < 0 || bin->first.x > 9e15) continue;
        gw_series_point point = {
            .begin = (uint64_t)bin->first.x, .min = bin->lowest.y, .max = bin->highest.y};
        double sum = 0;
        uint32_t k = i;
        for (; k < i + each && k < curve->bin_count; k++) {
            bin = &curve->bins[k];
            if (bin->lowest.y < point.min) point.min = bin->lowest.y;
            if (bin->highest.y > point.max) point.max = bin->highest.y;
            sum += (bin->first.y + bin->last.y) / 2;
        }
        bool sound = bin->last.x >= bin->first.x && bin->last.x <= 9e15;
        point.end = sound ? (uint64_t)bin->last.x : point.begin;
        if (point.end < point.begin) point.end = point.begin;
        point.mean = sum / (k - i);
        point.last = bin->last.y;
        point.count = k - i;
        points[count++] = point;
    }
    return count;
}

static bool draw_metrics(const char *path, gw_series_point *points, FILE *out, gw_err *err) {
    const gw_metrics_range range = {.x = "step"};
    gw_metrics_table *table = calloc(1, sizeof *table);
    GW_ASSERT_MEMORY(table != NULL);
    bool good = gw_metrics_table_read(path, &range, table, err);
    for (uint32_t i = 0; good && i < table->columns; i++) {
        bool shown = strcmp(table->name[i], "step") != 0 && strcmp(table->name[i], "time") != 0;
        if (!shown || table->curve[i].points == 0) continue;
        const gw_chart_line line = {
            .name = table->name[i], .points = points, .count = points_of(&table->curve[i], points)};
        gw_chart_draw(out, table->name[i], &line, 1);
    }
    if (good) gw_metrics_table_free(table);
    free(table);
    return good;
}

bool gw_report_curves(const gw_report_sources *sources, const gw_report_peer *peers, FILE *out, gw_err *err) {
    gw_series_point *points = calloc((size_t)GW_CHART_POINTS * GW_CHART_LINES, sizeof *points);
    if (points == NULL) return gw_fail(err, GW_E_NOMEM, "curves: memory runs out");
    bool good = true;
    fputs("<h2 id=\"curves\">Curves</h2>\n<div class=\"charts\">\n", out);
    if (sources->metrics != NULL)
        good = draw_metrics(sources->metrics, points, out, err);
    else if (!draw_series(sources, peers, points, out))
        fputs("<p>No directory has series of this job: 'godwit report --metrics FILE' draws those of a "
              "file.</p>\n",
              out);
    fputs("</div>\n", out);
    free(points);
    return good;
}
