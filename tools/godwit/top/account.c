#include "tools/godwit/top/account.h"

#include "tools/godwit/top/values.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LABEL = 10, TEXT = 900 };

/* The rows that are still free. */
typedef struct paper {
    gw_canvas *canvas;
    int row, end;
    bool ascii;
} paper;

static void add(paper *p, const char *label, gw_style style, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Writes a line with its label, in as many rows as it takes. */
static void add(paper *p, const char *label, gw_style style, const char *format, ...) {
    char text[TEXT];
    va_list args;
    if (p->row >= p->end) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gw_canvas_put(p->canvas, p->row, 0, LABEL, GW_STYLE_DIM, label);
    p->row += gw_canvas_wrap(p->canvas, p->row, LABEL, LABEL, p->end - p->row, style, text, p->ascii);
}

/* The newest event of a kind that has this text under this key; NULL: there is none. With `state`, of that state. */
static const json_t *last_event(const gw_top_frame *f, const char *kind, const char *id, const char *state) {
    const json_t *events = json_object_get(f->events, "events");
    for (size_t i = json_array_size(events); i-- > 0;) {
        const json_t *one = json_array_get(events, i);
        if (strcmp(gw_top_text(one, "event"), kind) != 0 || strcmp(gw_top_text(one, "peer"), id) != 0)
            continue;
        if (state == NULL || strcmp(gw_top_text(one, "state"), state) == 0) return one;
    }
    return NULL;
}

/* The newest warning that names the peer as texts do, by the first eight digits of its id. */
static const char *last_warning(const gw_top_frame *f, const char *id) {
    const json_t *events = json_object_get(f->events, "events");
    char named[16];
    snprintf(named, sizeof named, "%.8s", id);
    for (size_t i = json_array_size(events); i-- > 0;) {
        const json_t *one = json_array_get(events, i);
        const char *text = gw_top_text(one, "text");
        if (strcmp(gw_top_text(one, "event"), "warning") == 0 && strstr(text, named) != NULL) return text;
    }
    return "";
}

/* What is known of a peer's end, as this peer has seen it. */
static void add_evidence(paper *p, const json_t *seen) {
    const char *evidence = gw_top_text(seen, "evidence");
    double silent_s = gw_top_number(seen, "silent_ms") / 1000;
    char silence[60] = "";
    if (isfinite(silent_s) && silent_s >= 0.05)
        snprintf(silence, sizeof silence, ", after %.1f s of silence", silent_s);
    if (strcmp(evidence, "refused") == 0)
        add(p, "because", GW_STYLE_PLAIN, "its host refuses connections: no process listens there any more%s",
            silence);
    else if (strcmp(evidence, "restarted") == 0)
        add(p, "because", GW_STYLE_PLAIN, "another life of it was started%s", silence);
    else if (strcmp(evidence, "gave-up") == 0)
        add(p, "because", GW_STYLE_PLAIN, "it said that it cannot go on");
    else if (strcmp(evidence, "silent") == 0)
        add(p, "because", GW_STYLE_PLAIN, "it does not answer%s", silence);
}

static void add_state(paper *p, const gw_top_frame *f, const json_t *peer) {
    const char *state = gw_top_text(peer, "state"), *id = gw_top_text(peer, "id");
    double since = gw_top_number(peer, "gone_since"), now = gw_top_number(f->status, "time");
    char clock[GW_TOP_VALUE], ago[GW_TOP_VALUE], when[80] = "";
    if (since > 0)
        snprintf(when, sizeof when, " since %s, for %s", gw_top_clock(since, clock),
                 gw_top_duration(now - since, ago));
    if (strcmp(state, "dead") == 0)
        add(p, "state", GW_STYLE_BAD, "dead%s: its process has ended", when);
    else if (strcmp(state, "unreachable") == 0)
        add(p, "state", GW_STYLE_BAD,
            "unreachable%s: its process or host has stopped, or the network between is cut", when);
    else if (strcmp(state, "left") == 0)
        add(p, "state", GW_STYLE_PLAIN, "it has left the job");
    else
        add(p, "state", strcmp(state, "suspect") == 0 ? GW_STYLE_WARN : GW_STYLE_GOOD, "%s%s",
            gw_top_flag(peer, "leader")   ? "it takes part, and leads"
            : gw_top_flag(peer, "member") ? "it takes part"
                                          : "it runs, and takes no part yet",
            strcmp(state, "suspect") == 0 ? "; it has not answered lately" : "");
    bool in_vain = gw_top_flag(peer, "started_in_vain");
    const json_t *seen = last_event(f, "peer", id, state);
    if (seen != NULL && gw_top_is_gone(peer)) add_evidence(p, seen);
    if (!in_vain) return;
    const char *warning = last_warning(f, id);
    add(p, "then", GW_STYLE_WARN, "it was started again, and was refused or ended before it took part%s%s",
        warning[0] != '\0' ? ": " : "", warning);
}

/* What to do about it, for peers with which something is wrong. */
static void add_advice(paper *p, const gw_top_frame *f, const json_t *peer, const json_t *card) {
    const char *state = gw_top_text(peer, "state");
    bool dead = strcmp(state, "dead") == 0, unreachable = strcmp(state, "unreachable") == 0;
    if (gw_top_flag(peer, "started_in_vain"))
        add(p, "to do", GW_STYLE_BOLD, "start it with the command and the options that the others have");
    else if (dead)
        add(p, "to do", GW_STYLE_BOLD, "start it again with the same command; the others go on meanwhile");
    else if (unreachable)
        add(p, "to do", GW_STYLE_BOLD,
            "see to its host and its network; the peers meet again by themselves, and go on meanwhile");
    if (dead || unreachable) {
        add(p, "", GW_STYLE_BOLD, "godwit why --dir %s", f->dir);
        add(p, "", GW_STYLE_PLAIN, "says more, and most with its directory as a second --dir");
    }
    if (json_is_false(json_object_get(card, "disk_writable")))
        add(p, "to do", GW_STYLE_BOLD, "its disk takes no checkpoints: make room on it, or see to it");
    if (gw_top_number(card, "gpus_bad") > 0)
        add(p, "to do", GW_STYLE_BOLD, "%.0f of its GPUs is bad: godwit devices on its host says which",
            gw_top_number(card, "gpus_bad"));
}

static void add_who(paper *p, const json_t *peer, const json_t *card) {
    char up[GW_TOP_VALUE];
    bool gone = gw_top_is_gone(peer);
    const char *path = gw_top_text(peer, "path"), *host = gw_top_text(card, "host");
    bool self = gw_top_flag(peer, "self");
    add(p, "address", GW_STYLE_PLAIN, "%s%s%s%s%s", gw_top_text(peer, "address"),
        host[0] != '\0' ? " on " : "", host,
        self              ? "; this is the peer that is asked"
        : path[0] != '\0' ? ", data by "
                          : "",
        self ? "" : path);
    add(p, "id", GW_STYLE_PLAIN, "%s", gw_top_text(peer, "id"));
    if (isfinite(gw_top_number(peer, "boot")))
        add(p, "life", GW_STYLE_PLAIN, "%.0f, as it counts its starts", gw_top_number(peer, "boot"));
    if (card == NULL || gone) return;
    add(p, "process", GW_STYLE_PLAIN, "%.0f, up for %s, godwit %s", gw_top_number(card, "pid"),
        gw_top_duration(gw_top_number(card, "uptime_s"), up), gw_top_text(card, "version"));
    add(p, "does", GW_STYLE_PLAIN, "%s", gw_top_text(card, "phase"));
    add(p, "device", GW_STYLE_PLAIN, "%.0f worker%s on %s", gw_top_number(card, "workers"),
        gw_top_number(card, "workers") > 1 ? "s" : "", gw_top_text(card, "device"));
}

static void add_work(paper *p, const json_t *peer, const json_t *card) {
    char a[GW_TOP_VALUE], b[GW_TOP_VALUE], c[GW_TOP_VALUE], d[GW_TOP_VALUE];
    bool gone = gw_top_is_gone(peer);
    add(p, "steps", GW_STYLE_PLAIN, "%s done; newest checkpoint with a part on its disk: %s",
        gw_top_count(gw_top_number(peer, "step"), a),
        gw_top_count(gw_top_number(peer, "checkpoint_step"), b));
    if (gw_top_number(peer, "shards_per_s") > 0)
        add(p, "speed", GW_STYLE_PLAIN, "%s shards a second while it %s",
            gw_top_count(gw_top_number(peer, "shards_per_s"), a), gone ? "computed" : "computes");
    if (card == NULL) return;
    add(p, "shards", GW_STYLE_PLAIN, "%s computed, %s of them stolen from others; %s lost to others",
        gw_top_count(gw_top_number(card, "shards"), a), gw_top_count(gw_top_number(card, "shards_stolen"), b),
        gw_top_count(gw_top_number(card, "shards_lost"), c));
    if (gone) return;
    add(p, "runs", GW_STYLE_PLAIN, "%s shards now", gw_top_count(gw_top_number(card, "shards_in_flight"), d));
    add(p, "memory", GW_STYLE_PLAIN, "%s", gw_top_bytes(gw_top_number(card, "rss_bytes"), a));
    double gpus = gw_top_number(card, "gpus"), use = gw_top_number(card, "gpu_utilization");
    if (gpus > 0) {
        memcpy(c, "-", sizeof "-");
        if (isfinite(use)) snprintf(c, sizeof c, "%.0f %%", 100 * use);
        add(p, "GPUs", GW_STYLE_PLAIN, "%.0f, %s busy, memory %s of %s, up to %s degrees, %s W", gpus, c,
            gw_top_bytes(gw_top_number(card, "gpu_memory_used_bytes"), a),
            gw_top_bytes(gw_top_number(card, "gpu_memory_bytes"), b),
            gw_top_count(gw_top_number(card, "gpu_temperature_c"), (char[GW_TOP_VALUE]){0}),
            gw_top_count(gw_top_number(card, "gpu_power_w"), d));
    }
    if (gw_top_number(card, "watts") > 0)
        add(p, "power", GW_STYLE_PLAIN, "%s W%s", gw_top_count(gw_top_number(card, "watts"), a),
            gw_top_flag(card, "energy_estimated") ? ", estimated" : "");
}

static void add_trouble(paper *p, const json_t *card) {
    static const struct {
        const char *key, *words;
    } counts[] = {{"corruptions", "wrong bits"},
                  {"bad_elements", "elements not finite"},
                  {"shards_repaired", "shards dealt again"},
                  {"warnings", "warnings in its log"}};
    char text[200] = "", number[GW_TOP_VALUE];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        double value = gw_top_number(card, counts[i].key);
        size_t used = strlen(text);
        if (value > 0)
            snprintf(text + used, sizeof text - used, "%s%s: %s", used > 0 ? "; " : "", counts[i].words,
                     gw_top_count(value, number));
    }
    if (text[0] != '\0') add(p, "trouble", GW_STYLE_WARN, "%s", text);
}

