#include "tools/godwit/report/chart.h"

#include "tools/godwit/report/html.h"

#include <math.h>

/* The picture and the place of its axes, in pixels. */
enum { WIDTH = 640, HEIGHT = 240, LEFT = 70, RIGHT = 12, TOP = 12, BOTTOM = 34, TICKS = 5 };

typedef struct frame {
    double x0, x1, y0, y1; /* what is shown; y is the logarithm where `log` */
    bool log;
} frame;

static bool is_shown(const gw_series_point *point) {
    return isfinite(point->mean) && isfinite(point->min) && isfinite(point->max);
}

static void include(frame *f, const gw_series_point *point, bool *any) {
    if (!is_shown(point)) return;
    if (!*any)
        *f =
            (frame){.x0 = (double)point->begin, .x1 = (double)point->end, .y0 = point->min, .y1 = point->max};
    *any = true;
    f->x0 = fmin(f->x0, (double)point->begin);
    f->x1 = fmax(f->x1, (double)point->end);
    f->y0 = fmin(f->y0, point->min);
    f->y1 = fmax(f->y1, point->max);
}

static bool frame_of(const gw_chart_line *lines, uint32_t count, frame *f) {
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < lines[i].count; k++) include(f, &lines[i].points[k], &any);
    if (!any) return false;
    f->log = f->y0 > 0 && f->y1 > 100 * f->y0;
    if (f->log) {
        f->y0 = log10(f->y0);
        f->y1 = log10(f->y1);
    }
    double margin = (f->y1 - f->y0) * 0.05;
    if (!(margin > 0)) margin = fmax(fabs(f->y0) * 0.05, 1e-9);
    f->y0 -= margin;
    f->y1 += margin;
    if (f->x1 <= f->x0) f->x1 = f->x0 + 1;
    return true;
}

static double place_x(const frame *f, double x) {
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const frame *f, double y) {
    double value = f->log ? log10(y) : y;
    return HEIGHT - BOTTOM - (value - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

/* A round distance between ticks: 1, 2 or 5 times a power of ten. */
static double tick_of(double span) {
    double raw = span / TICKS, power = pow(10, floor(log10(raw)));
    double part = raw / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void draw_axes(FILE *out, const frame *f) {
    double every = f->log ? fmax(1, floor((f->y1 - f->y0) / TICKS)) : tick_of(f->y1 - f->y0);
    double first = ceil(f->y0 / every) * every;
    for (int i = 0; i < 3 * TICKS && first + i * every <= f->y1; i++) {
        double value = first + i * every, y = place_y(f, f->log ? pow(10, value) : value);
        fprintf(out,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4,
                f->log                      ? pow(10, value)
                : fabs(value) < every / 1e6 ? 0.0
                                            : value);
    }
    every = fmax(1, tick_of(f->x1 - f->x0));
    first = ceil(f->x0 / every) * every;
    for (int i = 0; i < 3 * TICKS && first + i * every <= f->x1; i++) {
        double x = place_x(f, first + i * every);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.7g</text>\n", x,
                HEIGHT - BOTTOM + 16, first + i * every);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">step</text>\n", WIDTH - RIGHT, HEIGHT - 4);
}

static void draw_band(FILE *out, const frame *f, const gw_chart_line *line, uint32_t number) {
    bool wide = false;
    for (uint32_t i = 0; i < line->count && !wide; i++) wide = line->points[i].max > line->points[i].min;
    if (!wide) return;
    fprintf(out, "<path class=\"band c%u\" d=\"", number);
    char letter = 'M';
    for (uint32_t i = 0; i < line->count; i++, letter = 'L')
        fprintf(out, "%c%.1f %.1f", letter, place_x(f, (double)line->points[i].end),
                place_y(f, line->points[i].max));
    for (uint32_t i = line->count; i > 0; i--)
        fprintf(out, "L%.1f %.1f", place_x(f, (double)line->points[i - 1].end),
                place_y(f, line->points[i - 1].min));
    fputs("Z\"/>\n", out);
}

static void draw_line(FILE *out, const frame *f, const gw_chart_line *line, uint32_t number) {
    fprintf(out, "<path class=\"line c%u\" d=\"", number);
    char letter = 'M';
    for (uint32_t i = 0; i < line->count; i++, letter = 'L')
        fprintf(out, "%c%.1f %.1f", letter, place_x(f, (double)line->points[i].end),
                place_y(f, line->points[i].mean));
    fputs("\"/>\n", out);
    /* A few points may be far apart, or only one. */
    for (uint32_t i = 0; line->count <= 40 && i < line->count; i++)
        fprintf(out, "<circle class=\"dot c%u\" r=\"2.5\" cx=\"%.1f\" cy=\"%.1f\"/>\n", number,
                place_x(f, (double)line->points[i].end), place_y(f, line->points[i].mean));
}

static void draw_legend(FILE *out, const frame *f, const char *title, const gw_chart_line *lines,
                        uint32_t count) {
    fputs("<figcaption>", out);
    gw_html_text(out, title);
    if (f->log) fputs(" (logarithmic)", out);
    for (uint32_t i = 0; i < count && count > 1; i++) {
        fprintf(out, " <span class=\"key c%u\"></span>", i);
        gw_html_text(out, lines[i].name);
    }
    fputs("</figcaption>\n", out);
}

bool gw_chart_draw(FILE *out, const char *title, const gw_chart_line *lines, uint32_t count) {
    frame f = {0};
    if (!frame_of(lines, count, &f)) return false;
    fputs("<figure>", out);
    draw_legend(out, &f, title, lines, count);
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    gw_html_text(out, title);
    fputs("\">\n", out);
    draw_axes(out, &f);
    for (uint32_t i = 0; i < count; i++) {
        if (lines[i].count == 0) continue;
        draw_band(out, &f, &lines[i], i);
        draw_line(out, &f, &lines[i], i);
    }
    fputs("</svg></figure>\n", out);
    return true;
}
