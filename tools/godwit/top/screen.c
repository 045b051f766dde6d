#include "tools/godwit/top/screen.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/top/ending.h"
#include "tools/godwit/top/frame.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    KEY_ESCAPE = 27,
    CTRL_C = 3,
    CTRL_L = 12,
    POINTS = 1000,
    LINES_KEPT = 500,
    KEYS_MS = 100,
    START_MS = 5000
};

/* The answers of the peer. */
typedef struct answers {
    json_t *status, *peers, *series, *log, *events;
    char trouble[sizeof((gw_err *)NULL)->text], ending[400];
    bool ended_well;
} answers;

/* How the peer is asked. */
typedef struct source {
    const char *dir;
    const gw_control_wait *wait; /* NULL: people are told on stderr that they wait */
} source;

static json_t *ask(const source *from, const char *request, gw_err *err) {
    char *text = from->wait != NULL ? gw_control_ask_patiently(from->dir, request, from->wait, err)
                                    : gw_control_ask(from->dir, request, err);
    if (text == NULL) return NULL;
    json_t *answer = json_loads(text, 0, NULL);
    free(text);
    const char *why = json_string_value(json_object_get(answer, "error"));
    if (json_is_object(answer) && why == NULL) return answer;
    gw_fail(err, GW_E_PEER, "the peer answers: %.200s", why != NULL ? why : "nothing that makes sense");
    json_decref(answer);
    return NULL;
}

/* Takes a newer answer in place of one; without one the old stays. */
static bool renew(const source *from, const char *request, json_t **place, gw_err *err) {
    json_t *answer = ask(from, request, err);
    if (answer == NULL) return false;
    json_decref(*place);
    *place = answer;
    return true;
}

static bool renew_all(answers *a, const source *from, const gw_top_frame *frame, gw_err *err) {
    char series[64 + GW_TOP_SERIES];
    snprintf(series, sizeof series, "series %d%s%s", POINTS, frame->curve[0] != '\0' ? " " : "",
             frame->curve);
    return renew(from, "status", &a->status, err) && renew(from, "peers", &a->peers, err) &&
           renew(from, series, &a->series, err) && renew(from, "log 0", &a->log, err) &&
           renew(from, "events 0", &a->events, err);
}

static void free_all(answers *a) {
    json_decref(a->status);
    json_decref(a->peers);
    json_decref(a->series);
    json_decref(a->log);
    json_decref(a->events);
}

static void lend(gw_top_frame *frame, const answers *a) {
    frame->status = a->status;
    frame->peers = a->peers;
    frame->series = a->series;
    frame->log = a->log;
    frame->events = a->events;
    frame->trouble = a->trouble[0] != '\0' ? a->trouble : NULL;
    frame->ending = a->ending[0] != '\0' ? a->ending : NULL;
    frame->ended_well = a->ended_well;
}

/* Whether the terminal shows other characters than those of ASCII. */
static bool speaks_utf8(void) {
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* The terminal. */

static void set_colours(void) {
    static const short colours[][2] = {{GW_STYLE_GOOD, COLOR_CYAN},
                                       {GW_STYLE_WARN, COLOR_YELLOW},
                                       {GW_STYLE_BAD, COLOR_RED},
                                       {GW_STYLE_CURVE, COLOR_BLUE},
                                       {GW_STYLE_TITLE, COLOR_CYAN}};
    if (!has_colors() || getenv("NO_COLOR") != NULL) return;
    start_color();
    use_default_colors();
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++)
        init_pair(colours[i][0], colours[i][1], -1);
}

static attr_t attribute_of(uint8_t style) {
    switch ((gw_style)style) {
    case GW_STYLE_BOLD:
        return A_BOLD;
    case GW_STYLE_DIM:
        return A_DIM;
    case GW_STYLE_CHOSEN:
        return A_REVERSE;
    case GW_STYLE_TITLE:
        return A_BOLD | (attr_t)COLOR_PAIR(GW_STYLE_TITLE);
    case GW_STYLE_BAD:
        return A_BOLD | (attr_t)COLOR_PAIR(GW_STYLE_BAD);
    case GW_STYLE_PLAIN:
        return A_NORMAL;
    case GW_STYLE_GOOD:
    case GW_STYLE_WARN:
    case GW_STYLE_CURVE:
        break;
    }
    return (attr_t)COLOR_PAIR(style);
}

