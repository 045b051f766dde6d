#include "tools/godwit/top/frame.h"

#include "core/base/assert.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/top/account.h"
#include "tools/godwit/top/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROWS = 10, LEAST_COLS = 40, PEERS_MOST = 4096, COLUMNS_MOST = 1024 };

/* The first lines. */

static void draw_bar(gw_canvas *canvas, int row, int col, int width, double part) {
    if (!isfinite(part)) return;
    int full = (int)(part * width + 0.5);
    gw_canvas_put(canvas, row, col, canvas->cols, GW_STYLE_PLAIN, "[");
    for (int i = 0; i < width; i++)
        gw_canvas_put(canvas, row, col + 1 + i, canvas->cols, GW_STYLE_PLAIN, i < full ? "=" : " ");
    gw_canvas_put(canvas, row, col + 1 + width, canvas->cols, GW_STYLE_PLAIN, "]");
}

/* The parts of the line about steps. */
enum { DONE, BAR, PERCENT, LEFT, MS, SHARDS_A_S, TOKENS, PARTS, BAR_COLS = 16 };

/* Writes the line about steps; a narrow screen gives up the bar first, and then what can be read elsewhere. */
static void draw_steps(const json_t *s, gw_canvas *canvas) {
    static const int given_up_first[] = {BAR, TOKENS, SHARDS_A_S, MS, PERCENT};
    char part[PARTS][60] = {"", "", "", "", "", "", ""}, number[GW_TOP_VALUE];
    double done = gw_top_number(s, "step"), all = gw_top_number(s, "steps"), ms = gw_top_number(s, "step_ms");
    double tokens = gw_top_number(s, "tokens_per_s");
    bool ends = isfinite(all) && all > 0;
    snprintf(part[DONE], sizeof part[0], isfinite(done) ? "step %.0f" : "step -", done);
    size_t used = strlen(part[DONE]);
    if (ends) {
        snprintf(part[DONE] + used, sizeof part[0] - used, "/%.0f", all);
        snprintf(part[BAR], sizeof part[0], "%*s", BAR_COLS + 2, "");
        snprintf(part[PERCENT], sizeof part[0], "%.1f %%", 100 * done / all);
        snprintf(part[LEFT], sizeof part[0], "%s left", gw_top_duration((all - done) * ms / 1000, number));
    }
    snprintf(part[MS], sizeof part[0], "%.3g ms/step", ms);
    snprintf(part[SHARDS_A_S], sizeof part[0], "%s shards/s",
             gw_top_count(gw_top_number(s, "shards_per_s"), number));
    if (isfinite(tokens)) snprintf(part[TOKENS], sizeof part[0], "%s tok/s", gw_top_count(tokens, number));
    int width = -2, col = 0;
    for (int i = 0; i < PARTS; i++) width += part[i][0] != '\0' ? 2 + gw_canvas_width(part[i]) : 0;
    for (size_t i = 0; i < sizeof given_up_first / sizeof given_up_first[0] && width > canvas->cols; i++) {
        char *given_up = part[given_up_first[i]];
        width -= given_up[0] != '\0' ? 2 + gw_canvas_width(given_up) : 0;
        given_up[0] = '\0';
    }
    for (int i = 0; i < PARTS; i++) {
        if (part[i][0] == '\0') continue;
        if (i == BAR)
            draw_bar(canvas, 2, col, BAR_COLS, done / all);
        else
            gw_canvas_put(canvas, 2, col, canvas->cols, GW_STYLE_PLAIN, part[i]);
        col += gw_canvas_width(part[i]) + 2;
    }
}

