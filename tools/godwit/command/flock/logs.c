/* `godwit logs` shows what a job has written, wherever it runs. */
#include "core/flock/claims.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/flock/keeper.h"
#include "tools/godwit/flock/member.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"
#include "tools/godwit/why/story.h"

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

/* What is being shown. */
typedef struct shown {
    const choice *c;
    gw_flock_client *client;
    json_t *ids;           /* of the job, alone */
    char node[GW_ID_TEXT]; /* whose output it is; "": the member that is asked chooses */
    char name[GW_CLAIMS_NAME_TEXT];
    json_t
        *offsets; /* what was shown of the output of each node, which goes on there when the job comes back */
    bool begun;   /* the last lines, where only these are wanted, were shown */
    bool away;    /* it was said that the node does not answer */
    bool others;  /* other nodes ran the job as well when it was looked at last */
} shown;

/* Asks for a piece of a job's stream on a node ("": the one that wrote most recently) from an offset on. */
static json_t *ask_piece(gw_flock_client *client, const char *job, const char *stream, const char *node,
                         int64_t offset, void **bytes, size_t *count, gw_err *err) {
    json_t *request = json_pack("{s:s,s:s,s:s,s:I}", "do", "log", "job", job, "stream", stream, "offset",
                                (json_int_t)offset);
    if (node[0] != '\0') json_object_set_new(request, "node", json_string(node));
    return gw_flock_ask_patiently(client, request, bytes, count, err);
}

static const char *stream_of(const choice *c) {
    return c->errors ? GW_KEEPER_ERR : GW_KEEPER_OUT;
}

/* The bytes before the last N lines. */
static size_t before_lines(const char *bytes, size_t count, uint64_t lines) {
    size_t at = count;
    if (at > 0 && bytes[at - 1] == '\n') at--;
    for (; at > 0 && lines > 0; at--)
        if (bytes[at - 1] == '\n' && --lines == 0) return at;
    return lines > 0 ? 0 : count;
}

/* The node where the history of a job that is over has the last start, of those that answer; "": none knows of one. */
static void find_last_start(gw_flock_client *client, const char *job, char node[GW_ID_TEXT]) {
    gw_err err;
    json_t *answer = gw_flock_ask(client, json_pack("{s:s}", "do", "nodes"), &err), *one,
           *events = json_array();
    size_t i;
    node[0] = '\0';
    json_array_foreach(json_object_get(answer, "nodes"), i, one) {
        if (strcmp(gw_flock_text(one, "state"), "gone") != 0)
            gw_flock_ask_history(client, job, one, gw_flock_text(one, "id"), events);
    }
    gw_story_sort(events);
    json_array_foreach(events, i, one) {
        if (strcmp(gw_flock_text(one, "event"), "start") == 0)
            snprintf(node, GW_ID_TEXT, "%s", gw_flock_text(one, "node"));
    }
    json_decref(events);
    json_decref(answer);
}

/* Goes over to the output of another node. What it had written while another one was shown, which ran beside it, is as
 * good as shown. */
static void go_over(shown *s, const char *node, bool beside) {
    snprintf(s->node, sizeof s->node, "%s", node);
    s->away = false;
    if (beside && json_object_get(s->offsets, node) == NULL)
        json_object_set_new(s->offsets, node, json_integer(-1));
}

/* Shows the next piece. Returns how many bytes it has; -1 where it is not to be had. */
static int64_t show_piece(shown *s, gw_err *err) {
    const choice *c = s->c;
    const json_t *known = json_object_get(s->offsets, s->node);
    int64_t at = known != NULL                         ? json_integer_value(known)
                 : !s->begun && c->lines != UINT64_MAX ? -TAIL_BYTES
                                                       : 0;
    void *bytes;
    size_t count;
    json_t *answer = ask_piece(s->client, json_string_value(json_array_get(s->ids, 0)), stream_of(c), s->node,
                               at, &bytes, &count, err);
    if (answer == NULL) return -1;
    size_t skip = at == -1                              ? count
                  : !s->begun && c->lines != UINT64_MAX ? before_lines(bytes, count, c->lines)
                                                        : 0;
    if (count > skip) fwrite((const char *)bytes + skip, 1, count - skip, stdout);
    fflush(stdout);
    snprintf(s->node, sizeof s->node, "%s", gw_flock_text(answer, "node"));
    snprintf(s->name, sizeof s->name, "%s", gw_flock_text(answer, "name"));
    json_object_set_new(s->offsets, s->node,
                        json_integer(gw_flock_number(answer, "offset") + (int64_t)count));
    s->begun = true;
    s->away = false;
    free(bytes);
    json_decref(answer);
    return (int64_t)count;
}

