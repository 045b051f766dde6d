/* `godwit why JOB` tells what has become of a job of the flock, and why, from what its members have written down. */
#include "tools/godwit/command/commands.h"
#include "tools/godwit/command/flock/client.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/why/story.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE_CODE = 2 }; /* of a child whose options are refused */

/* Gathers the events of all nodes, and names those that do not answer. */
static bool gather(gw_flock_client *client, const json_t *job, json_t *events, json_t *away, gw_err *err) {
    json_t *answer = gw_flock_ask(client, json_pack("{s:s}", "do", "nodes"), err), *node;
    size_t i;
    if (answer == NULL) return false;
    json_array_append_new(events, json_pack("{s:s,s:f}", "event", "submit", "time",
                                            (double)gw_flock_number(job, "submitted_ms") / 1000));
    json_array_foreach(json_object_get(answer, "nodes"), i, node) {
        bool there = strcmp(gw_flock_text(node, "state"), "gone") != 0;
        if (json_object_get(node, "namesake") != NULL)
            json_array_append_new(away, json_sprintf("%s (%.8s, gone)", gw_flock_text(node, "name"),
                                                     gw_flock_text(node, "id")));
        else if (!there || !gw_flock_ask_history(client, gw_flock_text(job, "id"), node,
                                                 gw_flock_text(node, "name"), events))
            json_array_append(away, json_object_get(node, "name"));
    }
    json_decref(answer);
    gw_story_sort(events);
    return true;
}

static void print_names(const char *before, const json_t *names, const char *after) {
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) printf("%s%s", i == 0 ? before : ", ", json_string_value(name));
    if (json_array_size(names) > 0) puts(after);
}

/* Whether a child of a job of steps has lived that did not refuse its options, so that peers have written a journal. */
static bool has_run(const json_t *events) {
    size_t i, starts = 0, refusals = 0;
    json_t *event;
    json_array_foreach(events, i, event) {
        bool ended = strcmp(gw_flock_text(event, "event"), "end") == 0;
        starts += strcmp(gw_flock_text(event, "event"), "start") == 0;
        refusals += ended && gw_flock_number(event, "code") == USAGE_CODE;
    }
    return starts > refusals;
}

static void print(gw_flock_client *client, const json_t *job, const json_t *events, const json_t *away) {
    char *reason = gw_flock_reason(client, job);
    printf("Job %s (%.8s): %s%s%s\n\n", gw_flock_text(job, "name"), gw_flock_text(job, "id"),
           gw_flock_text(job, "state"), reason[0] != '\0' ? ": " : "", reason);
    free(reason);
    gw_story_print(events, stdout);
    print_names("\nNot there, with what they know of it: ", away, "");
    if (strcmp(gw_flock_text(job, "kind"), "run") == 0 && has_run(events))
        printf("\nIts peers tell more, on these nodes, where DIR is the member's directory:\n"
               "godwit why DIR/jobs/%s/state\n",
               gw_flock_text(job, "id"));
}

int gw_why_of_flock(const char *command, const char *dir, const char *name, bool json) {
    gw_flock_place place = {.dir = dir, .json = json};
    gw_flock_client client;
    gw_err err;
    if (!gw_flock_connect(&place, &client, &err)) return gw_command_fail(command, &err);
    json_t *events = json_array(), *away = json_array();
    const json_t *job = gw_flock_find_job(&client, name, &err);
    bool good = job != NULL && gather(&client, job, events, away, &err);
    if (good && json)
        gw_json_print(json_pack("{s:O,s:O,s:O,s:O,s:O}", "job", json_object_get(job, "id"), "name",
                                json_object_get(job, "name"), "state", json_object_get(job, "state"),
                                "events", events, "nodes_away", away));
    else if (good)
        print(&client, job, events, away);
    json_decref(events);
    json_decref(away);
    gw_flock_disconnect(&client);
    return good ? 0 : gw_command_fail(command, &err);
}
