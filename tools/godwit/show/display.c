#include "tools/godwit/show/display.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/show/async_writer.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/text/timestamp.h"
#include "tools/godwit/text/wrap.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    LIVE_INTERVAL_MS = 100,
    PLAIN_INTERVAL_MS = 1000,        /* the first lines in a pipe ... */
    PLAIN_LATER_INTERVAL_MS = 10000, /* ... and those after PLAIN_SOON of them */
    PLAIN_SOON = 10,
    MAX_WIDTH = 500,
};

struct gw_display {
    pthread_mutex_t lock;
    gw_async_writer *out, *err; /* the same writer when both lead to one file, so that the order is kept */
    bool silent, live;
    bool on_terminal, log_on_terminal; /* stdout is a terminal; stderr is one */
    bool failure_reported;
    uint64_t left_out_reported;
    bool drawn; /* the live line is on the screen */
    char line[MAX_WIDTH + 1];
    uint64_t shown_ms, shown_step;
    uint32_t plain_lines;
};

static size_t terminal_width(void) {
    size_t width = gw_terminal_width();
    return width < MAX_WIDTH ? width : MAX_WIDTH;
}

static bool same_place(int a, int b) {
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

gw_display *gw_display_open(gw_display_mode mode, gw_err *err) {
    gw_display *display = calloc(1, sizeof *display);
    if (display == NULL) {
        gw_fail(err, GW_E_NOMEM, "display: out of memory");
        return NULL;
    }
    const char *terminal = getenv("TERM");
    bool dumb = terminal == NULL || strcmp(terminal, "dumb") == 0;
    display->silent = mode == GW_DISPLAY_SILENT;
    display->on_terminal = isatty(STDOUT_FILENO) == 1;
    display->log_on_terminal = isatty(STDERR_FILENO) == 1;
    display->live = !display->silent && !dumb && display->on_terminal;
    display->shown_step = UINT64_MAX;
    GW_ASSERT(pthread_mutex_init(&display->lock, NULL) == 0);
    display->out = gw_async_writer_open(STDOUT_FILENO, err);
    display->err =
        same_place(STDOUT_FILENO, STDERR_FILENO) ? display->out : gw_async_writer_open(STDERR_FILENO, err);
    if (display->out != NULL && display->err != NULL) return display;
    gw_display_close(display);
    return NULL;
}

static void put_text(gw_async_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_text(gw_async_writer *writer, const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    GW_ASSERT_MEMORY(length >= 0);
    gw_async_writer_put(writer, text, (size_t)length);
    free(text);
}

static void erase(gw_display *display) {
    if (display->drawn) put_text(display->out, "\r\033[K");
    display->drawn = false;
}

static void draw(gw_display *display) {
    if (display->line[0] == '\0') return;
    put_text(display->out, "\r%s\033[K", display->line);
    display->drawn = true;
}

static const char *consequence_of(const gw_display *display, int failure) {
    if (gw_async_writer_failure_stays(display->out, failure)) return "nothing more is written to it";
    return gw_async_writer_lacks_room(failure) ? "lines are left out until there is room"
                                               : "lines wait, and writing is tried again";
}

static const char *failure_text(int failure) {
    if (failure == EPIPE) return "its reader has gone";
    return failure == EBADF ? "it is closed" : strerror(failure);
}

static void report_failure(gw_display *display, int failure) {
    bool reported = display->failure_reported;
    display->failure_reported = failure != 0;
    if (failure == 0 || reported || display->err == display->out) return;
    put_text(display->err, "godwit: stdout: %s; %s; the run goes on\n", failure_text(failure),
             consequence_of(display, failure));
}

/* Reports trouble with stdout on stderr. The number of lines that are left out is reported when the outage
 * is over, or at the end: stderr may lead to the same full disk. */
static void report_trouble(gw_display *display, bool at_end) {
    int failure = gw_async_writer_failure(display->out);
    report_failure(display, failure);
    if (!gw_async_writer_idle(display->out) || (failure != 0 && !at_end)) return;
    uint64_t left_out = gw_async_writer_left_out(display->out);
    if (left_out == display->left_out_reported) return;
    display->left_out_reported = left_out;
    put_text(display->err,
             "godwit: stdout: %" PRIu64
             " lines have been left out so far: the reader was too slow, or the disk was full\n",
             left_out);
}

void gw_display_flush(gw_display *display, uint64_t patience_ns) {
    pthread_mutex_lock(&display->lock);
    erase(display);
    display->live = false;
    display->silent = true; /* no progress line follows the last message */
    pthread_mutex_unlock(&display->lock);
    gw_async_writer_flush(display->out, patience_ns);
    gw_async_writer_flush(display->err, patience_ns);
}

bool gw_display_close(gw_display *display) {
    if (display == NULL) return true;
    bool both = display->out != NULL && display->err != NULL;
    if (both) {
        erase(display);
        gw_async_writer_flush(display->out,
                              UINT64_C(100000000)); /* an error of the last lines shows by then, if at all */
        report_trouble(display, true);
    }
    gw_async_writer *err = display->err == display->out ? NULL : display->err;
    int failure = gw_async_writer_close(display->out);
    gw_async_writer_close(err);
    pthread_mutex_destroy(&display->lock);
    free(display);
    return failure == 0 || failure == EPIPE;
}

/* Writes "59 s", "12:05" or "3:02:11". */
static void duration_text(double seconds, char *text, size_t size) {
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        snprintf(text, size, "-");
        return;
    }
    uint64_t s = (uint64_t)llround(seconds);
    if (s < 60)
        snprintf(text, size, "%" PRIu64 " s", s);
    else if (s < 3600)
        snprintf(text, size, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
    else
        snprintf(text, size, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
}

/* A part of the live line. On a narrow terminal the brief texts are used, and parts of a high rank are
 * left out first. */
typedef struct part {
    int rank;
    char text[GW_TEXT_BYTES], brief[GW_TEXT_BYTES];
} part;

enum { PARTS = 11, PHASE_RANK = 1, REPORT_TEXT = 200 };

static part *add(part parts[PARTS], int *count, int rank) {
    GW_ASSERT(*count < PARTS);
    parts[*count].rank = rank;
    return &parts[(*count)++];
}

/* Shortens "epoch=4 loss=0.31 accuracy=0.9" to the loss, the figure that people watch, or else to the
 * first key. */
static void only_loss(const char *report, char *brief, size_t size) {
    const char *loss = strstr(report, "loss=");
    bool word = loss != NULL && (loss == report || loss[-1] == ' ');
    const char *from = word ? loss : report;
    snprintf(brief, size, "%.*s", (int)strcspn(from, " "), from);
}

static void add_flock(const gw_node_snapshot *s, part parts[PARTS], int *count) {
    char id[GW_SHORT_TEXT];
    const char *name = s->leader_name;
    bool leads = gw_peer_id_equal(&s->leader, &s->self);
    part *next = add(parts, count, 3);
    snprintf(next->text, sizeof next->text, "%" PRIu32 " peer%s", s->members, s->members == 1 ? "" : "s");
    memcpy(next->brief, next->text, sizeof next->brief);
    next = add(parts, count, 7);
    gw_peer_id_short(&s->leader, id);
    snprintf(next->text, sizeof next->text,
             leads             ? "leads"
             : name[0] != '\0' ? "leader %s (%s)"
                               : "leader %s%s",
             name, id);
    if (leads || name[0] == '\0')
        snprintf(next->brief, sizeof next->brief, leads ? "leads" : "leader %.4s", id);
    else
        snprintf(next->brief, sizeof next->brief, "leader %.12s", name);
}

static int fill_parts(const gw_node_snapshot *s, part parts[PARTS]) {
    int count = 0;
    part *next = add(parts, &count, 0);
    if (!s->no_state)
        snprintf(next->text, sizeof next->text, "step %" PRIu64, s->step);
    else if (s->loading_step != UINT64_MAX)
        snprintf(next->text, sizeof next->text, "fetches step %" PRIu64, s->loading_step);
    else
        snprintf(next->text, sizeof next->text, "step -");
    size_t used = strlen(next->text);
    if (s->steps > 0) snprintf(next->text + used, sizeof next->text - used, "/%" PRIu64, s->steps);
    memcpy(next->brief, next->text, sizeof next->brief);
    if (strcmp(s->phase, "computing") != 0 && s->phase[0] != '\0') {
        next = add(parts, &count, PHASE_RANK);
        snprintf(next->text, sizeof next->text, "%s", s->phase);
        memcpy(next->brief, next->text, sizeof next->brief);
    }
    if (s->report[0] != '\0') {
        next = add(parts, &count, 2);
        gw_key_values_brief(s->report, next->text, REPORT_TEXT);
        only_loss(next->text, next->brief, sizeof next->brief);
    }
    if (s->shards_per_s > 0 && !s->ending) {
        int decimals = s->shards_per_s < 100 ? 1 : 0;
        next = add(parts, &count, 4);
        snprintf(next->text, sizeof next->text, "%.*f shards/s", decimals, s->shards_per_s);
        snprintf(next->brief, sizeof next->brief, "%.*f/s", decimals, s->shards_per_s);
    }
    if (s->tokens_per_s > 0 && !s->ending) {
        next = add(parts, &count, 6);
        snprintf(next->text, sizeof next->text, "%.0f tokens/s", s->tokens_per_s);
        snprintf(next->brief, sizeof next->brief, "%.0f tok/s", s->tokens_per_s);
    }
    if (s->members > 0) add_flock(s, parts, &count);
    if (s->checkpoint_step != UINT64_MAX) {
        next = add(parts, &count, 8);
        snprintf(next->text, sizeof next->text, "saved %" PRIu64, s->checkpoint_step);
        memcpy(next->brief, next->text, sizeof next->brief);
    }
    if (s->energy.watts > 0 && !s->ending) {
        next = add(parts, &count, 9);
        snprintf(next->text, sizeof next->text, "%.3g W%s", s->energy.watts,
                 gw_energy_is_estimate(&s->energy) ? " (estimate)" : "");
        snprintf(next->brief, sizeof next->brief, "%.3g W", s->energy.watts);
    }
    if (s->disk_fails) {
        next = add(parts, &count, 3);
        snprintf(next->text, sizeof next->text, "disk fails");
        memcpy(next->brief, next->text, sizeof next->brief);
    }
    if (s->step_ms > 0 && s->steps > s->step && !s->ending) {
        char left[32];
        next = add(parts, &count, 5);
        duration_text((double)(s->steps - s->step) * s->step_ms / 1000, left, sizeof left);
        snprintf(next->text, sizeof next->text, "%s left", left);
        memcpy(next->brief, next->text, sizeof next->brief);
    }
    return count;
}

static size_t whole_length(const part *parts, int count) {
    size_t length = 0;
    for (int i = 0; i < count; i++) length += strlen(parts[i].text) + (i > 0 ? 2 : 0);
    return length;
}

/* Shortens a text to `room` bytes, the last of which tell that it is cut. */
static void cut(char *text, size_t room) {
    static const char mark[] = "...";
    if (strlen(text) > room && room >= sizeof mark) memcpy(text + room + 1 - sizeof mark, mark, sizeof mark);
}

void gw_display_format(const gw_node_snapshot *snapshot, size_t width, char *line, size_t size) {
    part parts[PARTS];
    int count = fill_parts(snapshot, parts);
    bool keep[PARTS] = {false};
    size_t used = 0, room = width < size ? width : size - 1;
    bool brief = whole_length(parts, count) > room;
    for (int rank = 0; rank < PARTS; rank++)
        for (int i = 0; i < count; i++) {
            if (parts[i].rank != rank) continue;
            char *text = brief ? parts[i].brief : parts[i].text;
            size_t gap = used > 0 ? 2 : 0;
            if (rank == PHASE_RANK && used + gap < room) cut(text, room - used - gap);
            size_t needed = strlen(text) + gap;
            if (used + needed > room) continue;
            keep[i] = true;
            used += needed;
        }
    line[0] = '\0';
    size_t length = 0;
    for (int i = 0; i < count; i++)
        if (keep[i])
            length += (size_t)snprintf(line + length, size - length, "%s%s", length > 0 ? "  " : "",
                                       brief ? parts[i].brief : parts[i].text);
    GW_ASSERT(length == used && length <= room);
}

static void update_live(gw_display *display, const gw_node_snapshot *snapshot, uint64_t now) {
    if (display->drawn && now - display->shown_ms < LIVE_INTERVAL_MS) return;
    if (!gw_async_writer_idle(display->out)) return; /* the terminal takes no output */
    display->shown_ms = now;
    gw_display_format(snapshot, terminal_width() - 1, display->line, sizeof display->line);
    draw(display);
}

/* The time in front of a line. */
typedef struct line_time {
    char at[GW_TIMESTAMP_TEXT + 1];
} line_time;

static line_time time_now(bool dated) {
    struct timespec now;
    char stamp[GW_TIMESTAMP_TEXT];
    line_time line;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(line.at, sizeof line.at, "%s ", gw_timestamp(&now, dated, stamp));
    return line;
}

/* Returns the time in front of a line on stdout: none on a terminal, where a person sees the line when it
 * comes. */
static line_time time_on_stdout(const gw_display *display) {
    return display->on_terminal ? (line_time){""} : time_now(true);
}

static void update_plain(gw_display *display, const gw_node_snapshot *snapshot, uint64_t now) {
    uint64_t interval = display->plain_lines < PLAIN_SOON ? PLAIN_INTERVAL_MS : PLAIN_LATER_INTERVAL_MS;
    if (display->shown_step == UINT64_MAX) { /* no line is printed before the first step */
        display->shown_step = snapshot->step;
        display->shown_ms = now;
    }
    if (snapshot->step == display->shown_step || now - display->shown_ms < interval) return;
    /* An evaluation has a line of its own. */
    if (snapshot->evaluation[0] != '\0' && snapshot->evaluation_step == snapshot->step) return;
    display->shown_ms = now;
    display->shown_step = snapshot->step;
    display->plain_lines++;
    char line[MAX_WIDTH + 1];
    gw_display_format(snapshot, MAX_WIDTH, line, sizeof line);
    put_text(display->out, "%s%s\n", time_on_stdout(display).at, line);
}

void gw_display_update(gw_display *display, const gw_node_snapshot *snapshot) {
    uint64_t now = gw_now_ns() / 1000000;
    pthread_mutex_lock(&display->lock);
    report_trouble(display, false);
    if (display->live)
        update_live(display, snapshot, now);
    else if (!display->silent)
        update_plain(display, snapshot, now);
    pthread_mutex_unlock(&display->lock);
}

/* The next update draws the live line below this one: by then it may tell of a later step, and at the end
 * of a run no update follows. */
static void print_line(gw_display *display, gw_async_writer *writer, const char *at, const char *text) {
    pthread_mutex_lock(&display->lock);
    erase(display);
    put_text(writer, "%s%s\n", at, text);
    pthread_mutex_unlock(&display->lock);
}

/* Prints a line for people, in several lines where that is a terminal on which it does not fit. */
static void print_for_people(gw_display *display, gw_async_writer *writer, const char *at, const char *text) {
    bool terminal = writer == display->out ? display->on_terminal : display->log_on_terminal;
    char *wrapped = terminal ? gw_wrap(text, terminal_width(), strlen(at)) : NULL;
    print_line(display, writer, at, wrapped != NULL ? wrapped : text);
    free(wrapped);
}

void gw_display_out(gw_display *display, const char *text) {
    print_line(display, display->out, "", text);
}

void gw_display_err(gw_display *display, const char *text) {
    print_for_people(display, display->err, "", text);
}

void gw_display_end(gw_display *display, const char *text) {
    print_for_people(display, display->out, "", text);
}

void gw_display_say(gw_display *display, const char *text) {
    print_for_people(display, display->out, time_on_stdout(display).at, text);
}

void gw_display_log(gw_display *display, const char *text) {
    print_for_people(display, display->err, time_now(!display->log_on_terminal).at, text);
}
