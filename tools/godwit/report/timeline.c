#include "tools/godwit/report/inside.h"

#include "tools/godwit/report/html.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 960, LEFT = 150, RIGHT = 20, ROW = 22, TOP = 8, BOTTOM = 26, TICKS = 4 };
/* Peers, lives and marks that are drawn at the most: beyond that, a page could not be read. */
enum { ROWS = 64, LIVES = 2000, MARKS = 1500 };

typedef struct picture {
    const gw_why_record *record;
    FILE *out;
    int row[GW_WHY_PEERS]; /* -1: the peer has none */
    int rows;
    double from, to;
} picture;

static double place(const picture *p, double time) {
    double part = (time - p->from) / (p->to - p->from);
    return LEFT + (part < 0 ? 0 : part > 1 ? 1 : part) * (WIDTH - LEFT - RIGHT);
}

static double row_top(int row) {
    return TOP + row * ROW;
}

static void draw_names(const picture *p) {
    char name[GW_WHY_CALLED];
    for (int peer = 0; peer < p->record->peer_count; peer++) {
        if (p->row[peer] < 0) continue;
        fprintf(p->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 8,
                row_top(p->row[peer]) + 15);
        gw_html_printf(p->out, "%.22s", gw_why_called(p->record, peer, name));
        fputs("</text>\n", p->out);
    }
}

/* When a life ended: a journal may have said nothing for a while before a death that others saw. */
static double end_of(const picture *p, const gw_findings *findings, const gw_why_life *life) {
    double end = life->last;
    if (life->next == 0 && life->end[0] == '\0') return end;
    for (size_t i = 0; i < findings->count; i++) {
        const gw_finding *one = &findings->list[i];
        if (strcmp(one->kind, "death") == 0 && gw_why_set_has(&one->peers, life->peer) && one->from > end &&
            (life->next == 0 || one->from < life->next))
            end = one->from;
    }
    return end < p->to ? end : p->to;
}

static void draw_lives(const picture *p, const gw_findings *findings) {
    char from[GW_WHY_WHEN], to[GW_WHY_WHEN];
    for (size_t i = 0, drawn = 0; i < p->record->life_count && drawn < LIVES; i++) {
        const gw_why_life *life = &p->record->lives[i];
        if (life->peer == GW_WHY_NONE || p->row[life->peer] < 0) continue;
        double end = end_of(p, findings, life), x = place(p, life->began), width = place(p, end) - x;
        fprintf(p->out, "<rect class=\"life\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"><title>", x,
                row_top(p->row[life->peer]) + 4, width > 1 ? width : 1, ROW - 8);
        gw_html_printf(p->out, "ran from %s to %s", gw_why_when(life->began, true, from),
                       gw_why_when(end, true, to));
        fputs("</title></rect>\n", p->out);
        drawn++;
    }
}

static const char *class_of(const char *kind) {
    static const struct {
        const char *kind, *class;
    } table[] = {{"death", "bad"},  {"all-ended", "bad"}, {"corruption", "bad"}, {"worker", "warn"},
                 {"stall", "warn"}, {"slow", "warn"},     {"disk", "warn"},      {"device", "warn"},
                 {"limit", "warn"}, {"cut", "net"},       {"network", "net"},    {"unreachable", "net"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(kind, table[i].kind) == 0) return table[i].class;
    return "note";
}

static void draw_mark(const picture *p, const gw_finding *finding, int row) {
    char when[GW_WHY_WHEN];
    double x = place(p, finding->from), width = place(p, finding->to) - x;
    fprintf(p->out, "<rect class=\"mark %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"><title>",
            class_of(finding->kind), x - 1.5, row_top(row) + 1, width > 3 ? width : 3, ROW - 2);
    gw_html_printf(p->out, "%s %s: %.300s", gw_why_when(finding->from, true, when), finding->kind,
                   finding->text);
    fputs("</title></rect>\n", p->out);
}

static void draw_marks(const picture *p, const gw_findings *findings) {
    size_t drawn = 0;
    for (size_t i = findings->count; i > 0 && drawn < MARKS; i--) {
        const gw_finding *finding = &findings->list[i - 1];
        if (finding->pattern) continue;
        for (int peer = gw_why_set_next(&finding->peers, 0); peer != GW_WHY_NONE && drawn < MARKS;
             peer = gw_why_set_next(&finding->peers, peer + 1)) {
            if (p->row[peer] < 0) continue;
            draw_mark(p, finding, p->row[peer]);
            drawn++;
        }
    }
}

static void draw_times(const picture *p) {
    enum { DAY = 10, HOUR = 16 }; /* "Tue 25 Nov", "Tue 25 Nov 14:33" */
    char when[GW_WHY_WHEN];
    bool days = p->to - p->from > 86400;
    for (int i = 0; i <= TICKS; i++) {
        double time = p->from + (p->to - p->from) * i / TICKS;
        gw_why_when(time, true, when);
        fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.*s</text>\n", place(p, time),
                row_top(p->rows) + 18,
                i == 0       ? "start"
                : i == TICKS ? "end"
                             : "middle",
                days ? HOUR : GW_WHY_WHEN, days ? when : when + DAY + 1);
    }
}

void gw_report_timeline(const gw_report_sources *sources, FILE *out) {
    const gw_why_record *record = sources->record;
    picture *p = calloc(1, sizeof *p);
    fputs("<h2 id=\"timeline\">Timeline</h2>\n", out);
    if (p == NULL) return;
    *p = (picture){.record = record, .out = out, .from = record->first, .to = record->last};
    if (p->to <= p->from) p->to = p->from + 1;
    for (int peer = 0; peer < GW_WHY_PEERS; peer++) p->row[peer] = -1;
    for (int peer = 0; peer < record->peer_count && p->rows < ROWS; peer++) p->row[peer] = p->rows++;
    fprintf(out, "<div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Timeline\">\n",
            WIDTH, TOP + p->rows * ROW + BOTTOM);
    draw_names(p);
    draw_lives(p, sources->findings);
    draw_marks(p, sources->findings);
    draw_times(p);
    fputs("</svg></div>\n<p class=\"keys\"><span class=\"key k-bad\"></span>ended or corrupt "
          "<span class=\"key k-warn\"></span>trouble <span class=\"key k-net\"></span>network "
          "<span class=\"key k-note\"></span>other</p>\n",
          out);
    free(p);
}