static void show(const gw_canvas *canvas) {
    for (int row = 0; row < canvas->rows; row++) {
        for (int col = 0; col < canvas->cols; col++) {
            const gw_canvas_cell *cell = &canvas->cells[row * canvas->cols + col];
            /* The last cell of the screen would make it scroll. */
            if (row + 1 == canvas->rows && col + 1 == canvas->cols) continue;
            attrset((int)attribute_of(cell->style));
            mvaddstr(row, col, cell->utf8);
        }
    }
    attrset(A_NORMAL);
    refresh();
}

static bool draw(gw_top_frame *frame, const answers *a) {
    gw_canvas canvas;
    if (!gw_canvas_make(&canvas, LINES, COLS)) return false;
    lend(frame, a);
    gw_top_draw(frame, &canvas);
    show(&canvas);
    gw_canvas_free(&canvas);
    return true;
}

static void change_mode(gw_top_frame *frame, gw_top_mode mode) {
    frame->mode = frame->mode == mode ? GW_TOP_ALL : mode;
    frame->scroll = 0;
}

/* Obeys a key. Returns false where the user ends. *again: the answers must be asked for anew. */
static bool obey(gw_top_frame *frame, int key, bool *again) {
    int page = LINES > 8 ? LINES - 6 : 1;
    bool lines = frame->mode == GW_TOP_LOG || frame->mode == GW_TOP_EVENTS;
    switch (key) {
    case 'q':
    case CTRL_C:
        return false;
    case KEY_ESCAPE:
        change_mode(frame, frame->mode);
        break;
    case '?':
    case 'h':
        change_mode(frame, GW_TOP_HELP);
        break;
    case 'l':
        change_mode(frame, GW_TOP_LOG);
        break;
    case 'e':
        change_mode(frame, GW_TOP_EVENTS);
        break;
    case '\n':
    case '\r':
    case KEY_ENTER:
        change_mode(frame, GW_TOP_PEER);
        break;
    case 's':
        frame->sort = (frame->sort + 1) % GW_TOP_SORTS;
        break;
    case 'S':
        frame->sort = (frame->sort + GW_TOP_SORTS - 1) % GW_TOP_SORTS;
        break;
    case 'g':
        frame->logarithmic = !frame->logarithmic;
        break;
    case '[':
    case ']':
        gw_top_choose_curve(frame, key == ']' ? 1 : -1);
        *again = true;
        break;
    case KEY_UP:
    case 'k':
        if (lines)
            frame->scroll++;
        else
            frame->chosen--;
        break;
    case KEY_DOWN:
    case 'j':
        if (lines)
            frame->scroll--;
        else
            frame->chosen++;
        break;
    case KEY_PPAGE:
        frame->scroll += page;
        break;
    case KEY_NPAGE:
        frame->scroll -= page;
        break;
    case KEY_END:
        frame->scroll = 0;
        break;
    case CTRL_L: /* All is drawn anew: another program may have written to the terminal. */
        clearok(curscr, TRUE);
        break;
    default:
        break;
    }
    if (frame->scroll < 0) frame->scroll = 0;
    if (frame->scroll > LINES_KEPT) frame->scroll = LINES_KEPT;
    return true;
}

/* SIGTERM and SIGHUP end it in order, so that the terminal is left as it was. */
static volatile sig_atomic_t asked_to_end;

static void end_soon(int number) {
    (void)number;
    asked_to_end = 1;
}

static bool open_terminal(gw_err *err) {
    const struct sigaction end = {.sa_handler = end_soon};
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "the terminal '%s' is not known: set TERM, or use godwit status",
                       getenv("TERM") != NULL ? getenv("TERM") : "");
    raw();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    timeout(KEYS_MS);
    set_colours();
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    return true;
}

