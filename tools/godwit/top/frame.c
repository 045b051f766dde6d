#include "tools/godwit/top/frame.h"

#include "core/base/assert.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/key_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEAST_ROWS = 10, LEAST_COLS = 40, PEERS_MOST = 4096, COLUMNS_MOST = 1024 };

/* Members of objects. */

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* NAN where there is no number. */
static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool flag_of(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

/* Numbers in words. */

/* "-", "7", "412", "18.3k", "2.04M". */
static const char *count_text(double value, char text[24]) {
    static const struct {
        double from;
        const char *unit;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
    if (!isfinite(value)) return strcpy(text, "-");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (value < units[i].from) continue;
        double scaled = value / (units[i].from == 1e4 ? 1e3 : units[i].from);
        snprintf(text, 24, "%.*f%s", scaled < 10 ? 2 : scaled < 100 ? 1 : 0, scaled, units[i].unit);
        return text;
    }
    snprintf(text, 24, value < 100 && value != floor(value) ? "%.1f" : "%.0f", value);
    return text;
}

static const char *bytes_text(double value, char text[24]) {
    if (!isfinite(value)) return strcpy(text, "-");
    double mib = value / 1048576;
    snprintf(text, 24, mib < 1024 ? "%.0fM" : "%.1fG", mib < 1024 ? mib : mib / 1024);
    return text;
}

static const char *duration_text(double seconds, char text[24]) {
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e10) return strcpy(text, "-");
    if (seconds < 60)
        snprintf(text, 24, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(text, 24, "%.0f min", seconds / 60);
    else if (seconds < 86400)
        snprintf(text, 24, "%d h %02d min", (int)(seconds / 3600), (int)(seconds / 60) % 60);
    else
        snprintf(text, 24, "%.1f days", seconds / 86400);
    return text;
}

static const char *clock_text(double time_s, char text[24]) {
    time_t seconds = isfinite(time_s) && time_s > 0 && time_s < 1e11 ? (time_t)time_s : 0;
    struct tm local;
    if (seconds == 0 || localtime_r(&seconds, &local) == NULL || strftime(text, 24, "%H:%M:%S", &local) == 0)
        strcpy(text, "--:--:--");
    return text;
}

/* The first lines. */

static void draw_bar(gw_canvas *canvas, int row, int col, int width, double part) {
    if (!isfinite(part)) return;
    int full = (int)(part * width + 0.5);
    gw_canvas_put(canvas, row, col, canvas->cols, GW_STYLE_PLAIN, "[");
    for (int i = 0; i < width; i++)
        gw_canvas_put(canvas, row, col + 1 + i, canvas->cols, GW_STYLE_PLAIN, i < full ? "=" : " ");
    gw_canvas_put(canvas, row, col + 1 + width, canvas->cols, GW_STYLE_PLAIN, "]");
}

static void draw_head(const gw_top_frame *f, gw_canvas *canvas) {
    const json_t *s = f->status;
    char step[24], steps[24], speed[24], left[24], shards[24], tokens[40] = "", report[200], brief[200];
    double done = number_of(s, "step"), all = number_of(s, "steps"), ms = number_of(s, "step_ms");
    int cols = canvas->cols;
    int col = gw_canvas_print(canvas, 0, 0, cols, GW_STYLE_BOLD, "godwit %s", text_of(s, "job"));
    col = gw_canvas_print(
        canvas, 0, col, cols, GW_STYLE_PLAIN, "  job %.8s  view %.0f: %.0f member%s, leader %s",
        text_of(s, "job_id"), number_of(s, "view_number"), number_of(s, "members"),
        number_of(s, "members") == 1 ? "" : "s",
        text_of(s, "leader_name")[0] != '\0' ? text_of(s, "leader_name") : text_of(s, "leader"));
    gw_style state = flag_of(s, "healthy") ? GW_STYLE_GOOD : GW_STYLE_WARN;
    gw_json_report_text(json_object_get(s, "report"), report, sizeof report);
    gw_key_values_brief(report, brief, sizeof brief);
    if (f->trouble != NULL)
        gw_canvas_print(canvas, 1, 0, cols, GW_STYLE_BAD, "! %s", f->trouble);
    else
        gw_canvas_print(canvas, 1, 0, cols, state, "%s %s%s%s", flag_of(s, "healthy") ? "+" : "!",
                        text_of(s, "phase"), brief[0] != '\0' ? "; " : "", brief);
    bool ends = isfinite(all) && all > 0;
    col = gw_canvas_print(canvas, 2, 0, cols, GW_STYLE_PLAIN, "step %s%s%s ",
                          isfinite(done) ? (snprintf(step, sizeof step, "%.0f", done), step) : "-",
                          ends ? "/" : "", ends ? (snprintf(steps, sizeof steps, "%.0f", all), steps) : "");
    if (ends && cols >= 70) {
        draw_bar(canvas, 2, col, 16, done / all);
        col = gw_canvas_print(canvas, 2, col + 19, cols, GW_STYLE_PLAIN, "%.1f %% ", 100 * done / all);
    }
    if (isfinite(number_of(s, "tokens_per_s")))
        snprintf(tokens, sizeof tokens, "  %s tok/s", count_text(number_of(s, "tokens_per_s"), speed));
    if (ends)
        col = gw_canvas_print(canvas, 2, col, cols, GW_STYLE_PLAIN, " %s left ",
                              duration_text((all - done) * ms / 1000, left));
    gw_canvas_print(canvas, 2, col, cols, GW_STYLE_PLAIN, " %.3g ms/step  %s shards/s%s", ms,
                    count_text(number_of(s, "shards_per_s"), shards), tokens);
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
    gw_canvas_print(canvas, row, col, cols, GW_STYLE_PLAIN,
                    " = %.5g, steps %.0f to %.0f%s   ([ ] other, g scale)", c->last, c->first_step,
                    c->last_step, f->logarithmic ? ", logarithmic" : "");
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
    switch (sort) {
    case GW_TOP_BY_SPEED:
        return number_of(one->peer, "shards_per_s");
    case GW_TOP_BY_SHARDS:
        return number_of(one->card, "shards");
    case GW_TOP_BY_STOLEN:
        return number_of(one->card, "shards_stolen");
    case GW_TOP_BY_MEMORY:
        return number_of(one->card, "rss_bytes");
    case GW_TOP_BY_GPU:
        return number_of(one->card, "gpu_utilization");
    case GW_TOP_BY_WATTS:
        return number_of(one->card, "watts");
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
    int order = strcmp(text_of(a->peer, "name"), text_of(b->peer, "name"));
    return order != 0 ? order < 0 : strcmp(text_of(a->peer, "id"), text_of(b->peer, "id")) < 0;
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

static void cell_text(const line *one, int which, char text[24]) {
    const json_t *p = one->peer, *c = one->card;
    double value;
    switch (which) {
    case STATE:
        snprintf(text, 24, "%s",
                 flag_of(p, "leader")   ? "leads"
                 : flag_of(p, "member") ? "member"
                                        : text_of(p, "state"));
        if (strcmp(text_of(p, "state"), "alive") != 0) snprintf(text, 24, "%s", text_of(p, "state"));
        break;
    case PATH:
        snprintf(text, 24, "%s",
                 flag_of(p, "self")              ? "here"
                 : text_of(p, "path")[0] != '\0' ? text_of(p, "path")
                                                 : "-");
        break;
    case STEP:
        count_text(number_of(p, "step"), text);
        break;
    case SPEED:
        count_text(number_of(p, "shards_per_s"), text);
        break;
    case SHARDS:
        count_text(number_of(c, "shards"), text);
        break;
    case STOLEN:
        count_text(number_of(c, "shards_stolen"), text);
        break;
    case LOST:
        count_text(number_of(c, "shards_lost"), text);
        break;
    case RUNS:
        count_text(number_of(c, "shards_in_flight"), text);
        break;
    case MEMORY:
        bytes_text(number_of(c, "rss_bytes"), text);
        break;
    case GPU:
        value = number_of(c, "gpu_utilization");
        strcpy(text, "-");
        if (isfinite(value)) snprintf(text, 24, "%.0f%%", 100 * value);
        break;
    case HEAT:
        value = number_of(c, "gpu_temperature_c");
        strcpy(text, "-");
        if (isfinite(value)) snprintf(text, 24, "%.0fC", value);
        break;
    case WATTS:
        count_text(number_of(c, "watts"), text);
        break;
    default:
        count_text(number_of(p, "checkpoint_step"), text);
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
    const char *state = text_of(one->peer, "state");
    if (strcmp(state, "dead") == 0 || strcmp(state, "unreachable") == 0) return GW_STYLE_BAD;
    if (strcmp(state, "suspect") == 0) return GW_STYLE_WARN;
    if (strcmp(state, "left") == 0 || !flag_of(one->peer, "member")) return GW_STYLE_DIM;
    bool bad =
        number_of(one->card, "gpus_bad") > 0 || json_is_false(json_object_get(one->card, "disk_writable"));
    return bad ? GW_STYLE_WARN : GW_STYLE_PLAIN;
}

static void draw_peers(gw_top_frame *f, gw_canvas *canvas, int row, int height) {
    int count, name = canvas->cols < 60 ? 12 : 18, cols = canvas->cols;
    bool shown[TABLE];
    char text[24];
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
        const char *called = text_of(one->peer, "name");
        gw_style style = style_of(one);
        gw_canvas_put(canvas, at_row, 0, name, style, called[0] != '\0' ? called : text_of(one->peer, "id"));
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

/* Writes a value as people read it. Returns false for objects, which have no place in a line. */
static bool value_text(const json_t *value, char *text, size_t size) {
    if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, size, "%.6g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, size, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_null(value))
        snprintf(text, size, "-");
    else
        return false;
    return true;
}

static void draw_peer(gw_top_frame *f, gw_canvas *canvas, int row, int height) {
    enum { KEY_COLS = 23 };
    int count, n = 0, cols = canvas->cols;
    line *list = sorted_peers(f, &count);
    if (f->chosen >= count) f->chosen = count - 1;
    if (f->chosen < 0) f->chosen = 0;
    const char *key;
    json_t *value;
    char text[300];
    const json_t *objects[2] = {NULL, NULL};
    if (count > 0) {
        objects[0] = list[f->chosen].peer;
        objects[1] = list[f->chosen].card;
        gw_canvas_print(canvas, row, 0, cols, GW_STYLE_TITLE, "peer %s   (up and down: others; Esc: back)",
                        text_of(objects[0], "name"));
    }
    size_t all = json_object_size(objects[0]) + json_object_size(objects[1]);
    int fits = height - 1, half = (int)all > fits ? cols / 2 : cols; /* two columns where one has no room */
    for (int i = 0; i < 2; i++) {
        json_object_foreach((json_t *)(uintptr_t)objects[i], key, value) {
            if (!value_text(value, text, sizeof text) || n >= 2 * fits) continue;
            int at_row = row + 1 + n % fits, left = n / fits * half;
            n++;
            gw_canvas_put(canvas, at_row, left, left + KEY_COLS - 1, GW_STYLE_DIM, key);
            gw_canvas_put(canvas, at_row, left + KEY_COLS, left + half - 1, GW_STYLE_PLAIN, text);
        }
    }
    free(list);
}

/* Log and events. */

static void draw_log_line(gw_canvas *canvas, int row, const json_t *one) {
    char clock[24];
    const char *level = text_of(one, "level");
    bool bad = strcmp(level, "error") == 0, warns = strcmp(level, "warn") == 0;
    int col = gw_canvas_print(canvas, row, 0, canvas->cols, GW_STYLE_DIM, "%s ",
                              clock_text(number_of(one, "time"), clock));
    if (bad || warns) col = gw_canvas_print(canvas, row, col, canvas->cols, GW_STYLE_BOLD, "%s ", level);
    gw_canvas_put(canvas, row, col, canvas->cols,
                  bad     ? GW_STYLE_BAD
                  : warns ? GW_STYLE_WARN
                          : GW_STYLE_PLAIN,
                  text_of(one, "text"));
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

static int draw_value(gw_canvas *canvas, int row, int col, const char *key, const json_t *value) {
    char text[200];
    if (value == NULL || !value_text(value, text, sizeof text)) return col;
    bool bare = strcmp(key, "text") == 0;
    return gw_canvas_print(canvas, row, col, canvas->cols, GW_STYLE_PLAIN, " %s%s%s", bare ? "" : key,
                           bare ? "" : "=", text);
}

static void draw_event(gw_canvas *canvas, int row, const json_t *one) {
    char clock[24];
    const char *kind = text_of(one, "event"), *key;
    json_t *value;
    int col = gw_canvas_print(canvas, row, 0, canvas->cols, GW_STYLE_DIM, "%s ",
                              clock_text(number_of(one, "time"), clock));
    bool bad = strcmp(kind, "error") == 0 || strcmp(kind, "corruption") == 0;
    col = gw_canvas_print(canvas, row, col, canvas->cols, bad ? GW_STYLE_BAD : GW_STYLE_BOLD, "%s", kind);
    for (size_t i = 0; i < sizeof shown_keys / sizeof shown_keys[0]; i++) {
        if (strcmp(shown_keys[i].kind, kind) != 0) continue;
        for (int k = 0; k < 8 && shown_keys[i].keys[k] != NULL; k++)
            col = draw_value(canvas, row, col, shown_keys[i].keys[k],
                             json_object_get(one, shown_keys[i].keys[k]));
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)one, key, value) {
        if (strcmp(key, "event") != 0 && strcmp(key, "time") != 0 && strcmp(key, "number") != 0)
            col = draw_value(canvas, row, col, key, value);
    }
}

static void draw_lines(const gw_top_frame *f, gw_canvas *canvas, int row, int height, bool events) {
    const json_t *list = json_object_get(events ? f->events : f->log, events ? "events" : "lines");
    size_t count = json_array_size(list),
           back = f->mode == GW_TOP_ALL || f->scroll < 0 ? 0 : (size_t)f->scroll;
    if (height < 2) return;
    if (back > count) back = count;
    gw_canvas_print(canvas, row, 0, canvas->cols, GW_STYLE_TITLE, "%s%s", events ? "WHAT HAPPENED" : "LOG",
                    back > 0 ? "   (End: the newest)" : "");
    size_t fits = (size_t)height - 1, end = count - back, first = end > fits ? end - fits : 0;
    for (size_t i = first; i < end; i++) {
        const json_t *one = json_array_get(list, i);
        int at_row = row + 1 + (int)(i - first);
        if (events)
            draw_event(canvas, at_row, one);
        else
            draw_log_line(canvas, at_row, one);
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
        "PgUp  PgDn  End  in the log and the events",
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
    gw_canvas_print(canvas, canvas->rows - 1, 0, canvas->cols, GW_STYLE_DIM,
                    "q end  ? keys  Enter peer  s sort  [ ] curve  l log  e events   %s", f->dir);
}
