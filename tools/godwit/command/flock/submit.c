/* `godwit submit` hands a job to the flock. */
#include "core/base/assert.h"
#include "core/flock/spec.h"
#include "core/os/clock.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/command/flock/hand_over.h"
#include "tools/godwit/command/flock/pack.h"
#include "tools/godwit/command/flock/token.h"
#include "tools/godwit/options/jobs.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAME = 512,
    NODES,
    CORES,
    MEMORY,
    GPUS,
    PRIORITY,
    SHARES,
    RETRIES,
    AFTER,
    HOLD,
    RIGID,
    ENV,
    ENV_FILE,
    SWEEP,
    FILES,
    WAIT
};
enum { MOST = 64, SWEPT = 4096 };

typedef struct choice {
    gw_flock_place place;
    const char *name, *environment_file;
    uint64_t least, most, cores, memory, gpus, shares, retries;
    int64_t priority;
    bool hold, rigid, wait, is_command;
    const char *after[MOST], *environment[MOST], *sweep[MOST], *files[MOST];
    uint32_t after_count, environment_count, sweep_count, file_count;
    char **words;
    int word_count;
} choice;
/* Options of `godwit run` that the member gives. */
static const char *const own[] = {"--dir",          "--listen", "--advertise", "--join",
                                  "--join-timeout", "--key",    "--cluster",   "--peers",
                                  "--name",         "--grace",  "-d"};

static void take_nodes(struct argp_state *state, char *text, choice *c) {
    char *dots = strstr(text, "..");
    if (dots != NULL) *dots = '\0';
    bool good = gw_number_read(text, 1, GW_JOB_SPEC_NODES, &c->least) &&
                (dots == NULL || gw_number_read(dots + 2, c->least, GW_JOB_SPEC_NODES, &c->most));
    if (dots != NULL) *dots = '.';
    if (!good)
        gw_argp_error(state, "--nodes: '%s' is neither a number of nodes nor a range such as 2..8", text);
    if (dots == NULL) c->most = c->least;
}

static void add(struct argp_state *state, const char *option, const char *text, const char **list,
                uint32_t *count) {
    if (*count == MOST) gw_argp_error(state, "%s: more than %d", option, MOST);
    list[(*count)++] = text;
}

static void take_after(struct argp_state *state, char *text, choice *c) {
    char *rest = NULL;
    for (char *one = strtok_r(text, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest))
        add(state, "--after", one, c->after, &c->after_count);
}