/* The picture while it is shown. */
typedef struct view {
    answers answers;
    gw_top_frame frame;
    bool again; /* the answers must be asked for anew */
    bool goes_on;
    uint32_t waited_s; /* for an answer, as the picture shows it */
} view;

/* Obeys the keys while the peer takes its time, and shows for how long it does. */
static bool goes_on_while_waiting(void *context, uint32_t waited_ms) {
    view *v = context;
    timeout(0);
    int key = getch();
    timeout(KEYS_MS);
    if (key != ERR) v->goes_on = obey(&v->frame, key, &v->again);
    uint32_t waited_s = waited_ms / 1000;
    bool shows = waited_s > 0 && waited_s != v->waited_s;
    if (shows)
        snprintf(v->answers.trouble, sizeof v->answers.trouble,
                 "the peer has not answered for %" PRIu32 " s; this is what it told before", waited_s);
    v->waited_s = waited_s;
    if (shows || key != ERR) v->goes_on = draw(&v->frame, &v->answers) && v->goes_on;
    return v->goes_on && !asked_to_end;
}

/* Looks for how the peer has ended, where it does not answer. */
static void note_ending(answers *a, const char *dir, bool answered) {
    a->ending[0] = '\0';
    if (!answered) gw_top_ending(dir, a->ending, sizeof a->ending, &a->ended_well);
}

/* Asks for the first answers, for some seconds also of a peer that is just starting. */
static bool find_peer(answers *a, const source *from, const gw_top_frame *frame, gw_err *err) {
    const uint64_t until_ns = gw_now_ns() + UINT64_C(1000000) * START_MS;
    while (!renew_all(a, from, frame, err)) {
        if (err->code != GW_E_PEER || asked_to_end || gw_now_ns() >= until_ns) return false;
        nanosleep(&(struct timespec){.tv_nsec = KEYS_MS * 1000000L}, NULL);
    }
    return true;
}

bool gw_screen_run(const char *dir, int every_ms, gw_err *err) {
    view v = {.frame = {.dir = dir}, .goes_on = true};
    const gw_control_wait wait = {.waits = goes_on_while_waiting, .context = &v};
    source from = {.dir = dir};
    setlocale(LC_CTYPE, "");
    v.frame.ascii = !speaks_utf8();
    if (!find_peer(&v.answers, &from, &v.frame, err) || !open_terminal(err)) {
        free_all(&v.answers);
        return false;
    }
    from.wait = &wait; /* From here on nothing is written beside the picture. */
    uint64_t asked_ns = gw_now_ns();
    while (v.goes_on && !asked_to_end) {
        v.again |= gw_now_ns() - asked_ns >= (uint64_t)every_ms * 1000000;
        if (!draw(&v.frame, &v.answers)) break;
        int key = getch();
        if (key != ERR) v.goes_on = obey(&v.frame, key, &v.again);
        if (!v.again || !v.goes_on) continue;
        gw_err why = {.text = ""};
        v.again = false;
        v.waited_s = 0;
        bool answered = renew_all(&v.answers, &from, &v.frame, &why);
        snprintf(v.answers.trouble, sizeof v.answers.trouble, "%s", why.text);
        note_ending(&v.answers, dir, answered);
        asked_ns = gw_now_ns();
    }
    endwin();
    free_all(&v.answers);
    return true;
}

bool gw_screen_print(const char *dir, int rows, int cols, gw_err *err) {
    answers a = {0};
    gw_canvas canvas;
    setlocale(LC_CTYPE, "");
    gw_top_frame frame = {.dir = dir, .ascii = !speaks_utf8()};
    const source from = {.dir = dir};
    bool good = renew_all(&a, &from, &frame, err);
    if (good && !gw_canvas_make(&canvas, rows, cols)) good = gw_fail(err, GW_E_NOMEM, "out of memory");
    if (good) {
        char text[4 * 1000 + 1];
        lend(&frame, &a);
        gw_top_draw(&frame, &canvas);
        for (int row = 0; row + 1 < rows; row++) { /* the last row has the keys */
            gw_canvas_row(&canvas, row, text, sizeof text);
            puts(text);
        }
        gw_canvas_free(&canvas);
    }
    free_all(&a);
    return good;
}