static void draw_head(const gw_top_frame *f, gw_canvas *canvas) {
    const json_t *s = f->status;
    char report[200], brief[200], text[700];
    const char *leader = gw_top_text(s, gw_top_text(s, "leader_name")[0] != '\0' ? "leader_name" : "leader");
    int cols = canvas->cols;
    int col = gw_canvas_print(canvas, 0, 0, cols, GW_STYLE_BOLD, "godwit %s", gw_top_text(s, "job"));
    snprintf(text, sizeof text, "  job %.8s  view %.0f: %.0f member%s, leader %.200s",
             gw_top_text(s, "job_id"), gw_top_number(s, "view_number"), gw_top_number(s, "members"),
             gw_top_number(s, "members") == 1 ? "" : "s", leader);
    gw_canvas_fit(canvas, 0, col, cols, GW_STYLE_PLAIN, text, f->ascii);
    gw_style state = gw_top_flag(s, "healthy") ? GW_STYLE_GOOD : GW_STYLE_WARN;
    gw_json_report_text(json_object_get(s, "report"), report, sizeof report);
    gw_key_values_brief(report, brief, sizeof brief);
    if (f->ending != NULL)
        snprintf(text, sizeof text, "%s %s", f->ended_well ? "=" : "!", f->ending);
    else if (f->trouble != NULL)
        snprintf(text, sizeof text, "! %s", f->trouble);
    else
        snprintf(text, sizeof text, "%s %.400s%s%s", gw_top_flag(s, "healthy") ? "+" : "!",
                 gw_top_text(s, "phase"), brief[0] != '\0' ? "; " : "", brief);
    if (f->ending != NULL)
        state = f->ended_well ? GW_STYLE_GOOD : GW_STYLE_WARN;
    else if (f->trouble != NULL)
        state = GW_STYLE_BAD;
    gw_canvas_fit(canvas, 1, 0, cols, state, text, f->ascii);
    draw_steps(s, canvas);
}

/* The curve. */

void gw_top_choose_curve(gw_top_frame *f, int step) {
    const json_t *names = json_object_get(f->series, "names");
    size_t count = json_array_size(names), at = count, loss = count;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name == NULL) continue;
        if (strcmp(name, f->curve) == 0) at = i;
        if (strcmp(name, "train/loss") == 0) loss = i;
    }
    if (count == 0) return;
    if (at == count)
        at = loss < count ? loss : 0;
    else
        at = (at + count + (size_t)(step + (int)count)) % count;
    const char *name = json_string_value(json_array_get(names, at));
    snprintf(f->curve, sizeof f->curve, "%s", name != NULL ? name : "");
}

/* The columns of a picture, from points over ranges of steps. */
typedef struct columns {
    double low[COLUMNS_MOST], high[COLUMNS_MOST];
    uint32_t count;
    double least, most, last;
    double first_step, last_step;
} columns;

