/* `godwit top` shows a running job on the terminal. */
#include "tools/godwit/command/commands.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/text/wrap.h"
#include "tools/godwit/top/screen.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEY_EVERY = 'n', KEY_ONCE = 256, ROWS = 40, COLS_LEAST = 40, COLS_USUAL = 80, COLS_MOST = 1000 };

typedef struct arguments {
    const char *dir;
    uint64_t every_ms;
    bool once;
} arguments;

static const struct argp_option top_options[] = {
    {"dir", 'd', "DIR", 0, "The directory of a running peer (" GW_DEFAULT_DIR ")", 0},
    {"every", KEY_EVERY, "MS", 0, "Ask the peer so many milliseconds apart (1000)", 0},
    {"once", KEY_ONCE, 0, 0, "Print one picture, without a terminal, and end", 0},
    {0},
};

static const char top_doc[] = "Shows the job that the peer in DIR takes part in: how far it is, a curve of "
                              "what it reports, every peer of the "
                              "flock as a row, and the log. The keys are listed by '?'; 'q' ends it, and the "
                              "job goes on. For programs there is "
                              "'godwit status --json'.";

static error_t parse_top(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'd':
        a->dir = arg;
        return 0;
    case KEY_EVERY:
        a->every_ms = gw_number_of_option(state, "--every", arg, 100, 3600000);
        return 0;
    case KEY_ONCE:
        a->once = true;
        return 0;
    case ARGP_KEY_ARG:
        gw_argp_error(state, "unexpected argument '%s': the directory is given by --dir %s", arg, arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp top_argp = {.options = top_options, .parser = parse_top, .doc = top_doc};

/* The width of the terminal; of a pipe or a file that of COLUMNS, or 80. */
static int width_of_picture(void) {
    uint64_t columns = gw_terminal_width();
    const char *given = getenv("COLUMNS");
    if (isatty(STDOUT_FILENO) != 1) {
        columns = COLS_USUAL;
        if (given != NULL) gw_number_read(given, COLS_LEAST, COLS_MOST, &columns);
    }
    return columns < COLS_MOST ? (int)columns : COLS_MOST;
}

int gw_top_main(int argc, char **argv) {
    arguments a = {.dir = GW_DEFAULT_DIR, .every_ms = 1000};
    gw_err err;
    if (gw_argp_parse(&top_argp, argc, argv, &a) != 0) return 2;
    if (!a.once && (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)) {
        gw_command_complain("godwit top",
                            "it needs a terminal; 'godwit top --once' prints one picture, and 'godwit "
                            "status' is for programs");
        return 2;
    }
    bool good = a.once ? gw_screen_print(a.dir, ROWS, width_of_picture(), &err)
                       : gw_screen_run(a.dir, (int)a.every_ms, &err);
    return good ? 0 : gw_command_fail("godwit top", &err);
}
