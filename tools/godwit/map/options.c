#include "tools/godwit/map/options.h"

#include "core/base/assert.h"
#include "core/flock/spec.h"
#include "kernels/host/cores.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEY_TAG = 256,
    KEY_TAG_STRING,
    KEY_LINE_BUFFER,
    KEY_JOB_LOG,
    KEY_RESUME,
    KEY_RESUME_FAILED,
    KEY_RETRY_FAILED,
    KEY_HALT,
    KEY_RETRIES,
    KEY_TIMEOUT,
    KEY_GRACE,
    KEY_DELAY,
    KEY_MEMORY,
    KEY_NICE,
    KEY_BAR,
    KEY_DRY_RUN,
    KEY_RESULTS,
    KEY_TMPDIR,
    KEY_WORKDIR,
    KEY_ENV,
    KEY_SHELL,
    KEY_LINK,
    KEY_JSON,
    KEY_CHILD,
    KEY_HERE,
    KEY_FLOCK,
    KEY_DETACH,
    KEY_NAME,
    KEY_NODES,
    KEY_PRIORITY,
    KEY_FILES,
    KEY_FETCH,
    KEY_TRANSFER,
    KEY_TRC,
};

static const struct argp_option table[] = {
    {0, 0, 0, 0, "Inputs:", 1},
    {"arg-file", 'a', "FILE", 0, "Read inputs from FILE, one on a line, as :::: FILE does", 1},
    {"null", '0', 0, 0, "The inputs of files end with zero bytes instead of line feeds", 1},
    {"delimiter", 'd', "CHAR", 0, "The inputs of files end with this character: also \\t, \\n, \\0", 1},
    {"max-replace-args", 'N', "N", 0, "Take N inputs for one task: {1} to {N}; with 0 none is put in", 1},
    {"max-args", 'n', "N", 0, "Take up to N inputs for one task, {} is all of them", 1},
    {"colsep", 'C', "REGEXP", 0, "Cut each input at REGEXP into {1}, {2} and so on", 1},
    {"link", KEY_LINK, 0, 0, "Go through all input sources together, instead of all combinations", 1},
    {"replace", 'I', "TEXT", 0, "TEXT stands for the input instead of {}", 1},
    {"quote", 'q', 0, 0, "Every word of the command is one word for the shell as well", 1},

    {0, 0, 0, 0, "Tasks:", 2},
    {"jobs", 'j', "N", 0,
     "Run N tasks at a time, on a flock on each of its nodes; also N% of the processors, +N, -N, or 0 for "
     "many (100%)",
     2},
    {"retries", KEY_RETRIES, "N", 0, "Run a task that fails up to N times (1)", 2},
    {"timeout", KEY_TIMEOUT, "TIME", 0, "End a task after TIME, or after N% of the median", 2},
    {"grace", KEY_GRACE, "TIME", 0, "The time between SIGTERM and SIGKILL where a task is ended (10s)", 2},
    {"halt", KEY_HALT, "WHEN", 0,
     "End the map early: now or soon, with fail, success or done = N or N%, such as now,fail=1 (never)", 2},
    {"delay", KEY_DELAY, "TIME", 0, "Wait so long between two starts, on a flock on each node", 2},
    {"memfree", KEY_MEMORY, "SIZE", 0, "Start no task while less memory is free, such as 2G", 2},
    {"nice", KEY_NICE, "N", 0, "Run tasks at a priority that is N lower", 2},
    {"workdir", KEY_WORKDIR, "DIR", 0, "Run tasks in DIR", 2},
    {"env", KEY_ENV, "NAME[=VALUE]", 0,
     "Set a variable for the tasks, or have it as here: on a flock they have no others but PATH, HOME and "
     "the like",
     2},
    {"shell", KEY_SHELL, "FILE", 0, "The shell of commands that need one (/bin/sh)", 2},

    {0, 0, 0, 0, "Output:", 3},
    {"keep-order", 'k', 0, 0, "Print outputs in the order of the inputs", 3},
    {"line-buffer", KEY_LINE_BUFFER, 0, 0, "Print whole lines as they come, not whole outputs", 3},
    {"ungroup", 'u', 0, 0, "Let tasks write by themselves: outputs mix", 3},
    {"tag", KEY_TAG, 0, 0, "Print the inputs of the task and a tab before each line", 3},
    {"tagstring", KEY_TAG_STRING, "TEXT", 0, "The same with TEXT, in which {} and the like are replaced", 3},
    {"results", KEY_RESULTS, "DIR", 0, "Write the outputs to files below DIR, too", 3},
    {"tmpdir", KEY_TMPDIR, "DIR", 0, "Keep large outputs in DIR until they are printed ($TMPDIR or /tmp)", 3},
    {"bar", KEY_BAR, 0, 0, "Show on the terminal how far the map is, and how long it will take", 3},
    {"eta", KEY_BAR, 0, 0, "The same as --bar", 3},
    {"verbose", 't', 0, 0,
     "Print each command on standard error when it starts, on a flock when it has ended", 3},
    {"dry-run", KEY_DRY_RUN, 0, 0, "Print the commands and run none", 3},
    {"json", KEY_JSON, 0, 0, "Print a line of JSON for each task instead of its output, and one at the end",
     3},

    {0, 0, 0, 0, "Going on:", 4},
    {"joblog", KEY_JOB_LOG, "FILE", 0, "Write a line about each task to FILE", 4},
    {"resume", KEY_RESUME, 0, 0, "Pass over tasks that the job log has, and add to it", 4},
    {"resume-failed", KEY_RESUME_FAILED, 0, 0, "Pass over tasks that succeeded by the job log, and add to it",
     4},
    {0, 0, 0, 0,
     "On a flock ('godwit up'), whose nodes all run tasks where this machine is a node of one:", 5},
    {"here", KEY_HERE, 0, 0, "Run all tasks on this machine", 5},
    {"flock", KEY_FLOCK, "DIR", 0,
     "The member's directory (~/.local/state/godwit/flock/MACHINE, or GODWIT_FLOCK)", 5},
    {"detach", KEY_DETACH, 0, 0, "Hand the map over, and print the job's name", 5},
    {"name", KEY_NAME, "NAME", 0, "What the job is called (its program and a number)", 5},
    {"nodes", KEY_NODES, "N", 0, "How many nodes it may have (all)", 5},
    {"priority", KEY_PRIORITY, "N", 0, "A priority of 1 is worth 128 places in the queue (0)", 5},
    {"files", KEY_FILES, "PATH", 0,
     "A file or folder of this directory that nodes without the directory get (repeatable)", 5},
    {"transfer", KEY_TRANSFER, 0, 0,
     "Inputs that are files of this directory go to nodes without the directory", 5},
    {"fetch", KEY_FETCH, "NAME", 0,
     "Bring this file back from such a node, in whose name {} and the like are replaced (repeatable)", 5},
    {"return", KEY_FETCH, "NAME", 0, "The same as --fetch", 5},
    {"trc", KEY_TRC, "NAME", 0, "--transfer and --fetch", 5},
    {"child", KEY_CHILD, "FOLDER", OPTION_HIDDEN, "Be the child of a flock's member", 4},
    {"retry-failed", KEY_RETRY_FAILED, 0, 0, "Run the commands that failed by the job log, and add to it", 4},
    {0}};