/* When it came and went, the newest first. */
static void add_history(paper *p, const gw_top_frame *f, const char *id) {
    const json_t *events = json_object_get(f->events, "events");
    char clock[GW_TOP_VALUE];
    const char *label = "history";
    for (size_t i = json_array_size(events); i-- > 0;) {
        const json_t *one = json_array_get(events, i);
        bool state = strcmp(gw_top_text(one, "event"), "peer") == 0;
        bool slow = strcmp(gw_top_text(one, "event"), "slow") == 0;
        if ((!state && !slow) || strcmp(gw_top_text(one, "peer"), id) != 0) continue;
        gw_top_clock(gw_top_number(one, "time"), clock);
        if (state)
            add(p, label, GW_STYLE_PLAIN, "%s %s (life %.0f)", clock,
                strcmp(gw_top_text(one, "evidence"), "gave-up") == 0 ? "gave up" : gw_top_text(one, "state"),
                gw_top_number(one, "boot"));
        else
            add(p, label, GW_STYLE_PLAIN, "%s %s", clock,
                json_is_false(json_object_get(one, "slow")) ? "as fast as usual again" : "slower than usual");
        label = "";
    }
}

void gw_top_account(const gw_top_frame *f, const json_t *peer, const json_t *card, gw_canvas *canvas, int row,
                    int height) {
    paper p = {.canvas = canvas, .row = row + 1, .end = row + height, .ascii = f->ascii};
    const char *name = gw_top_text(peer, "name");
    gw_canvas_print(canvas, row, 0, canvas->cols, GW_STYLE_TITLE,
                    "peer %s   (up and down: others; Esc: back)",
                    name[0] != '\0' ? name : gw_top_text(peer, "id"));
    add_state(&p, f, peer);
    add_advice(&p, f, peer, card);
    add_work(&p, peer, card);
    add_who(&p, peer, card);
    add_trouble(&p, card);
    add_history(&p, f, gw_top_text(peer, "id"));
}