static double at(const json_t *list, size_t index) {
    const json_t *value = json_array_get(list, index);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double scaled(double value, bool logarithmic) {
    return !logarithmic ? value : value > 0 ? log10(value) : (double)NAN;
}

static void widen(columns *c, uint32_t x, double low, double high) {
    if (!isfinite(low) || !isfinite(high)) return;
    c->low[x] = isfinite(c->low[x]) && c->low[x] < low ? c->low[x] : low;
    c->high[x] = isfinite(c->high[x]) && c->high[x] > high ? c->high[x] : high;
    c->least = isfinite(c->least) && c->least < low ? c->least : low;
    c->most = isfinite(c->most) && c->most > high ? c->most : high;
}

static bool read_columns(const gw_top_frame *f, uint32_t count, columns *c) {
    const json_t *one = json_object_get(json_object_get(f->series, "series"), f->curve);
    const json_t *begin = json_object_get(one, "begin"), *last = json_object_get(one, "last");
    const json_t *low = json_object_get(one, "min"), *high = json_object_get(one, "max");
    size_t points = json_array_size(begin);
    if (points == 0) return false;
    *c = (columns){.count = count < COLUMNS_MOST ? count : COLUMNS_MOST,
                   .least = (double)NAN,
                   .most = (double)NAN,
                   .last = at(last, points - 1),
                   .first_step = at(begin, 0),
                   .last_step = at(begin, points - 1)};
    for (uint32_t x = 0; x < c->count; x++) c->low[x] = c->high[x] = (double)NAN;
    double span = c->last_step - c->first_step;
    for (size_t i = 0; i < points; i++) {
        double x = span > 0 ? (at(begin, i) - c->first_step) / span * (c->count - 1) : c->count - 1;
        if (!isfinite(x) || x < 0 || x > c->count - 1) continue;
        double least = low != NULL ? at(low, i) : at(last, i),
               most = high != NULL ? at(high, i) : at(last, i);
        widen(c, (uint32_t)x, scaled(least, f->logarithmic), scaled(most, f->logarithmic));
    }
    return isfinite(c->least);
}

/* Writes the keys of a part of the screen behind its title, where there is room. */
static void put_hint(gw_canvas *canvas, int row, int col, const char *hint) {
    if (col + gw_canvas_width(hint) <= canvas->cols)
        gw_canvas_put(canvas, row, col, canvas->cols, GW_STYLE_PLAIN, hint);
}

static void draw_curve(const gw_top_frame *f, gw_canvas *canvas, int row, int height) {
    enum { LABEL = 11 };
    columns *c = malloc(sizeof *c);
    GW_ASSERT_MEMORY(c != NULL);
    int cols = canvas->cols, width = cols - LABEL;
    char text[32];
    if (!read_columns(f, (uint32_t)(width * (f->ascii ? 1 : 2)), c)) {
        gw_canvas_print(canvas, row, 0, cols, GW_STYLE_DIM, "no numbers of %s yet",
                        f->curve[0] != '\0' ? f->curve : "the job");
        free(c);
        return;
    }
    int col = gw_canvas_print(canvas, row, 0, cols, GW_STYLE_TITLE, "%s", f->curve);
    col = gw_canvas_print(canvas, row, col, cols, GW_STYLE_PLAIN, " = %.5g, steps %.0f to %.0f%s", c->last,
                          c->first_step, c->last_step, f->logarithmic ? ", logarithmic" : "");
    put_hint(canvas, row, col, "   ([ ] other, g scale)");
    for (int i = 0; i < 2; i++) {
        double value = i == 0 ? c->most : c->least;
        snprintf(text, sizeof text, "%*.*g", LABEL - 1, 5, f->logarithmic ? pow(10, value) : value);
        gw_canvas_put(canvas, i == 0 ? row + 1 : row + height - 1, 0, LABEL, GW_STYLE_DIM, text);
    }
    const gw_canvas_curve curve = {c->low, c->high, c->count, c->least, c->most};
    gw_canvas_draw(canvas, row + 1, LABEL, height - 1, width, &curve, f->ascii);
    free(c);
}

/* The peers. */

typedef struct line {
    const json_t *peer, *card;
} line;

static double key_of(const line *one, gw_top_sort sort) {
    bool gone = gw_top_is_gone(one->peer);
    switch (sort) {
    case GW_TOP_BY_SPEED:
        return gone ? (double)NAN : gw_top_number(one->peer, "shards_per_s");
    case GW_TOP_BY_SHARDS:
        return gw_top_number(one->card, "shards");
    case GW_TOP_BY_STOLEN:
        return gw_top_number(one->card, "shards_stolen");
    case GW_TOP_BY_MEMORY:
        return gone ? (double)NAN : gw_top_number(one->card, "rss_bytes");
    case GW_TOP_BY_GPU:
        return gone ? (double)NAN : gw_top_number(one->card, "gpu_utilization");
    case GW_TOP_BY_WATTS:
        return gone ? (double)NAN : gw_top_number(one->card, "watts");
    case GW_TOP_BY_NAME:
    case GW_TOP_SORTS:
        break;
    }
    return 0;
}

/* Whether `a` comes before `b`: with higher numbers first, what is not known last, and else by name and id. */
static bool is_before(const line *a, const line *b, gw_top_sort sort) {
    double x = key_of(a, sort), y = key_of(b, sort);
    if (!isfinite(x)) x = -1;
    if (!isfinite(y)) y = -1;
    if (x > y || x < y) return x > y;
    int order = strcmp(gw_top_text(a->peer, "name"), gw_top_text(b->peer, "name"));
    return order != 0 ? order < 0 : strcmp(gw_top_text(a->peer, "id"), gw_top_text(b->peer, "id")) < 0;
}

/* The peers in order, which the caller frees. */
static line *sorted_peers(const gw_top_frame *f, int *count) {
    const json_t *peers = json_object_get(f->peers, "peers");
    if (peers == NULL) peers = json_object_get(f->status, "peers");
    size_t all = json_array_size(peers);
    if (all > PEERS_MOST) all = PEERS_MOST;
    line *list = calloc(all + 1, sizeof *list);
    GW_ASSERT_MEMORY(list != NULL);
    *count = 0;
    for (size_t i = 0; i < all; i++) {
        const json_t *peer = json_array_get(peers, i);
        line one = {peer, json_object_get(peer, "card")};
        int place = (*count)++;
        for (; place > 0 && is_before(&one, &list[place - 1], f->sort); place--)
            list[place] = list[place - 1];
        list[place] = one;
    }
    return list;
}

/* A column of the table: its title, the least width of a screen that has it, its place and width. */
typedef struct column {
    const char *title;
    int width;
    gw_top_sort sort; /* GW_TOP_SORTS: nothing is sorted by it */
} column;

enum { STATE, PATH, STEP, SPEED, SHARDS, STOLEN, LOST, RUNS, MEMORY, GPU, HEAT, WATTS, SAVED, TABLE };
static const column table[TABLE] = {
    [STATE] = {"STATE", 7, GW_TOP_SORTS},       [PATH] = {"PATH", 4, GW_TOP_SORTS},
    [STEP] = {"STEP", 8, GW_TOP_SORTS},         [SPEED] = {"SHARD/S", 8, GW_TOP_BY_SPEED},
    [SHARDS] = {"SHARDS", 7, GW_TOP_BY_SHARDS}, [STOLEN] = {"STOLEN", 7, GW_TOP_BY_STOLEN},
    [LOST] = {"LOST", 5, GW_TOP_SORTS},         [RUNS] = {"RUN", 3, GW_TOP_SORTS},
    [MEMORY] = {"MEM", 5, GW_TOP_BY_MEMORY},    [GPU] = {"GPU", 4, GW_TOP_BY_GPU},
    [HEAT] = {"TEMP", 4, GW_TOP_SORTS},         [WATTS] = {"WATT", 5, GW_TOP_BY_WATTS},
    [SAVED] = {"SAVED", 7, GW_TOP_SORTS},
};
/* Columns in the order in which a narrow screen gives them up. */
static const int given_up[] = {LOST, SAVED, HEAT, STEP, RUNS, WATTS, PATH, GPU, MEMORY, STOLEN, SHARDS};

/* What a peer does or uses now is not known where it is gone. */
static void cell_text(const line *one, int which, char text[GW_TOP_VALUE]) {
    const json_t *p = one->peer, *c = one->card;
    double value;
    bool of_now =
        which == SPEED || which == RUNS || which == MEMORY || which == GPU || which == HEAT || which == WATTS;
    if (of_now && gw_top_is_gone(p)) {
        memcpy(text, "-", sizeof "-");
        return;
    }
    switch (which) {
    case STATE:
        snprintf(text, GW_TOP_VALUE, "%s",
                 gw_top_flag(p, "leader")   ? "leads"
                 : gw_top_flag(p, "member") ? "member"
                                            : gw_top_text(p, "state"));
        if (strcmp(gw_top_text(p, "state"), "alive") != 0)
            snprintf(text, GW_TOP_VALUE, "%s", gw_top_text(p, "state"));
        break;
    case PATH:
        snprintf(text, GW_TOP_VALUE, "%s",
                 gw_top_flag(p, "self")              ? "here"
                 : gw_top_text(p, "path")[0] != '\0' ? gw_top_text(p, "path")
                                                     : "-");
        break;
    case STEP:
        gw_top_count(gw_top_number(p, "step"), text);
        break;
    case SPEED:
        gw_top_count(gw_top_number(p, "shards_per_s"), text);
        break;
    case SHARDS:
        gw_top_count(gw_top_number(c, "shards"), text);
        break;
    case STOLEN:
        gw_top_count(gw_top_number(c, "shards_stolen"), text);
        break;
    case LOST:
        gw_top_count(gw_top_number(c, "shards_lost"), text);
        break;
    case RUNS:
        gw_top_count(gw_top_number(c, "shards_in_flight"), text);
        break;
    case MEMORY:
        gw_top_bytes(gw_top_number(c, "rss_bytes"), text);
        break;
    case GPU:
        value = gw_top_number(c, "gpu_utilization");
        memcpy(text, "-", sizeof "-");
        if (isfinite(value)) snprintf(text, GW_TOP_VALUE, "%.0f%%", 100 * value);
        break;
    case HEAT:
        value = gw_top_number(c, "gpu_temperature_c");
        memcpy(text, "-", sizeof "-");
        if (isfinite(value)) snprintf(text, GW_TOP_VALUE, "%.0fC", value);
        break;
    case WATTS:
        gw_top_count(gw_top_number(c, "watts"), text);
        break;
    default:
        gw_top_count(gw_top_number(p, "checkpoint_step"), text);
        break;
    }
}

/* Marks the columns for which there is room beside names of NAME columns. */
static void choose_columns(int cols, int name, bool shown[TABLE]) {
    int needed = name;
    for (int i = 0; i < TABLE; i++) {
        shown[i] = true;
        needed += 1 + table[i].width;
    }
    for (size_t i = 0; i < sizeof given_up / sizeof given_up[0] && needed > cols; i++) {
        shown[given_up[i]] = false;
        needed -= 1 + table[given_up[i]].width;
    }
}

static gw_style style_of(const line *one) {
    const char *state = gw_top_text(one->peer, "state");
    if (strcmp(state, "dead") == 0 || strcmp(state, "unreachable") == 0) return GW_STYLE_BAD;
    if (strcmp(state, "suspect") == 0) return GW_STYLE_WARN;
    if (strcmp(state, "left") == 0 || !gw_top_flag(one->peer, "member")) return GW_STYLE_DIM;
    bool bad = gw_top_number(one->card, "gpus_bad") > 0 ||
               json_is_false(json_object_get(one->card, "disk_writable"));
    return bad ? GW_STYLE_WARN : GW_STYLE_PLAIN;
}

static void draw_peers(gw_top_frame *f, gw_canvas *canvas, int row, int height) {
    int count, name = canvas->cols < 60 ? 12 : 18, cols = canvas->cols;
    bool shown[TABLE];
    char text[GW_TOP_VALUE];
    line *list = sorted_peers(f, &count);
    choose_columns(cols, name, shown);
    if (f->chosen >= count) f->chosen = count - 1;
    if (f->chosen < 0) f->chosen = 0;
    int first = f->chosen >= height - 1 ? f->chosen - (height - 2) : 0;
    gw_canvas_print(canvas, row, 0, cols, GW_STYLE_TITLE, "PEER (%d)%s", count,
                    f->sort == GW_TOP_BY_NAME ? "*" : "");
    for (int i = 0, col = name; i < TABLE; i++) {
        if (!shown[i]) continue;
        bool sorted = table[i].sort == f->sort;
        snprintf(text, sizeof text, "%s%s", table[i].title, sorted ? "*" : "");
        gw_canvas_print(canvas, row, col, cols, GW_STYLE_TITLE, " %*s", table[i].width, text);
        col += 1 + table[i].width;
    }
    for (int n = 0; n < height - 1 && first + n < count; n++) {
        const line *one = &list[first + n];
        int at_row = row + 1 + n;
        const char *called = gw_top_text(one->peer, "name");
        gw_style style = style_of(one);
        gw_canvas_fit(canvas, at_row, 0, name, style,
                      called[0] != '\0' ? called : gw_top_text(one->peer, "id"), f->ascii);
        for (int i = 0, col = name; i < TABLE; i++) {
            if (!shown[i]) continue;
            cell_text(one, i, text);
            gw_canvas_print(canvas, at_row, col, col + 1 + table[i].width, style, " %*.*s", table[i].width,
                            table[i].width, text);
            col += 1 + table[i].width;
        }
        if (first + n == f->chosen) gw_canvas_style(canvas, at_row, GW_STYLE_CHOSEN);
    }
    free(list);
}

static void draw_peer(gw_top_frame *f, gw_canvas *canvas, int row, int height) {
    int count;
    line *list = sorted_peers(f, &count);
    if (f->chosen >= count) f->chosen = count - 1;
    if (f->chosen < 0) f->chosen = 0;
    if (count > 0) gw_top_account(f, list[f->chosen].peer, list[f->chosen].card, canvas, row, height);
    free(list);
}

/* Log and events. */

/* A line of the log or of the events, in its parts. */
typedef struct entry {
    char clock[GW_TOP_VALUE], tag[40], text[1000];
    gw_style tag_style, style;
} entry;

static void read_log_line(const json_t *one, entry *e) {
    const char *level = gw_top_text(one, "level");
    bool bad = strcmp(level, "error") == 0, warns = strcmp(level, "warn") == 0;
    gw_top_clock(gw_top_number(one, "time"), e->clock);
    e->tag_style = GW_STYLE_BOLD;
    e->style = bad ? GW_STYLE_BAD : warns ? GW_STYLE_WARN : GW_STYLE_PLAIN;
    snprintf(e->tag, sizeof e->tag, "%s", bad || warns ? level : "");
    snprintf(e->text, sizeof e->text, "%s", gw_top_text(one, "text"));
}

/* What is shown of an event, in this order; of others, all that has a place in a line. */
static const struct {
    const char *kind;
    const char *keys[8];
} shown_keys[] = {
    {"view", {"number", "leader_name", "leader", "step", "cause", "took_ms"}},
    {"peer", {"peer_name", "peer", "state", "address", "evidence"}},
    {"log", {"text"}},
    {"warning", {"text"}},
    {"error", {"text"}},
    {"phase", {"text"}},
    {"progress", {"step", "members", "ms", "computed", "stolen", "lost"}},
    {"checkpoint", {"step", "took_ms", "bytes"}},
    {"life", {"version", "pid", "last_text"}},
    {"opening", {"job", "device", "workers"}},
    {"start", {"job", "job_id", "workers"}},
    {"repair", {"step", "shards", "cause"}},
    {"join", {"step", "newcomers", "pause_ms"}},
    {"done", {"outcome", "text", "steps", "state"}},
};

static void add_value(entry *e, const char *key, const json_t *value) {
    char text[400];
    if (value == NULL || !gw_top_value(value, text, sizeof text)) return;
    bool bare = strcmp(key, "text") == 0;
    size_t used = strlen(e->text);
    snprintf(e->text + used, sizeof e->text - used, "%s%s%s%s", used > 0 ? " " : "", bare ? "" : key,
             bare ? "" : "=", text);
}

static void read_event(const json_t *one, entry *e) {
    const char *kind = gw_top_text(one, "event"), *key;
    json_t *value;
    bool bad = strcmp(kind, "error") == 0 || strcmp(kind, "corruption") == 0;
    gw_top_clock(gw_top_number(one, "time"), e->clock);
    e->tag_style = bad ? GW_STYLE_BAD : GW_STYLE_BOLD;
    e->style = GW_STYLE_PLAIN;
    snprintf(e->tag, sizeof e->tag, "%s", kind);
    e->text[0] = '\0';
    for (size_t i = 0; i < sizeof shown_keys / sizeof shown_keys[0]; i++) {
        if (strcmp(shown_keys[i].kind, kind) != 0) continue;
        for (int k = 0; k < 8 && shown_keys[i].keys[k] != NULL; k++)
            add_value(e, shown_keys[i].keys[k], json_object_get(one, shown_keys[i].keys[k]));
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)one, key, value) {
        if (strcmp(key, "event") != 0 && strcmp(key, "time") != 0 && strcmp(key, "number") != 0)
            add_value(e, key, value);
    }
}