/* The node where a job that is over has ended; "": none is known. */
static const char *end_of(const json_t *job) {
    const json_t *ends = json_object_get(job, "ends"), *rounds = json_object_get(job, "rounds");
    if (json_array_size(ends) > 0) return gw_flock_text(json_array_get(ends, 0), "node");
    return json_array_size(rounds) > 0
               ? gw_flock_text(json_array_get(rounds, json_array_size(rounds) - 1), "node")
               : "";
}

/* Whether a job is over that the member was asked for. It may not know it, where it has lost its records: it waits then
 * until it has heard of what the others know. */
static bool is_over(const shown *s, const json_t *job) {
    gw_err ignored;
    if (job != NULL) return gw_member_job_is_over(job);
    json_t *answer = gw_flock_ask(
        s->client, json_pack("{s:s,s:O,s:i}", "do", "wait", "jobs", s->ids, "seconds", 0), &ignored);
    bool over = answer == NULL || json_is_true(json_object_get(answer, "over"));
    json_decref(answer);
    return over;
}

/* Looks where the job is, and goes over to the output of the node that has it, where the one whose output was shown has
 * it no more. `answers`: that node does. Returns whether the job is over, and nothing more will be written. */
static bool look(shown *s, bool answers, bool *moved, gw_err *err) {
    json_t *jobs = gw_flock_ask_jobs(s->client, s->ids, err), *one;
    const json_t *job = json_array_get(jobs, 0);
    const char *other = "", *name = "";
    bool here = false;
    uint32_t running = 0;
    size_t i;
    json_array_foreach(json_object_get(job, "nodes"), i, one) {
        const char *state = gw_flock_text(one, "state");
        if (strcmp(state, "running") != 0 && strcmp(state, "leaving") != 0) continue;
        running++;
        if (strcmp(gw_flock_text(one, "id"), s->node) == 0) {
            here = true;
        } else {
            other = gw_flock_text(one, "id");
            name = gw_flock_text(one, "name");
        }
    }
    bool over = is_over(s, job);
    *moved = false;
    if (s->c->node == NULL && s->node[0] != '\0' && !here) {
        bool steps = strcmp(gw_flock_text(job, "kind"), "run") == 0;
        if (over && (!steps || !answers)) other = end_of(job);
        *moved = other[0] != '\0' && strcmp(other, s->node) != 0;
        if (*moved) {
            if (!over) fprintf(stderr, "(it goes on on %s)\n", name);
            go_over(s, other, steps && s->others && !over);
        }
    }
    s->others = here && running > 1;
    json_decref(jobs);
    return over;
}

static int show(shown *s, gw_err *err) {
    bool over = false, moved = false;
    gw_err why;
    for (;;) {
        int64_t count = show_piece(s, err);
        if (ferror(stdout)) return 0;
        if (count > 0) continue;
        if (!s->c->follow || (over && !moved)) return count < 0 ? -1 : 0;
        if (count < 0 && s->begun && !s->away) {
            fprintf(stderr, "(%s: it is shown when that changes, or the job goes on elsewhere)\n", err->text);
            s->away = true;
        }
        over = look(s, count >= 0, &moved, &why);
        if (!over) poll(NULL, 0, LOOK_MS);
    }
}

static int show_job(const choice *c, gw_flock_client *client, const json_t *job, const json_t *node,
                    gw_err *err) {
    shown s = {.c = c,
               .client = client,
               .ids = json_pack("[O]", json_object_get(job, "id")),
               .offsets = json_object()};
    if (strcmp(gw_flock_text(job, "kind"), "map") == 0 && !c->errors)
        fprintf(stderr, "(%s is a map: 'godwit results %s' fetches what its tasks have written)\n",
                gw_flock_text(job, "name"), c->job);
    snprintf(s.node, sizeof s.node, "%s", gw_flock_text(node, "id"));
    if (node == NULL && gw_member_job_is_over(job) &&
        end_of(job)[0] == '\0') /* it was cancelled, wherever it ran */
        find_last_start(client, gw_flock_text(job, "id"), s.node);
    int code = show(&s, err);
    json_decref(s.ids);
    json_decref(s.offsets);
    return code;
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
    if (job != NULL && (c.node == NULL || node != NULL)) code = show_job(&c, &client, job, node, &err);
    json_decref(node);
    gw_flock_disconnect(&client);
    return code < 0 ? gw_command_fail(argv[0], &err) : code;
}