static const char doc[] =
    "Runs a command for each input, several at a time, as GNU parallel does.\v"
    "Inputs are the words behind :::, the lines of the files behind ::::, or those of standard input. "
    "Several ::: give all "
    "combinations, :::+ goes on with the source before it. In the command {} is the input, {.} the input "
    "without its "
    "extension, {/} its file name, {//} its folder, {/.} its file name without the extension, {2} the second "
    "input ({2.} "
    "and so on as well), {#} the number of the task and {%} that of its slot. Inputs are quoted for the "
    "shell. Tasks know "
    "GODWIT_JOB, GODWIT_TASK and GODWIT_ATTEMPT.\n\n"
    "Ctrl-C lets the tasks that run end; Ctrl-C again ends them.\n\n"
    "The exit code is the number of tasks that failed, at most 101; 255 where the map itself failed.";

bool gw_map_parse_time(const char *text, uint64_t *time_ns) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    double number = strtod(text, &end);
    if (end == text || !isfinite(number) || number < 0) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0 || number * units[i].seconds > 1e9) continue;
        *time_ns = (uint64_t)(number * units[i].seconds * 1e9);
        return true;
    }
    return false;
}

/* "3" or "10%". */
static bool parse_count(const char *text, uint64_t *count, double *percent) {
    char *end;
    double number = strtod(text, &end);
    *percent = 0;
    if (end != text && strcmp(end, "%") == 0 && number > 0 && number <= 100) {
        *percent = number;
        return true;
    }
    return gw_number_read(text, 1, UINT32_MAX, count);
}