static void read_entry(const json_t *one, bool event, entry *e) {
    if (event)
        read_event(one, e);
    else
        read_log_line(one, e);
}

enum { CLOCK_COLS = 9 /* of a time and the blank behind it */ };

static int tag_end(const entry *e) {
    return CLOCK_COLS + (e->tag[0] != '\0' ? gw_canvas_width(e->tag) + 1 : 0);
}

/* Draws the newest lines that fit, the newest one last. Long ones take several rows: on the first screen two. */
static void draw_lines(const gw_top_frame *f, gw_canvas *canvas, int row, int height, bool events) {
    const json_t *list = json_object_get(events ? f->events : f->log, events ? "events" : "lines");
    bool brief = f->mode == GW_TOP_ALL;
    size_t count = json_array_size(list), back = brief || f->scroll < 0 ? 0 : (size_t)f->scroll;
    entry e;
    if (height < 2) return;
    if (back > count) back = count;
    gw_canvas_print(canvas, row, 0, canvas->cols, GW_STYLE_TITLE, "%s%s", events ? "WHAT HAPPENED" : "LOG",
                    back > 0 ? "   (End: the newest)" : "");
    int fits = height - 1, used = 0;
    size_t end = count - back, first = end;
    for (; first > 0 && used < fits; first--) {
        read_entry(json_array_get(list, first - 1), events, &e);
        int rows = gw_canvas_rows(canvas->cols, tag_end(&e), CLOCK_COLS, e.text);
        if (brief && rows > 2) rows = 2;
        if (used > 0 && used + rows > fits) break;
        used += rows;
    }
    int at_row = row + 1, bottom = row + height;
    for (size_t i = first; i < end && at_row < bottom; i++) {
        read_entry(json_array_get(list, i), events, &e);
        int most = brief ? 2 : fits, left = bottom - at_row;
        gw_canvas_put(canvas, at_row, 0, CLOCK_COLS, GW_STYLE_DIM, e.clock);
        gw_canvas_put(canvas, at_row, CLOCK_COLS, canvas->cols, e.tag_style, e.tag);
        at_row += gw_canvas_wrap(canvas, at_row, tag_end(&e), CLOCK_COLS, most < left ? most : left, e.style,
                                 e.text, f->ascii);
    }
    if (count == 0) gw_canvas_put(canvas, row + 1, 0, canvas->cols, GW_STYLE_DIM, "nothing yet");
}