static error_t parse_more(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    char *end;
    switch (key) {
    case PRIORITY:
        c->priority = strtol(arg, &end, 10);
        if (end == arg || *end != '\0' || c->priority < -1000 || c->priority > 1000)
            gw_argp_error(state, "--priority: '%s' is no number from -1000 to 1000", arg);
        return 0;
    case AFTER:
        take_after(state, arg, c);
        return 0;
    case HOLD:
        c->hold = true;
        return 0;
    case RIGID:
        c->rigid = true;
        return 0;
    case ENV:
        add(state, "--env", arg, c->environment, &c->environment_count);
        return 0;
    case ENV_FILE:
        c->environment_file = arg;
        return 0;
    case SWEEP:
        if (strchr(arg, '=') == NULL || strchr(arg, '=') == arg)
            gw_argp_error(state, "--sweep: '%s' is not NAME=VALUE,VALUE,...", arg);
        add(state, "--sweep", arg, c->sweep, &c->sweep_count);
        return 0;
    case FILES:
        add(state, "--files", arg, c->files, &c->file_count);
        return 0;
    case WAIT:
        c->wait = true;
        return 0;
    case ARGP_KEY_END:
        if (c->word_count <= 0)
            gw_argp_error(state, "give a job, as to 'godwit run', or a command behind --");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_submit(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->place;
        return 0;
    case NAME:
        if (!gw_job_name_is_valid(arg))
            gw_argp_error(state,
                          "--name: '%s': a name is 1 to %d letters, digits, dots, dashes and underscores",
                          arg, GW_JOB_SPEC_NAME_BYTES);
        c->name = arg;
        return 0;
    case NODES:
        take_nodes(state, arg, c);
        return 0;
    case CORES:
        c->cores = gw_number_of_option(state, "--cores", arg, 1, 65536);
        return 0;
    case MEMORY:
        c->memory = gw_number_memory_of_option(state, "--memory", arg);
        return 0;
    case GPUS:
        c->gpus = gw_number_of_option(state, "--gpus", arg, 0, 4096);
        return 0;
    case SHARES:
        c->shares = gw_number_of_option(state, "--shares", arg, 1, 1000000);
        return 0;
    case RETRIES:
        c->retries = gw_number_of_option(state, "--retries", arg, 0, GW_JOB_SPEC_RETRIES);
        return 0;
    default:
        return parse_more(key, arg, state);
    }
}

static const struct argp_option submit_options[] = {
    {"name", NAME, "NAME", 0, "What the job is called (its first word and a number)", 0},
    {"nodes", NODES, "N[..M]", 0, "How many nodes it needs to start, and may have (1)", 0},
    {"cores", CORES, "N", 0,
     "Cores that it gets of each node (a command: 1; a job of steps: those of the smallest node)", 0},
    {"memory", MEMORY, "SIZE", 0,
     "Memory of each node, such as 512M or 2G; processes of a job that has more are killed (any)", 0},
    {"gpus", GPUS, "N", 0, "GPUs of each node (0)", 0},
    {"priority", PRIORITY, "N", 0, "A priority of 1 is worth 128 places in the queue (0)", 0},
    {"shares", SHARES, "N", 0, "Its share of nodes beyond what jobs need (1)", 0},
    {"retries", RETRIES, "N", 0, "How often it is tried again after a failure (0)", 0},
    {"after", AFTER, "JOB[,...]", 0, "Wait until these jobs are done", 0},
    {"hold", HOLD, NULL, 0, "Wait until 'godwit release'", 0},
    {"rigid", RIGID, NULL, 0, "It cannot go on with fewer nodes than it needs to start", 0},
    {"env", ENV, "NAME[=VALUE]", 0, "A variable of its environment, beside PATH, HOME and the like", 0},
    {"env-file", ENV_FILE, "PATH", 0, "A file of NAME=VALUE lines that each node reads: for secrets", 0},
    {"sweep", SWEEP, "NAME=V,...", 0,
     "Submit a job for each value: --NAME=V is added to it, or {NAME} is replaced", 0},
    {"files", FILES, "PATH", 0,
     "A file or folder of this directory that a node without the directory gets (repeatable)", 0},
    {"wait", WAIT, NULL, 0, "Return when it is over, with exit code 0 if it is done", 0},
    {0},
};

static const char submit_doc[] =
    "Hands a job to the flock: one of steps, written as for 'godwit run', or any command behind --.\v"
    "It is acknowledged when two nodes of the flock have it, and the files that travel with it, on their "
    "disks. It runs in the directory where it was submitted; a node that does not have that directory makes "
    "an empty one with these files: the script that the job runs, the modules of its folder that it imports, "
    "and what --files names, of which names that begin with a dot are left out unless they are given; "
    "4,096 files and 16 MiB at most. A job of steps resumes from its checkpoints when a node dies; a command "
    "runs again from its beginning: its effects may happen more than once.\n\n"
    "  godwit submit --nodes 1..4 digits --epochs 3\n"
    "  godwit submit --name films --retries 2 -- make -j4 films\n"
    "  godwit submit --files data.csv --files lib -- python3 fit.py data.csv";

/* Building the submission. */

/* The name of a job that was given none: its first word without its folder and ending, and its number. */
static void name_job(const choice *c, int64_t number, int64_t swept, char *name, size_t size) {
    char word[41];
    const char *slash = strrchr(c->words[0], '/');
    if (c->name != NULL && swept == 0)
        snprintf(name, size, "%s", c->name);
    else if (c->name != NULL)
        snprintf(name, size, "%.50s-%lld", c->name, (long long)swept);
    if (c->name != NULL) return;
    snprintf(word, sizeof word, "%s", slash != NULL ? slash + 1 : c->words[0]);
    char *dot = strrchr(word, '.');
    if (dot != NULL && dot != word) *dot = '\0';
    for (char *at = word; *at != '\0'; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9')) ||
            *at < 0)
            *at = '_';
    snprintf(name, size, "%s-%lld", word[0] != '\0' ? word : "job", (long long)number);
}

/* The values of one job of a sweep: combination `at` of all values. */
typedef struct combination {
    char name[MOST][64], value[MOST][256];
} combination;

static uint64_t combinations(const choice *c) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < c->sweep_count; i++) {
        uint64_t values = 1;
        for (const char *at = c->sweep[i]; *at != '\0'; at++) values += *at == ',';
        count = count > SWEPT ? count : count * values;
    }
    return count;
}