bool gw_map_parse_halt(const char *text, gw_map_halt *halt) {
    static const struct {
        const char *text;
        gw_map_halt halt;
    } old[] = {{"never", {GW_MAP_HALT_NEVER, GW_MAP_HALT_FAIL, 0, 0}},
               {"0", {GW_MAP_HALT_NEVER, GW_MAP_HALT_FAIL, 0, 0}},
               {"1", {GW_MAP_HALT_SOON, GW_MAP_HALT_FAIL, 1, 0}},
               {"2", {GW_MAP_HALT_NOW, GW_MAP_HALT_FAIL, 1, 0}}};
    static const char *const whats[] = {"fail=", "success=", "done="};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        if (strcmp(text, old[i].text) == 0) {
            *halt = old[i].halt;
            return true;
        }
    gw_map_halt read = {.when = GW_MAP_HALT_NEVER};
    if (strncmp(text, "now,", 4) == 0) read.when = GW_MAP_HALT_NOW;
    if (strncmp(text, "soon,", 5) == 0) read.when = GW_MAP_HALT_SOON;
    if (read.when == GW_MAP_HALT_NEVER) return false;
    text = strchr(text, ',') + 1;
    for (int what = 0; what < 3; what++) {
        size_t length = strlen(whats[what]);
        if (strncmp(text, whats[what], length) != 0) continue;
        read.what = (gw_map_halt_what)what;
        if (!parse_count(text + length, &read.count, &read.percent)) return false;
        *halt = read;
        return true;
    }
    return false;
}

bool gw_map_parse_slots(const char *text, uint32_t cores, uint32_t *slots) {
    uint64_t number;
    char *end;
    double percent = strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0 && percent > 0 && percent <= 1e6) {
        double count = cores * percent / 100;
        *slots = count < 1 ? 1 : count > GW_MAP_SLOTS_MOST ? GW_MAP_SLOTS_MOST : (uint32_t)count;
        return true;
    }
    bool relative = text[0] == '+' || text[0] == '-';
    if (!gw_number_read(relative ? text + 1 : text, 0, GW_MAP_SLOTS_MOST, &number)) return false;
    if (text[0] == '+') number = number + cores < GW_MAP_SLOTS_MOST ? number + cores : GW_MAP_SLOTS_MOST;
    if (text[0] == '-') number = number < cores ? cores - number : 1;
    *slots = (uint32_t)number;
    return true;
}

/* "2G", "500M", "1048576": a size in bytes. */
static bool parse_size(const char *text, uint64_t *bytes) {
    static const char units[] = "kMGT";
    char *end;
    double number = strtod(text, &end);
    const char *unit = *end == 'K' ? units : *end != '\0' ? strchr(units, *end) : NULL;
    if (end == text || !isfinite(number) || number < 0 || (*end != '\0' && (unit == NULL || end[1] != '\0')))
        return false;
    for (const char *at = units; unit != NULL && at <= unit; at++) number *= 1024;
    if (number > 1e18) return false;
    *bytes = (uint64_t)number;
    return true;
}

