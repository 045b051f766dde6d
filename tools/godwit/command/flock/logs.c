/* `godwit logs` shows what a job has written, wherever it runs. */
#include "core/os/clock.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE = 512, STDERR, TAIL_BYTES = 64 << 10, LOOK_MS = 200 };

typedef struct choice {
    gw_flock_place place;
    const char *job, *node;
    bool follow, errors;
    uint64_t lines; /* UINT64_MAX: all */
} choice;

static error_t parse(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->place;
        return 0;
    case 'f':
        c->follow = true;
        return 0;
    case 'n':
        c->lines = gw_number_of_option(state, "--lines", arg, 0, UINT32_MAX);
        return 0;
    case STDERR:
        c->errors = true;
        return 0;
    case NODE:
        c->node = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (c->job != NULL) gw_argp_error(state, "unexpected argument '%s': give one JOB", arg);
        c->job = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->job == NULL) gw_argp_error(state, "give the JOB");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"follow", 'f', NULL, 0, "Go on with what it writes, until it is over", 0},
    {"lines", 'n', "N", 0, "Only the last N lines", 0},
    {"stderr", STDERR, NULL, 0, "What it wrote to stderr instead of stdout", 0},
    {"node", NODE, "NODE", 0, "The output on this node (where it runs, or has ended)", 0},
    {0},
};

/* Asks for a piece of the output from an offset on. */
static json_t *ask_piece(const choice *c, gw_flock_client *client, const char *job, const char *node,
                         int64_t offset, void **bytes, size_t *count, gw_err *err) {
    json_t *request = json_pack("{s:s,s:s,s:s,s:I}", "do", "log", "job", job, "stream",
                                c->errors ? "err" : "out", "offset", (json_int_t)offset);
    if (node[0] != '\0') json_object_set_new(request, "node", json_string(node));
    return gw_member_door_ask(&client->door, request, GW_FLOCK_PATIENCE_NS, bytes, count, err);
}

/* The bytes before the last N lines. */
static size_t before_lines(const char *bytes, size_t count, uint64_t lines) {
    size_t at = count;
    if (at > 0 && bytes[at - 1] == '\n') at--;
    for (; at > 0 && lines > 0; at--)
        if (bytes[at - 1] == '\n' && --lines == 0) return at;
    return lines > 0 ? 0 : count;
}

static bool job_is_over(gw_flock_client *client, const char *job, gw_err *err) {
    json_t *answer =
        gw_flock_ask(client, json_pack("{s:s,s:[s],s:i}", "do", "wait", "jobs", job, "seconds", 0), err);
    bool over = answer == NULL || json_is_true(json_object_get(answer, "over"));
    json_decref(answer);
    return over;
}

/* Whether the job has not run yet, which --follow waits for. */
static bool waits_for_start(const choice *c, const gw_err *err) {
    return c->follow && strstr(err->text, "has not run yet") != NULL;
}

static int show(const choice *c, gw_flock_client *client, const char *job, const char *node, gw_err *err) {
    int64_t offset = c->lines == UINT64_MAX ? 0 : -TAIL_BYTES;
    char at[GW_ID_TEXT] = "";
    bool first = true, over = false;
    snprintf(at, sizeof at, "%s", node);
    for (;;) {
        void *bytes;
        size_t count;
        json_t *answer = ask_piece(c, client, job, at, offset, &bytes, &count, err);
        if (answer == NULL && !(waits_for_start(c, err) && !over)) return -1;
        if (answer != NULL) {
            if (c->follow && node[0] == '\0' && at[0] != '\0' &&
                strcmp(at, gw_flock_text(answer, "node")) != 0)
                fprintf(stderr, "(it goes on on %s)\n", gw_flock_text(answer, "name"));
            snprintf(at, sizeof at, "%s", node[0] != '\0' ? node : gw_flock_text(answer, "node"));
            size_t skip = first && c->lines != UINT64_MAX ? before_lines(bytes, count, c->lines) : 0;
            if (count > skip) fwrite((const char *)bytes + skip, 1, count - skip, stdout);
            fflush(stdout);
            offset = gw_flock_number(answer, "offset") + (int64_t)count;
            first = false;
            free(bytes);
            json_decref(answer);
            if (count > 0) continue;
        }
        if (!c->follow || over || ferror(stdout)) return 0;
        over = job_is_over(client, job, err); /* one more look, at what came before its end */
        if (!over) poll(NULL, 0, LOOK_MS);
    }
}

int gw_logs_main(int argc, char **argv) {
    choice c = {.lines = UINT64_MAX};
    static const struct argp_child common[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};
    struct argp argp = {.options = options,
                        .parser = parse,
                        .args_doc = "JOB",
                        .children = common,
                        .doc = "Shows what a job has written, on whichever node it runs."};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &c);
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    int code = -1;
    const json_t *job = gw_flock_find_job(&client, c.job, &err);
    json_t *node = job != NULL && c.node != NULL ? gw_flock_find_node(&client, c.node, &err) : NULL;
    if (job != NULL && (c.node == NULL || node != NULL))
        code = show(&c, &client, gw_flock_text(job, "id"), gw_flock_text(node, "id"), &err);
    json_decref(node);
    gw_flock_disconnect(&client);
    return code < 0 ? gw_command_fail(argv[0], &err) : code;
}