static void choose_values(const choice *c, uint64_t at, combination *chosen) {
    for (uint32_t i = c->sweep_count; i-- > 0;) {
        const char *equals = strchr(c->sweep[i], '='), *value = equals + 1;
        uint64_t values = 1;
        for (const char *k = value; *k != '\0'; k++) values += *k == ',';
        snprintf(chosen->name[i], sizeof chosen->name[i], "%.*s", (int)(equals - c->sweep[i]), c->sweep[i]);
        for (uint64_t skip = at % values; skip > 0; skip--) value = strchr(value, ',') + 1;
        snprintf(chosen->value[i], sizeof chosen->value[i], "%.*s", (int)strcspn(value, ","), value);
        at /= values;
    }
}

/* Replaces {NAME} in a word. Returns text that the caller frees. */
static char *fill(const choice *c, const combination *chosen, const char *word, bool *used) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    GW_ASSERT_MEMORY(out != NULL);
    while (*word != '\0') {
        uint32_t i = 0;
        size_t length = 0;
        for (; i < c->sweep_count; i++) {
            length = strlen(chosen->name[i]);
            if (word[0] == '{' && strncmp(word + 1, chosen->name[i], length) == 0 && word[length + 1] == '}')
                break;
        }
        if (i < c->sweep_count) {
            fputs(chosen->value[i], out);
            used[i] = true;
            word += length + 2;
        } else {
            fputc(*word++, out);
        }
    }
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return text;
}

static json_t *command_of(const choice *c, const combination *chosen) {
    json_t *list = json_array();
    bool used[MOST] = {false};
    for (int i = 0; i < c->word_count; i++) {
        char *word = fill(c, chosen, c->words[i], used);
        json_array_append_new(list, json_string(word));
        free(word);
    }
    for (uint32_t i = 0; i < c->sweep_count; i++) {
        char *word;
        if (used[i]) continue;
        GW_ASSERT_MEMORY(asprintf(&word, "--%s=%s", chosen->name[i], chosen->value[i]) >= 0);
        json_array_append_new(list, json_string(word));
        free(word);
    }
    return list;
}

/* Whether there is a job of steps of this name, as far as that can be told without running it. */
static bool check_job(const char *name, gw_err *err) {
    char code[GW_HASH_TEXT];
    gw_err why;
    if (strpbrk(name, "/{") != NULL || gw_jobs_find(name, code, &why) != NULL) return true;
    return gw_fail(err, GW_E_USAGE, "%s. A command stands behind --", why.text);
}

