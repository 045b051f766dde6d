/* `godwit why` tells from the journals of peers what went wrong in a run, and what is suspicious. */
#include "core/os/clock.h"
#include "core/os/directory.h"
#include "core/os/durable.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/journal/journal.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/weights/checkpoint.h"
#include "tools/godwit/why/tell.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_SINCE = 256, KEY_JOB };

typedef struct arguments {
    const char *dirs[GW_WHY_JOURNALS];
    int count;
    double since_s;    /* 0: all */
    const char *job;   /* digits; NULL: the job that was started last */
    const char *named; /* the last one that was given without an option; NULL: none */
    const char *under; /* by --dir */
    bool json;
} arguments;

static const struct argp_option why_options[] = {
    {"dir", 'd', "DIR", 0,
     "The directory of a peer; give it several times for several peers of one job (" GW_DEFAULT_DIR ")", 0},
    {"job", KEY_JOB, "HEX", 0, "Take the job whose id begins with HEX (the one that was started last)", 0},
    {"since", KEY_SINCE, "TIME", 0, "Leave out what was over before: 90s, 30m, 2h, 3d", 0},
    {"json", 'j', 0, 0, "Print one JSON object", 0},
    {0},
};

static const char why_doc[] =
    "Tells what went wrong in a run, from the journals that peers keep in their directories: who died of "
    "what, what it cost, and what is suspicious, with what to do.\v"
    "The more of the peers' directories it is given, the more it knows: what a peer says of its own last "
    "end, and what the others saw of it. They may be copies, or lie on a file system that the nodes share. "
    "It only reads, and the peers may run meanwhile. A JOB of the standing flock, by its name or the "
    "beginning of its id, tells from what the members have noted why it waited, started, moved and ended.";

/* Reads "90s", "30m", "2h" or "3d". */
static bool read_span(const char *text, double *seconds) {
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    double number = strtod(text, &end);
    if (end == text || !isfinite(number) || number <= 0 || end[0] == '\0' || end[1] != '\0') return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].unit != *end) continue;
        *seconds = number * units[i].seconds;
        return *seconds < 1e10;
    }
    return false;
}

static void take_dir(arguments *a, const char *dir, const struct argp_state *state) {
    if (a->count == GW_WHY_JOURNALS)
        gw_argp_error(state, "--dir: give at most %d directories", GW_WHY_JOURNALS);
    a->dirs[a->count++] = dir;
}

static error_t parse_why(int key, char *arg, struct argp_state *state) {
    arguments *a = state->input;
    switch (key) {
    case 'd':
    case ARGP_KEY_ARG:
        *(key == 'd' ? &a->under : &a->named) = arg;
        take_dir(a, arg, state);
        return 0;
    case KEY_SINCE:
        if (!read_span(arg, &a->since_s))
            gw_argp_error(state, "--since: '%s' is not a time such as 90s, 30m, 2h or 3d", arg);
        return 0;
    case KEY_JOB:
        a->job = gw_checkpoint_job_of_option(state, arg);
        return 0;
    case 'j':
        a->json = true;
        return 0;
    case ARGP_KEY_END:
        if (a->count == 0) take_dir(a, GW_DEFAULT_DIR, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool find_dirs(arguments *a, char (*paths)[GW_PATH_BYTES], gw_err *err) {
    for (int i = 0; i < a->count; i++) {
        if (!gw_checkpoint_dir_find(a->dirs[i], NULL, paths[i], err)) return false;
        a->dirs[i] = paths[i];
    }
    return true;
}

/* Whether there is a directory of this name that is Godwit's: it has the marker, or a journal, as a copy may. */
static bool is_of_peer(const char *dir) {
    static const char *const names[] = {GW_DIRECTORY_MARKER, GW_DIRECTORY_INNER, GW_JOURNAL_NAME};
    char path[GW_PATH_BYTES];
    gw_err err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (gw_durable_path(path, &err, "%s/%s", dir, names[i]) && access(path, F_OK) == 0) return true;
    return false;
}

/* Whether the only argument is no directory of Godwit's, but the name or id of a job of the flock: 'godwit results' leaves
 * a folder of the job's name. Beside it --dir is the directory of the flock's member, as in the commands of the flock. */
static bool is_job_of_flock(const arguments *a) {
    return a->named != NULL && a->count == (a->under != NULL ? 2 : 1) && strchr(a->named, '/') == NULL &&
           !is_of_peer(a->named);
}

static bool why(arguments *a, gw_err *err) {
    char(*paths)[GW_PATH_BYTES] = calloc((size_t)a->count, sizeof *paths);
    gw_why_record record = {0};
    gw_findings findings = {0};
    double since = a->since_s > 0 ? gw_wall_s() - a->since_s : 0;
    bool good = paths != NULL || gw_fail(err, GW_E_NOMEM, "memory runs out");
    good = good && find_dirs(a, paths, err) && gw_why_read(a->dirs, a->count, a->job, &record, err);
    if (good) {
        gw_why_find(&record, &findings);
        gw_findings_since(&findings, since);
        if (a->json)
            gw_json_print(gw_why_json(&record, &findings));
        else
            gw_why_print(&record, &findings, since, stdout);
    }
    gw_findings_free(&findings);
    gw_why_free(&record);
    free(paths);
    return good;
}

int gw_why_main(int argc, char **argv) {
    arguments *a = calloc(1, sizeof *a);
    struct argp argp = {
        .options = why_options, .parser = parse_why, .args_doc = "[DIR...]\nJOB", .doc = why_doc};
    gw_err err;
    if (a == NULL) return 1;
    gw_argp_parse(&argp, argc, argv, a);
    int code = is_job_of_flock(a) ? gw_why_of_flock(argv[0], a->under, a->named, a->json)
               : why(a, &err)     ? 0
                                  : gw_command_fail(argv[0], &err);
    free(a);
    return code;
}