static void draw_help(gw_canvas *canvas, int row) {
    static const char *const lines[] = {
        "q  Ctrl-C        end (the job goes on)",
        "up  down         choose a peer             Enter     look at it      Esc  back",
        "s  S             sort by the next column, the one before; * marks it",
        "[  ]             another curve             g         linear or logarithmic",
        "l                the log                   e         what happened (the journal)",
        "PgUp  PgDn  End  in the log and the events         Ctrl-L    draw all anew",
        "",
        "STATE leads, member, or what the peer is instead; PATH how data go there;",
        "SHARD/S while it computes; STOLEN from others, LOST to others; RUN shards now;",
        "SAVED its newest checkpoint. A number that is not known is a -.",
    };
    gw_canvas_put(canvas, row, 0, canvas->cols, GW_STYLE_TITLE, "KEYS");
    for (int i = 0; i < (int)(sizeof lines / sizeof lines[0]); i++)
        gw_canvas_put(canvas, row + 1 + i, 0, canvas->cols, GW_STYLE_PLAIN, lines[i]);
}

/* The whole. */

static void draw_all(gw_top_frame *f, gw_canvas *canvas, int row, int height) {
    int count;
    free(sorted_peers(f, &count));
    int curve = height >= 14 ? height / 3 : 0, log = height >= 12 ? height / 4 : 0;
    int peers = height - curve - log;
    if (peers > count + 1) { /* what the table does not need goes to the others */
        int spare = peers - (count + 1);
        peers = count + 1;
        if (curve > 0) curve += spare / 2;
        log = height - curve - peers;
    }
    if (curve > 0) draw_curve(f, canvas, row, curve);
    draw_peers(f, canvas, row + curve, peers);
    draw_lines(f, canvas, row + curve + peers, log, false);
}