static bool parse_character(const char *text, char *character) {
    static const struct {
        const char *text;
        char character;
    } names[] = {{"\\t", '\t'}, {"\\n", '\n'}, {"\\0", '\0'}, {"\\\\", '\\'}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i].text) == 0) {
            *character = names[i].character;
            return true;
        }
    *character = text[0];
    return strlen(text) == 1;
}

static void add_source(struct argp_state *state, gw_map_line *l, const gw_map_inputs_source *source) {
    if (l->source_count == GW_MAP_SOURCES_MOST)
        gw_argp_error(state, "there are more than %d input sources", GW_MAP_SOURCES_MOST);
    l->sources[l->source_count++] = *source;
}

/* Sets a variable of the environment, in the place of an older value. */
static void set_variable(gw_map_line *l, char *variable) {
    size_t name = strcspn(variable, "=");
    uint32_t i = 0;
    while (i < l->environment_count &&
           (strncmp(l->environment[i], variable, name) != 0 || l->environment[i][name] != '='))
        i++;
    if (i + 1 >= l->environment_room) {
        l->environment_room = 2 * l->environment_room + 64;
        l->environment = realloc(l->environment, l->environment_room * sizeof(char *));
        GW_ASSERT_MEMORY(l->environment != NULL);
    }
    l->environment[i] = variable;
    if (i == l->environment_count) l->environment[++l->environment_count] = NULL;
}

static void take_time(struct argp_state *state, const char *option, const char *text, uint64_t *time_ns) {
    if (!gw_map_parse_time(text, time_ns))
        gw_argp_error(state, "%s: '%s' is not a time such as 10, 500ms, 2m or 1h", option, text);
}

static void take_timeout(struct argp_state *state, const char *text, gw_map_options *o) {
    char *end;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0) {
        take_time(state, "--timeout", text, &o->timeout_ns);
        if (o->timeout_ns == 0) gw_argp_error(state, "--timeout: '%s' is no time at all", text);
        return;
    }
    if (percent < 1 || percent > 1e6)
        gw_argp_error(state, "--timeout: '%s' is not between 1%% and 1000000%%", text);
    o->timeout_percent = (uint32_t)percent;
}

static void take_directory(struct argp_state *state, const char *option, const char *path,
                           const char **directory) {
    struct stat status;
    if (stat(path, &status) != 0) gw_argp_error(state, "%s: '%s': %s", option, path, strerror(errno));
    if (!S_ISDIR(status.st_mode)) gw_argp_error(state, "%s: '%s' is no folder", option, path);
    *directory = path;
}

