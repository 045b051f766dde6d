/* Commands that change something: `godwit cancel`, `hold`, `release`, `priority`, `drain` and `forget`. */
#include "core/base/assert.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { UNDO = 512, BEFORE };

typedef struct choice {
    gw_flock_place place;
    const char *names[GW_FLOCK_JOBS]; /* of jobs or nodes */
    uint32_t count;
    const char *what; /* what the names are of */
    bool takes_priority, undo;
    int64_t priority;
    time_t before;
} choice;

static error_t parse(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    struct tm day = {.tm_isdst = -1};
    char *end;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->place;
        return 0;
    case UNDO:
        c->undo = true;
        return 0;
    case BEFORE:
        end = strptime(arg, "%Y-%m-%d", &day);
        if (end == NULL || *end != '\0')
            gw_argp_error(state, "--before: '%s' is no day such as 2026-11-30", arg);
        c->before = mktime(&day);
        return 0;
    case ARGP_KEY_ARG:
        if (c->what == NULL) gw_argp_error(state, "unexpected argument '%s'", arg);
        if (c->count == GW_FLOCK_JOBS) gw_argp_error(state, "more than %d names", GW_FLOCK_JOBS);
        c->names[c->count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->what != NULL && c->count == 0) gw_argp_error(state, "give the %s", c->what);
        if (c->takes_priority) {
            const char *text = c->count >= 2 ? c->names[--c->count] : "";
            c->priority = strtol(text, &end, 10);
            if (end == text || *end != '\0')
                gw_argp_error(state, "give the JOB and its priority: a number, such as 2 or -2");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child common[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};

/* Asks for the change of a job. Returns the exit code; `alone`: the job was named itself, and not its sweep. */
static int change_job(const char *command, gw_flock_client *client, const json_t *job, bool alone,
                      const char *key, json_t *value) {
    gw_err err;
    const char *name = gw_flock_text(job, "name");
    json_t *request = json_pack("{s:s,s:s,s:O}", "do", "change", "job", gw_flock_text(job, "id"), key, value);
    json_t *answer = gw_flock_ask(client, request, &err);
    int code = 0;
    if (answer == NULL) return gw_command_fail(command, &err);
    if (json_is_true(json_object_get(answer, "was_over"))) {
        if (alone)
            fprintf(stderr, "%s: %s is over already: %s\n", command, name, gw_flock_text(job, "state"));
        code = alone;
    } else if (gw_flock_number(answer, "disks") < 2 && gw_flock_number(answer, "members") > 1) {
        fprintf(stderr, "%s: %s: on %d disk%s so far: other nodes have not confirmed it\n", command, name,
                (int)gw_flock_number(answer, "disks"), gw_flock_number(answer, "disks") == 1 ? "" : "s");
    }
    json_decref(answer);
    return code;
}

/* Asks for the same change of each job. */
static int change_jobs(const char *command, choice *c, const char *key, json_t *value) {
    gw_flock_client client;
    gw_err err;
    int code = 0, one;
    if (!gw_flock_connect(&c->place, &client, &err)) {
        json_decref(value);
        return gw_command_fail(command, &err);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        json_t *found = gw_flock_find_jobs(&client, c->names[i], &err), *job;
        size_t k;
        if (found == NULL) code = gw_command_fail(command, &err);
        json_array_foreach(found, k, job) {
            one = change_job(command, &client, job, json_array_size(found) == 1, key, value);
            if (one != 0 && code != 2) code = one;
        }
        json_decref(found);
    }
    json_decref(value);
    gw_flock_disconnect(&client);
    return code;
}

static void read_jobs(int argc, char **argv, choice *c, const char *args, const char *doc) {
    struct argp argp = {.parser = parse, .args_doc = args, .doc = doc, .children = common};
    gw_argp_parse(&argp, argc, argv, c);
}

#define SWEEP_NAMES                                                                                          \
    "\v"                                                                                                     \
    "JOB may be the name that the jobs of a sweep have before their numbers: all of them."

int gw_cancel_main(int argc, char **argv) {
    choice c = {.what = "JOB"};
    read_jobs(argc, argv, &c, "JOB...",
              "Ends jobs for good, wherever they run, and takes them out of the queue." SWEEP_NAMES);
    return change_jobs(argv[0], &c, "cancel", json_true());
}

int gw_hold_main(int argc, char **argv) {
    choice c = {.what = "JOB"};
    read_jobs(argc, argv, &c, "JOB...",
              "Keeps jobs from running until 'godwit release'; those that run are asked to end, as if a node "
              "left. Of a map the tasks that run may take as long as they like." SWEEP_NAMES);
    return change_jobs(argv[0], &c, "hold", json_true());
}

int gw_release_main(int argc, char **argv) {
    choice c = {.what = "JOB"};
    read_jobs(argc, argv, &c, "JOB...", "Lets jobs run that were held." SWEEP_NAMES);
    return change_jobs(argv[0], &c, "hold", json_false());
}

static bool is_negative(const char *word) {
    return word[0] == '-' && word[1] != '\0' && strspn(word + 1, "0123456789") == strlen(word + 1);
}

int gw_priority_main(int argc, char **argv) {
    choice c = {.what = "JOB", .takes_priority = true};
    char **words = calloc((size_t)argc + 2, sizeof *words), last[] = "--";
    GW_ASSERT_MEMORY(words != NULL);
    int count = argc;
    memcpy(words, argv, (size_t)argc * sizeof *words);
    if (is_negative(argv[argc - 1])) { /* no option */
        words[count - 1] = last;
        words[count++] = argv[argc - 1];
    }
    read_jobs(count, words, &c, "JOB... N",
              "Sets the priority of jobs; one of 1 is worth 128 places in the queue." SWEEP_NAMES);
    free(words);
    return change_jobs(argv[0], &c, "priority", json_integer(c.priority));
}

int gw_drain_main(int argc, char **argv) {
    choice c = {.what = "NODE"};
    static const struct argp_option options[] = {{"undo", UNDO, NULL, 0, "Let the node take jobs again", 0},
                                                 {0}};
    struct argp argp = {.options = options,
                        .parser = parse,
                        .args_doc = "NODE...",
                        .children = common,
                        .doc =
                            "Takes nodes out of use: their jobs leave, and none starts there until --undo."};
    gw_flock_client client;
    gw_err err;
    int code = 0;
    gw_argp_parse(&argp, argc, argv, &c);
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    for (uint32_t i = 0; i < c.count; i++) {
        json_t *node = gw_flock_find_node(&client, c.names[i], &err), *answer = NULL;
        if (node != NULL)
            answer = gw_flock_ask(
                &client,
                json_pack("{s:s,s:s,s:b}", "do", "drain", "node", gw_flock_text(node, "id"), "on", !c.undo),
                &err);
        if (answer == NULL) code = gw_command_fail(argv[0], &err);
        json_decref(node);
        json_decref(answer);
    }
    gw_flock_disconnect(&client);
    return code;
}

int gw_forget_main(int argc, char **argv) {
    choice c = {.before = 0};
    static const struct argp_option options[] = {
        {"before", BEFORE, "DAY", 0, "Forget jobs that were over before this day, such as 2026-11-30", 0},
        {0}};
    struct argp argp = {.options = options,
                        .parser = parse,
                        .children = common,
                        .doc =
                            "Drops what is left of jobs that are over, on this node: records, outputs, files "
                            "and checkpoints. "
                            "Run it on all nodes: one that still knows a job tells the others of it again."};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &c);
    if (c.before == 0) {
        gw_command_complain(argv[0], "give --before DAY");
        return 2;
    }
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    json_t *answer =
        gw_flock_ask(&client, json_pack("{s:s,s:I}", "do", "forget", "before", (json_int_t)c.before), &err);
    gw_flock_disconnect(&client);
    if (answer == NULL) return gw_command_fail(argv[0], &err);
    int forgotten = (int)gw_flock_number(answer, "forgotten");
    if (c.place.json)
        gw_json_print(json_incref(answer));
    else
        printf("forgot %d job%s\n", forgotten, forgotten == 1 ? "" : "s");
    json_decref(answer);
    return 0;
}
