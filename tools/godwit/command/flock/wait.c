/* `godwit wait`, and --wait of other commands: they return when jobs are over, and say meanwhile why some wait. */
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/text/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_S = 1, LOOK_S = 4, KEY_BYTES = 128 };

/* Why a job waits, without what changes from one look to the next; "" where it does not. */
static void write_key(const json_t *job, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%.40s %.40s %d", gw_flock_text(job, "reason"), gw_flock_text(job, "reason_job"),
             (int)gw_flock_number(job, "struck"));
    if (gw_flock_text(job, "reason")[0] == '\0') key[0] = '\0';
}

/* Whether it waits for ever unless somebody does something. */
static bool is_stuck(const json_t *job) {
    return strcmp(gw_flock_text(job, "reason"), "broken") == 0 ||
           (strcmp(gw_flock_text(job, "reason"), "no node") == 0 && gw_flock_number(job, "struck") > 0);
}

/* Says why jobs wait that have waited for the same reason since the last look, or wait for ever: once for each reason, in
 * one line for all jobs that have it. `seen` has the reasons of the last look, and `told` those that were said, by ids. */
static void tell_reasons(gw_flock_client *client, const json_t *jobs, json_t *seen, json_t *told) {
    char key[KEY_BYTES];
    json_t *lines = json_object(), *job, *line;
    const char *text, *id;
    size_t i;
    json_array_foreach(jobs, i, job) {
        id = gw_flock_text(job, "id");
        write_key(job, key);
        bool stays = strcmp(gw_flock_text(seen, id), key) == 0;
        bool is_news = key[0] != '\0' && strcmp(gw_flock_text(told, id), key) != 0;
        json_object_set_new(seen, id, json_string(key));
        if (!is_news || !(stays || is_stuck(job))) continue;
        json_object_set_new(told, id, json_string(key));
        char *why = gw_flock_reason(client, job);
        line = json_object_get(lines, why);
        if (line == NULL)
            json_object_set_new(lines, why,
                                json_pack("{s:O,s:O,s:i}", "name", json_object_get(job, "name"), "state",
                                          json_object_get(job, "state"), "others", 0));
        else
            json_object_set_new(line, "others", json_integer(gw_flock_number(line, "others") + 1));
        free(why);
    }
    json_object_foreach(lines, text, line) {
        int others = (int)gw_flock_number(line, "others");
        fprintf(stderr, "%s", gw_flock_text(line, "name"));
        if (others > 0) fprintf(stderr, " and %d other job%s", others, others == 1 ? "" : "s");
        fprintf(stderr, ": %s%s%s\n", gw_flock_text(line, "state"), text[0] != '\0' ? ": " : "", text);
    }
    json_decref(lines);
}

/* Waits until all are over. */
static bool wait_for(gw_flock_client *client, json_t *ids, gw_err *err) {
    json_t *seen = json_object(), *told = json_object(), *answer, *jobs;
    bool over = false, good = true;
    for (int seconds = FIRST_S; good && !over; seconds = LOOK_S) {
        answer = gw_flock_ask_patiently(
            client, json_pack("{s:s,s:O,s:i}", "do", "wait", "jobs", ids, "seconds", seconds), NULL, NULL,
            err);
        good = answer != NULL;
        over = json_is_true(json_object_get(answer, "over"));
        json_decref(answer);
        if (!good || over) break;
        jobs = gw_flock_ask_jobs(client, ids, err);
        good = jobs != NULL;
        tell_reasons(client, jobs, seen, told);
        json_decref(jobs);
    }
    json_decref(seen);
    json_decref(told);
    return good;
}

int gw_flock_wait(gw_flock_client *client, json_t *ids, gw_err *err) {
    json_t *jobs = wait_for(client, ids, err) ? gw_flock_ask_jobs(client, ids, err) : NULL, *job;
    size_t i;
    int code = 0;
    if (jobs == NULL) return -1;
    json_array_foreach(jobs, i, job) {
        if (strcmp(gw_flock_text(job, "state"), "done") == 0) continue;
        char *why = gw_flock_reason(client, job);
        fprintf(stderr, "%s: %s%s%s\n", gw_flock_text(job, "name"), gw_flock_text(job, "state"),
                why[0] != '\0' ? ": " : "", why);
        free(why);
        code = 1;
    }
    json_decref(jobs);
    return code;
}

bool gw_flock_add_ids(gw_flock_client *client, const char *text, json_t *ids, gw_err *err) {
    json_t *found = gw_flock_find_jobs(client, text, err), *job;
    size_t i;
    json_array_foreach(found, i, job) json_array_append(ids, json_object_get(job, "id"));
    json_decref(found);
    return found != NULL;
}

/* wait */

typedef struct waited {
    gw_flock_place place;
    const char *jobs[GW_FLOCK_JOBS];
    uint32_t count;
} waited;

static error_t parse_wait(int key, char *arg, struct argp_state *state) {
    waited *w = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &w->place;
        return 0;
    case ARGP_KEY_ARG:
        if (w->count == GW_FLOCK_JOBS) gw_argp_error(state, "more than %d jobs", GW_FLOCK_JOBS);
        w->jobs[w->count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (w->count == 0) gw_argp_error(state, "give the JOB to wait for");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char wait_doc[] =
    "Waits until jobs are over; the exit code is 0 if all of them are done. Why one of them waits is told on "
    "standard error.\v"
    "JOB may be the name that the jobs of a sweep have before their numbers: all of them.";

int gw_wait_main(int argc, char **argv) {
    waited w = {.count = 0};
    static const struct argp_child children[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};
    struct argp argp = {.parser = parse_wait, .args_doc = "JOB...", .doc = wait_doc, .children = children};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &w);
    if (!gw_flock_connect(&w.place, &client, &err)) return gw_command_fail(argv[0], &err);
    json_t *ids = json_array();
    int code = 0;
    for (uint32_t i = 0; i < w.count && code == 0; i++) {
        if (!gw_flock_add_ids(&client, w.jobs[i], ids, &err)) code = -1;
    }
    if (code == 0) code = gw_flock_wait(&client, ids, &err);
    json_decref(ids);
    gw_flock_disconnect(&client);
    return code < 0 ? gw_command_fail(argv[0], &err) : code;
}