static bool check_words(const choice *c, gw_err *err) {
    if (c->words[0][0] == '\0') return gw_fail(err, GW_E_USAGE, "the first word of the command is empty");
    if (!c->is_command && !check_job(c->words[0], err)) return false;
    for (int i = 0; i < c->word_count; i++) {
        json_t *text = json_string(c->words[i]);
        json_decref(text);
        if (text == NULL) return gw_fail(err, GW_E_USAGE, "word %d of the command is not UTF-8", i + 1);
        for (size_t k = 0; k < sizeof own / sizeof *own && !c->is_command; k++) {
            size_t length = strlen(own[k]);
            if (strncmp(c->words[i], own[k], length) == 0 &&
                (c->words[i][length] == '\0' || c->words[i][length] == '='))
                return gw_fail(err, GW_E_USAGE, "%s is chosen by the flock, and is not given to submit",
                               own[k]);
        }
    }
    if (c->is_command && c->most > 1) return gw_fail(err, GW_E_USAGE, "--nodes: a command runs on one node");
    if (combinations(c) > SWEPT) return gw_fail(err, GW_E_USAGE, "--sweep: more than %d jobs", SWEPT);
    return true;
}

/* What all jobs of one submission have in common. */
typedef struct common {
    json_t *after;
    char token[GW_TOKEN_TEXT]; /* "": none */
    gw_hash files;             /* all zeros: none travel */
    uint8_t sweep[16];
} shared;

static json_t *describe(const choice *c, const json_t *hello, uint64_t at, int64_t counter,
                        const shared *common) {
    char name[GW_JOB_SPEC_NAME_BYTES + 1], directory[PATH_MAX];
    combination chosen;
    uint64_t cores = c->cores != 0   ? c->cores
                     : c->is_command ? 1
                                     : (uint64_t)gw_flock_number(hello, "least_cores");
    choose_values(c, at, &chosen);
    name_job(c, counter, c->sweep_count > 0 ? (int64_t)at + 1 : 0, name, sizeof name);
    json_t *spec = gw_flock_describe(c->is_command ? "command" : "run", name, counter);
    json_object_set_new(spec, "command", command_of(c, &chosen));
    json_object_set_new(spec, "environment", gw_flock_environment(c->environment, c->environment_count));
    gw_json_text(spec, "environment_file", c->environment_file);
    gw_json_text(spec, "directory", getcwd(directory, sizeof directory));
    if (!c->is_command) gw_json_text(spec, "build", gw_flock_text(hello, "build"));
    gw_json_count(spec, "cores", cores > 0 ? cores : 1);
    gw_json_count(spec, "memory_mib", c->memory);
    gw_json_count(spec, "gpus", c->gpus);
    gw_json_count(spec, "least", c->least);
    gw_json_count(spec, "most", c->most);
    gw_json_count(spec, "shares", c->shares);
    gw_json_count(spec, "retries", c->retries);
    json_object_set_new(spec, "priority", json_integer(c->priority));
    gw_json_flag(spec, "hold", c->hold);
    gw_json_flag(spec, "rigid", c->rigid);
    json_object_set(spec, "after", common->after);
    if (common->token[0] != '\0') gw_json_text(spec, "token", common->token);
    if (!sodium_is_zero(common->files.bytes, sizeof common->files.bytes))
        gw_json_hash(spec, "files", &common->files);
    if (c->sweep_count > 0) gw_json_hex(spec, "sweep", common->sweep, sizeof common->sweep);
    return spec;
}

static json_t *find_after(const choice *c, gw_flock_client *client, gw_err *err) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < c->after_count; i++) {
        if (gw_flock_add_ids(client, c->after[i], list, err)) continue;
        json_decref(list);
        return NULL;
    }
    if (json_array_size(list) <= GW_JOB_SPEC_AFTER) return list;
    gw_fail(err, GW_E_USAGE, "--after: these are %zu jobs, and a job comes after %d others at most",
            json_array_size(list), GW_JOB_SPEC_AFTER);
    json_decref(list);
    return NULL;
}