static error_t parse_input(int key, char *text, struct argp_state *state, gw_map_line *l) {
    gw_map_options *o = &l->options;
    switch (key) {
    case 'a':
        add_source(state, l, &(gw_map_inputs_source){.path = text});
        return 0;
    case '0':
        o->inputs.separator = '\0';
        return 0;
    case 'd':
        if (!parse_character(text, &o->inputs.separator))
            gw_argp_error(state, "--delimiter: '%s' is no single character", text);
        return 0;
    case 'N':
        o->inputs.most = (uint32_t)gw_number_of_option(state, "--max-replace-args", text, 0, 1 << 20);
        o->repeat = true;
        return 0;
    case 'n':
        o->inputs.most = (uint32_t)gw_number_of_option(state, "--max-args", text, 1, 1 << 20);
        o->repeat = false;
        return 0;
    case 'C':
        o->inputs.column = text;
        return 0;
    case KEY_LINK:
        o->inputs.link = true;
        return 0;
    case 'I':
        if (text[0] == '\0') gw_argp_error(state, "--replace: an empty text stands for nothing");
        o->replace = text;
        return 0;
    case 'q':
        o->quote = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_task(int key, char *text, struct argp_state *state, gw_map_line *l) {
    gw_map_options *o = &l->options;
    switch (key) {
    case 'j':
        if (!gw_map_parse_slots(text, gw_cores(), &o->slots))
            gw_argp_error(state, "--jobs: '%s' is no number of tasks such as 8, 50%%, +2, -1 or 0, up to %d",
                          text, GW_MAP_SLOTS_MOST);
        l->slots_given = true;
        return 0;
    case KEY_RETRIES:
        o->attempts = (uint32_t)gw_number_of_option(state, "--retries", text, 1, 1 << 20);
        return 0;
    case KEY_TIMEOUT:
        take_timeout(state, text, o);
        return 0;
    case KEY_GRACE:
        take_time(state, "--grace", text, &o->grace_ns);
        return 0;
    case KEY_HALT:
        if (!gw_map_parse_halt(text, &o->halt))
            gw_argp_error(
                state,
                "--halt: '%s' is none of never, now,fail=1, soon,success=3, soon,fail=10%% and the like",
                text);
        return 0;
    case KEY_DELAY:
        take_time(state, "--delay", text, &o->delay_ns);
        return 0;
    case KEY_MEMORY:
        if (!parse_size(text, &o->least_memory))
            gw_argp_error(state, "--memfree: '%s' is no size such as 500M or 2G", text);
        return 0;
    case KEY_NICE:
        o->nice = (int)gw_number_of_option(state, "--nice", text, 0, 39);
        return 0;
    case KEY_WORKDIR:
        take_directory(state, "--workdir", text, &o->directory);
        return 0;
    case KEY_ENV:
        if (text[0] == '=' || text[0] == '\0')
            gw_argp_error(state, "--env: '%s' has no name of a variable", text);
        if (l->variable_count < GW_MAP_SHARED_WORDS) l->variables[l->variable_count++] = text;
        if (strchr(text, '=') != NULL) set_variable(l, text); /* what is in the environment is there anyway */
        return 0;
    case KEY_SHELL:
        if (strchr(text, '/') == NULL || access(text, X_OK) != 0)
            gw_argp_error(state, "--shell: '%s' is no path of a shell, such as /bin/bash", text);
        o->shell = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_output(int key, char *text, struct argp_state *state, gw_map_line *l) {
    gw_map_options *o = &l->options;
    switch (key) {
    case 'k':
        o->keep_order = true;
        return 0;
    case KEY_LINE_BUFFER:
        o->print = GW_MAP_PRINT_LINES;
        return 0;
    case 'u':
        o->print = GW_MAP_PRINT_MIXED;
        return 0;
    case KEY_TAG_STRING:
        o->tag_text = text;
        o->tag = true;
        return 0;
    case KEY_TAG:
        o->tag = true;
        return 0;
    case KEY_RESULTS:
        o->results = text;
        return 0;
    case KEY_TMPDIR:
        take_directory(state, "--tmpdir", text, &o->folder);
        return 0;
    case KEY_BAR:
        o->bar = true;
        return 0;
    case 't':
        o->verbose = true;
        return 0;
    case KEY_DRY_RUN:
        o->dry_run = true;
        return 0;
    case KEY_JSON:
        o->json = true;
        return 0;
    case KEY_JOB_LOG:
        o->job_log = text;
        return 0;
    case KEY_RESUME:
        o->resume = true;
        return 0;
    case KEY_RESUME_FAILED:
        o->resume_failed = true;
        return 0;
    case KEY_RETRY_FAILED:
        o->retry_failed = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Keeps an option that says how a task is run: wherever it runs. */
static void keep_shared(struct argp_state *state, gw_map_line *l, int key, const char *text) {
    const struct argp_option *option = table;
    while (option->key != key) option++;
    char *word = NULL;
    int length =
        text != NULL ? asprintf(&word, "--%s=%s", option->name, text) : asprintf(&word, "--%s", option->name);
    GW_ASSERT_MEMORY(length >= 0);
    if (l->shared_count == GW_MAP_SHARED_WORDS) gw_argp_error(state, "there are too many options");
    l->shared[l->shared_count++] = word;
}

static void add_fetch(struct argp_state *state, gw_map_line *l, char *text) {
    if (l->options.fetch_count == GW_MAP_FETCHES)
        gw_argp_error(state, "--fetch: there are more than %d names", GW_MAP_FETCHES);
    l->fetch[l->options.fetch_count++] = text;
    l->options.fetch = l->fetch;
    keep_shared(state, l, KEY_FETCH, text);
}

static error_t parse_flock(int key, char *text, struct argp_state *state, gw_map_line *l) {
    switch (key) {
    case KEY_CHILD:
        l->child = text;
        return 0;
    case KEY_HERE:
        l->here = true;
        return 0;
    case KEY_FLOCK:
        l->flock = text;
        return 0;
    case KEY_DETACH:
        l->detach = true;
        return 0;
    case KEY_NAME:
        if (!gw_job_name_is_valid(text))
            gw_argp_error(
                state,
                "--name: '%s' is not 1 to %d letters, digits, dots, dashes and underscores, of which the "
                "first is no dot",
                text, GW_JOB_SPEC_NAME_BYTES);
        l->name = text;
        return 0;
    case KEY_NODES:
        l->nodes = (uint32_t)gw_number_of_option(state, "--nodes", text, 1, GW_JOB_SPEC_NODES);
        return 0;
    case KEY_PRIORITY: {
        char *end;
        long number = strtol(text, &end, 10);
        if (end == text || *end != '\0' || number < -1000 || number > 1000)
            gw_argp_error(state, "--priority: '%s' is no number from -1000 to 1000", text);
        l->priority = (int)number;
        return 0;
    }
    case KEY_FETCH:
        add_fetch(state, l, text);
        return 0;
    case KEY_TRANSFER:
        l->transfer = true;
        return 0;
    case KEY_TRC:
        l->transfer = true;
        add_fetch(state, l, text);
        return 0;
    case KEY_FILES:
        if (l->file_count == GW_MAP_SHARED_WORDS)
            gw_argp_error(state, "--files: there are more than %d; name their folder", GW_MAP_SHARED_WORDS);
        l->files[l->file_count++] = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Checks what options mean together. */
static void check(struct argp_state *state, const gw_map_options *o) {
    if ((o->resume || o->resume_failed || o->retry_failed) &&
        (o->job_log == NULL || strcmp(o->job_log, "-") == 0))
        gw_argp_error(state,
                      "--resume, --resume-failed and --retry-failed go by a job log: give --joblog FILE");
    if (o->resume + o->resume_failed + o->retry_failed > 1)
        gw_argp_error(state,
                      "--resume, --resume-failed and --retry-failed contradict each other: give one of them");
    if (o->print == GW_MAP_PRINT_MIXED && (o->keep_order || o->tag || o->results != NULL || o->json))
        gw_argp_error(
            state,
            "with --ungroup tasks write by themselves: --keep-order, --tag, --results and --json cannot be "
            "with it");
    if (o->json && o->print == GW_MAP_PRINT_LINES)
        gw_argp_error(state, "--json prints a line for a whole task: --line-buffer cannot be with it");
    if (o->results != NULL && o->print == GW_MAP_PRINT_LINES)
        gw_argp_error(state, "--results writes whole outputs: --line-buffer cannot be with it");
}

static bool is_shared(int key) {
    static const int keys[] = {'N',       'n',      'I',       'q',        'j',      KEY_RETRIES, KEY_TIMEOUT,
                               KEY_GRACE, KEY_HALT, KEY_DELAY, KEY_MEMORY, KEY_NICE, KEY_SHELL};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i] == key) return true;
    return false;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    gw_map_line *l = state->input;
    if (is_shared(key)) keep_shared(state, l, key, text);
    if (key == ARGP_KEY_SUCCESS) check(state, &l->options);
    error_t result = parse_input(key, text, state, l);
    if (result == ARGP_ERR_UNKNOWN) result = parse_task(key, text, state, l);
    if (result == ARGP_ERR_UNKNOWN) result = parse_output(key, text, state, l);
    if (result == ARGP_ERR_UNKNOWN) result = parse_flock(key, text, state, l);
    return result;
}

/* The kinds of input sources by the words before them. */
static const struct {
    const char *word;
    bool files, linked;
} kinds[] = {{":::", false, false}, {"::::", true, false}, {":::+", false, true}, {"::::+", true, true}};

static int kind_of(const char *word) {
    for (int i = 0; i < (int)(sizeof kinds / sizeof kinds[0]); i++)
        if (strcmp(word, kinds[i].word) == 0) return i;
    return -1;
}

/* Takes the command and the sources behind it. */
static void take_operands(struct argp_state *state, gw_map_line *l, int argc, char **argv) {
    static char standard[] = "-";
    int at = 0, kind;
    while (at < argc && kind_of(argv[at]) < 0) at++;
    l->options.words = argv;
    l->options.word_count = (uint32_t)at;
    while (at < argc) {
        kind = kind_of(argv[at++]);
        int from = at;
        while (at < argc && kind_of(argv[at]) < 0) at++;
        bool linked = kinds[kind].linked;
        if (kinds[kind].files && from == at)
            gw_argp_error(state, "no file stands behind '%s'", kinds[kind].word);
        for (int i = from; kinds[kind].files && i < at; i++)
            add_source(state, l, &(gw_map_inputs_source){.path = argv[i], .linked = linked && i == from});
        if (!kinds[kind].files)
            add_source(state, l,
                       &(gw_map_inputs_source){
                           .words = argv + from, .count = (uint32_t)(at - from), .linked = linked});
    }
    if (l->source_count == 0 && l->child == NULL)
        add_source(state, l, &(gw_map_inputs_source){.path = standard});
    if (l->options.retry_failed && l->options.word_count > 0)
        gw_argp_error(state, "--retry-failed takes its commands from the job log: give no command");
}

void gw_map_line_parse(int argc, char **argv, gw_map_line *l) {
    extern char **environ;
    const struct argp argp = {
        .options = table, .parser = parse, .args_doc = "[COMMAND...] [::: INPUT...]", .doc = doc};
    const char *folder = getenv("TMPDIR");
    argp_err_exit_status = GW_MAP_TROUBLE;
    *l = (gw_map_line){.options = {.inputs = {.separator = '\n', .most = 1},
                                   .slots = gw_cores(),
                                   .attempts = 1,
                                   .grace_ns = UINT64_C(10000000000),
                                   .folder = folder != NULL && folder[0] != '\0' ? folder : "/tmp",
                                   .shell = "/bin/sh"}};
    for (char **variable = environ; *variable != NULL; variable++)
        if (strncmp(*variable, "GODWIT_JOB=", 11) != 0 && strncmp(*variable, "GODWIT_TASK=", 12) != 0 &&
            strncmp(*variable, "GODWIT_ATTEMPT=", 15) != 0)
            set_variable(l, *variable);
    int operands = gw_argp_operands(&argp, argc, argv);
    bool dashes = operands < argc && strcmp(argv[operands], "--") == 0;
    if (gw_argp_parse(&argp, operands, argv, l) != 0) exit(GW_MAP_TROUBLE);
    operands += dashes;
    take_operands(&(struct argp_state){.name = argv[0]}, l, argc - operands, argv + operands);
    gw_map_options *o = &l->options;
    o->inputs.sources = l->sources;
    o->inputs.source_count = l->source_count;
    o->inputs.whole = o->bar || o->halt.percent > 0;
    o->environment = l->environment;
}

void gw_map_line_free(gw_map_line *l) {
    for (uint32_t i = 0; i < l->shared_count; i++) free(l->shared[i]);
    free(l->environment);
    l->environment = NULL;
}
