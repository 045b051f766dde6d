/* `godwit retry` has jobs tried again that are over and were not done. */
#include "core/base/assert.h"
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/text/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILED = 512, WAIT };

typedef struct choice {
    gw_flock_place place;
    const char *names[GW_FLOCK_JOBS];
    uint32_t count;
    bool failed, wait;
} choice;

static error_t parse(int key, char *arg, struct argp_state *state) {
    choice *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->place;
        return 0;
    case FAILED:
        c->failed = true;
        return 0;
    case WAIT:
        c->wait = true;
        return 0;
    case ARGP_KEY_ARG:
        if (c->count == GW_FLOCK_JOBS) gw_argp_error(state, "more than %d jobs", GW_FLOCK_JOBS);
        c->names[c->count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->count == 0) gw_argp_error(state, "give the JOB to try again");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"failed", FAILED, NULL, 0, "Of a sweep, try all jobs again that have failed, and no others", 0},
    {"wait", WAIT, NULL, 0, "Return when they are over, with exit code 0 if all are done", 0},
    {0},
};

static const char doc[] = "Hands jobs to the flock once more that are over and were not done: they failed, "
                          "or were cancelled or stopped.\v"
                          "Each becomes a new job of the same name, with the same command, environment and "
                          "files. A job of steps goes on from "
                          "the newest checkpoint of the old one, a map runs the tasks that have not "
                          "succeeded, and a command begins anew. With --failed, JOB "
                          "is any job of a sweep, or the name "
                          "that its jobs have before their numbers.";

/* Whether a job is of the sweep that is meant: that of `one`, or the one with this name. */
static bool is_meant(const json_t *job, const json_t *one, const char *name) {
    const char *sweep = gw_flock_text(one, "sweep");
    if (one == NULL) return gw_flock_is_of_sweep(job, name);
    return sweep[0] == '\0' ? job == one : strcmp(sweep, gw_flock_text(job, "sweep")) == 0;
}

/* Whether a job that was submitted later tries this one again. */
static bool was_tried_again(const json_t *jobs, const json_t *job) {
    size_t i;
    json_t *other;
    json_array_foreach(jobs, i, other) {
        if (strcmp(gw_flock_text(other, "tries_again"), gw_flock_text(job, "id")) == 0) return true;
    }
    return false;
}

static int compare(const void *a, const void *b) {
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int64_t difference = gw_flock_number(x, "counter") - gw_flock_number(y, "counter");
    return difference < 0 ? -1 : difference > 0 ? 1 : strcmp(gw_flock_text(x, "id"), gw_flock_text(y, "id"));
}

/* Adds the jobs that a name means and that are to be tried again, in the order of their submission. */
static bool find_jobs(const choice *c, gw_flock_client *client, const char *name, json_t *found,
                      gw_err *err) {
    size_t i, count = 0;
    json_t *job;
    const json_t *one = gw_flock_find_job(client, name, err);
    if (!c->failed && one != NULL) json_array_append(found, (json_t *)(uintptr_t)one);
    if (!c->failed) return one != NULL;
    if (client->jobs == NULL) return false;
    json_t **list = calloc(json_array_size(client->jobs) + 1, sizeof(json_t *));
    GW_ASSERT_MEMORY(list != NULL);
    bool any = false;
    json_array_foreach(client->jobs, i, job) {
        if (!is_meant(job, one, name)) continue;
        any = true;
        if (strcmp(gw_flock_text(job, "state"), "failed") == 0 && !was_tried_again(client->jobs, job))
            list[count++] = job;
    }
    qsort(list, count, sizeof(json_t *), compare);
    for (i = 0; i < count; i++) json_array_append(found, list[i]);
    free(list);
    return any; /* else *err says that there is no such job */
}

static bool try_again(const choice *c, gw_flock_client *client, const json_t *job, const json_t *hello,
                      uint64_t at, json_t *ids, gw_err *err) {
    json_t *request = json_pack("{s:s,s:s}", "do", "again", "job", gw_flock_text(job, "id"));
    gw_flock_put_own(request, (uint64_t)gw_flock_number(hello, "counter") + at);
    json_t *answer = gw_flock_ask(client, request, err);
    if (answer == NULL) return gw_fail_in(err, "%s", gw_flock_text(job, "name"));
    gw_flock_print_submitted(&c->place, gw_flock_text(job, "name"), answer,
                             gw_flock_number(hello, "members"));
    json_array_append(ids, json_object_get(answer, "id"));
    json_decref(answer);
    return true;
}

static int retry(const choice *c, gw_flock_client *client, gw_err *err) {
    json_t *hello = gw_flock_ask(client, json_pack("{s:s}", "do", "hello"), err), *found = json_array(),
           *ids = json_array();
    bool good = hello != NULL;
    for (uint32_t i = 0; i < c->count && good; i++) good = find_jobs(c, client, c->names[i], found, err);
    for (size_t i = 0; i < json_array_size(found) && good; i++)
        good = try_again(c, client, json_array_get(found, i), hello, i, ids, err);
    int code = good ? 0 : -1;
    if (good && json_array_size(found) == 0) {
        fprintf(stderr, "godwit retry: none of these jobs has failed\n");
        code = 1;
    }
    if (code == 0 && c->wait) code = gw_flock_wait(client, ids, err);
    json_decref(ids);
    json_decref(found);
    json_decref(hello);
    return code;
}

int gw_retry_main(int argc, char **argv) {
    choice c = {.count = 0};
    static const struct argp_child common[] = {{&gw_flock_argp, 0, NULL, 0}, {0}};
    struct argp argp = {
        .options = options, .parser = parse, .args_doc = "JOB...", .children = common, .doc = doc};
    gw_flock_client client;
    gw_err err;
    gw_argp_parse(&argp, argc, argv, &c);
    if (!gw_flock_connect(&c.place, &client, &err)) return gw_command_fail(argv[0], &err);
    int code = retry(&c, &client, &err);
    gw_flock_disconnect(&client);
    return code < 0 ? gw_command_fail(argv[0], &err) : code;
}