/* Packs the files that travel, and gives them to the member. */
static bool send_files(const choice *c, gw_flock_client *client, gw_hash *list, gw_err *err) {
    gw_pack *pack = gw_pack_open(err);
    bool good = pack != NULL;
    for (uint32_t i = 0; good && i < c->file_count; i++)
        good = gw_pack_add(pack, c->files[i], "--files", err);
    if (good) gw_pack_add_script(pack, "godwit submit", c->words, c->word_count, c->is_command);
    good = good && gw_pack_seal(pack, list, err) && gw_flock_give_files(client, pack, err);
    gw_pack_close(pack);
    return good;
}

static bool open_common(const choice *c, gw_flock_client *client, shared *common, gw_err *err) {
    gw_err why;
    randombytes_buf(common->sweep, sizeof common->sweep);
    if (!gw_token_take(common->token, &why)) {
        common->token[0] = '\0';
        fprintf(stderr,
                "godwit submit: the job will run in an empty directory of its own, with the files that "
                "travel, as no "
                "token can be left in this one: %s\n",
                why.text);
    }
    return (common->after = find_after(c, client, err)) != NULL && send_files(c, client, &common->files, err);
}

static int submit_all(const choice *c, gw_flock_client *client, gw_err *err) {
    shared common = {.after = NULL};
    json_t *hello = gw_flock_ask(client, json_pack("{s:s}", "do", "hello"), err), *ids = json_array();
    int code = hello != NULL && open_common(c, client, &common, err) ? 0 : -1;
    for (uint64_t i = 0; code == 0 && i < combinations(c); i++) {
        json_t *spec = describe(c, hello, i, gw_flock_number(hello, "counter") + (int64_t)i, &common);
        char name[GW_JOB_SPEC_NAME_BYTES + 1];
        snprintf(name, sizeof name, "%s", gw_flock_text(spec, "name"));
        json_t *answer = gw_flock_submit(client, spec, err);
        if (answer == NULL) {
            code = -1;
            break;
        }
        gw_flock_print_submitted(&c->place, name, answer, gw_flock_number(hello, "members"));
        json_array_append(ids, json_object_get(answer, "id"));
        json_decref(answer);
    }
    if (code == 0 && c->wait) code = gw_flock_wait(client, ids, err);
    json_decref(ids);
    json_decref(hello);
    json_decref(common.after);
    return code;
}

/* Whether an option of the command line takes the next word as its argument. */
static bool takes_next(const struct argp_option *list, const char *word) {
    if (word[1] != '-') return word[1] == 'd' && word[2] == '\0';
    for (; list->name != NULL; list++)
        if (strcmp(list->name, word + 2) == 0) return list->arg != NULL;
    return false;
}

/* The first word of the job, or "--" before a command: what follows it is the job's own. */
static int first_word(int argc, char **argv) {
    int at = 1;
    while (at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0)
        at += takes_next(submit_options, argv[at]) || takes_next(gw_flock_argp.options, argv[at]) ? 2 : 1;
    return at < argc ? at : argc;
}

int gw_submit_main(int argc, char **argv) {
    choice c = {.least = 1, .most = 1, .shares = 1};
    static const struct argp_child children[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};
    struct argp argp = {.options = submit_options,
                        .parser = parse_submit,
                        .args_doc = "JOB [OPTION...]\n-- COMMAND [ARG...]",
                        .doc = submit_doc,
                        .children = children};
    gw_flock_client client;
    gw_err err;
    int first = first_word(argc, argv);
    c.is_command = first < argc && strcmp(argv[first], "--") == 0;
    c.words = argv + first + c.is_command;
    c.word_count = argc - first - c.is_command;
    gw_argp_parse(&argp, first, argv, &c);
    if (!check_words(&c, &err) || !gw_flock_connect(&c.place, &client, &err))
        return gw_command_fail(argv[0], &err);
    int code = submit_all(&c, &client, &err);
    gw_flock_disconnect(&client);
    return code < 0 ? gw_command_fail(argv[0], &err) : code;
}
