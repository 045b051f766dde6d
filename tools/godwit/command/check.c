/* `godwit check FILE.py` becomes the Python that `godwit run FILE.py` would use, with the check of the module
 * godwit (tools/python/godwit/check.py). */
#include "kernels/jobs/program/program.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char check_doc[] =
    "Computes a few shards of a Python program's job, and updates, in several processes and in several "
    "orders, "
    "and compares the bytes. Where they differ it says in what, and which lines of the program may cause "
    "it.\v"
    "As for 'godwit run', the program's own arguments stand behind --.\n\n"
    "The exit code is 0 where nothing was found, 1 where something was, and 2 where the program could not be "
    "checked. What was found is wrong; a program in which nothing was found may still be impure in what "
    "those "
    "shards do not reach. On a flock, 'godwit run --verify 1%' goes on checking.";

enum { SEED = 's', PYTHON = 'p', SHARDS = 256, STEPS, THREADS, LIMIT };

static const struct argp_option check_options[] = {
    {"python", PYTHON, "FILE", 0, "The Python that runs the program; default: as 'godwit run'", 0},
    {"seed", SEED, "N", 0, "The job's seed; default: 1", 0},
    {"shards", SHARDS, "N", 0,
     "Compute so many shards of each step, and half as many of an evaluation; default: 4", 0},
    {"steps", STEPS, "N", 0, "Compute so many steps; default: 2", 0},
    {"threads", THREADS, "N", 0, "Threads of a computation; 2 (or 1) are tried as well; default: 1", 0},
    {"limit", LIMIT, "SECONDS", 0, "Take no longer than this; default: 600", 0},
    {0},
};

/* The options that the check itself takes, and their bounds, which are the check's. */
static const struct {
    int key;
    const char *name;
    uint64_t least, most;
} handed_on[] = {{SEED, "--seed", 0, INT64_MAX},
                 {SHARDS, "--shards", 1, 1048575},
                 {STEPS, "--steps", 1, 1000},
                 {THREADS, "--threads", 1, GW_PROGRAM_THREADS_MOST},
                 {LIMIT, "--limit", 1, UINT64_C(1) << 31}};

enum { HANDED_ON = sizeof handed_on / sizeof handed_on[0] };

typedef struct options {
    const char *python, *file;
    const char *values[HANDED_ON]; /* NULL: the option is not given */
    char **arguments;              /* of the program, which end with NULL */
} options;

static error_t parse_check(int key, char *arg, struct argp_state *state) {
    options *o = state->input;
    for (size_t i = 0; i < HANDED_ON; i++) {
        if (key != handed_on[i].key) continue;
        (void)gw_number_of_option(state, handed_on[i].name, arg, handed_on[i].least, handed_on[i].most);
        o->values[i] = arg;
        return 0;
    }
    switch (key) {
    case PYTHON:
        if (arg[0] == '\0') gw_argp_error(state, "--python: the name is empty");
        o->python = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (!gw_program_is_script(arg))
            gw_argp_error(state, "'%s' is no Python program: give a FILE.py", arg);
        o->file = arg;
        o->arguments = &state->argv[state->next];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (o->file == NULL) gw_argp_error(state, "give the FILE.py to check");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What Python runs. Its first argument says where the choice of Python comes from. The folder in which the
 * command is given holds no modules of the check. */
static const char code[] =
    "import importlib.util, sys\n"
    "origin = sys.argv.pop(1)\n"
    "sys.path[:] = [place for place in sys.path if place]\n"
    "if importlib.util.find_spec('godwit') is None:\n"
    "    print(f'godwit check: the Python {sys.executable}, {origin}, has no module godwit: "
    "install it there, '\n"
    "          'or name another Python with --python', file=sys.stderr)\n"
    "    sys.exit(2)\n"
    "from godwit import check\n"
    "sys.exit(check.main(sys.argv[1:]))\n";

/* Becomes Python. Returns where that fails. */
static void become(const options *o, const char *python, const char *origin) {
    const char *first[] = {python, "-c", code, origin};
    size_t given = 0, count = 0, firsts = sizeof first / sizeof first[0];
    while (o->arguments[given] != NULL) given++;
    const char **argv = calloc(firsts + 2 * HANDED_ON + 1 + given + 1, sizeof *argv);
    if (argv == NULL) {
        errno = ENOMEM;
        return;
    }
    for (size_t i = 0; i < firsts; i++) argv[count++] = first[i];
    for (size_t i = 0; i < HANDED_ON; i++) {
        if (o->values[i] == NULL) continue;
        argv[count++] = handed_on[i].name;
        argv[count++] = o->values[i];
    }
    argv[count++] = o->file;
    memcpy(argv + count, o->arguments, given * sizeof *argv);
    (void)execvp(python, (char *const *)(uintptr_t)argv);
    free(argv);
}

int gw_check_main(int argc, char **argv) {
    options o = {.file = NULL};
    struct argp argp = {check_options, parse_check, "FILE.py [-- ARGUMENT...]", check_doc, NULL, NULL, NULL};
    gw_argp_parse(&argp, argc, argv, &o);
    if (access(o.file, R_OK) != 0) {
        gw_err err;
        gw_fail(&err, GW_E_USAGE, "the program %s cannot be read: %s", o.file, strerror(errno));
        return gw_command_fail(argv[0], &err);
    }
    const char *origin, *python = gw_program_python(o.python, &origin);
    become(&o, python, origin);
    if (errno == ENOENT)
        fprintf(stderr, "%s: there is no Python '%s', %s; name another with --python\n", argv[0], python,
                origin);
    else
        fprintf(stderr, "%s: cannot start '%s', the Python %s: %s\n", argv[0], python, origin,
                strerror(errno));
    return 2;
}