/* The keys, and the directory where there is room for some of it: its end tells more than its beginning. */
static void draw_foot(const gw_top_frame *f, gw_canvas *canvas) {
    enum { LEAST_DIR = 8 };
    static const char keys[] = "q end  ? keys  Enter peer  s sort  [ ] curve  l log  e events";
    static const char fewer[] = "q end  ? keys  Enter peer  l log";
    int row = canvas->rows - 1, cols = canvas->cols - 1; /* the last place of a terminal stays empty */
    bool wide = gw_canvas_width(keys) <= cols;
    int col = gw_canvas_put(canvas, row, 0, cols, GW_STYLE_DIM, wide ? keys : fewer) + 2, room = cols - col;
    int over = gw_canvas_width(f->dir) - room;
    const char *dir = f->dir, *mark = f->ascii ? "..." : "\u2026";
    if (over > 0) {
        if (room < LEAST_DIR) return;
        col = gw_canvas_put(canvas, row, col, cols, GW_STYLE_DIM, mark);
        dir = gw_canvas_after(dir, over + gw_canvas_width(mark));
    }
    gw_canvas_put(canvas, row, col, cols, GW_STYLE_DIM, dir);
}

void gw_top_draw(gw_top_frame *f, gw_canvas *canvas) {
    int row = 3, height = canvas->rows - row - 1;
    if (canvas->rows < LEAST_ROWS || canvas->cols < LEAST_COLS) {
        gw_canvas_print(canvas, 0, 0, canvas->cols, GW_STYLE_WARN, "at least %d x %d", LEAST_COLS,
                        LEAST_ROWS);
        return;
    }
    if (f->curve[0] == '\0') gw_top_choose_curve(f, 0);
    draw_head(f, canvas);
    switch (f->mode) {
    case GW_TOP_ALL:
        draw_all(f, canvas, row, height);
        break;
    case GW_TOP_PEER:
        draw_peer(f, canvas, row, height);
        break;
    case GW_TOP_LOG:
    case GW_TOP_EVENTS:
        draw_lines(f, canvas, row, height, f->mode == GW_TOP_EVENTS);
        break;
    case GW_TOP_HELP:
        draw_help(canvas, row);
        break;
    }
    draw_foot(f, canvas);
}
