#include "tools/godwit/command/flock/client.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/directory.h"
#include "tools/godwit/flock/history.h"
#include "tools/godwit/flock/member.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/why/story.h"
#include "tools/godwit/why/waits.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_KEY = 512, PREFIX_LEAST = 4, SHORT_ID = 8, MOST_FAILED = 100, PAUSE_MS = 200 };

#define SECOND_NS  UINT64_C(1000000000)
#define RESTART_NS (60 * SECOND_NS) /* a member that ended is waited for */

static error_t parse(int key, char *arg, struct argp_state *state) {
    gw_flock_place *place = state->input;
    switch (key) {
    case 'd':
        place->dir = arg;
        return 0;
    case JSON_KEY:
        place->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"dir", 'd', "DIR", 0, "The directory of the flock's member on this machine (that of 'godwit up')", 0},
    {"json", JSON_KEY, NULL, 0, "Print JSON", 0},
    {0},
};

const struct argp gw_flock_argp = {.options = options, .parser = parse};

static bool connect_door(gw_flock_client *client, gw_err *err) {
    char found[GW_PATH_BYTES];
    const char *dir = client->place->dir;
    char *own = dir == NULL ? gw_member_directory() : NULL;
    bool good = gw_directory_find(own != NULL ? own : dir, found, err) &&
                gw_member_door_connect(found, &client->door, err);
    free(own);
    return good;
}

bool gw_flock_connect(const gw_flock_place *place, gw_flock_client *client, gw_err *err) {
    *client = (gw_flock_client){.place = place, .door = {-1}, .patience_ns = GW_FLOCK_PATIENCE_NS};
    return connect_door(client, err);
}

void gw_flock_disconnect(gw_flock_client *client) {
    gw_member_door_disconnect(&client->door);
    json_decref(client->jobs);
    client->jobs = NULL;
}

json_t *gw_flock_ask(gw_flock_client *client, json_t *request, gw_err *err) {
    return gw_member_door_ask(&client->door, request, client->patience_ns, NULL, NULL, err);
}

json_t *gw_flock_ask_patiently(gw_flock_client *client, json_t *request, void **bytes, size_t *count,
                               gw_err *err) {
    uint64_t end_ns = gw_now_ns() + RESTART_NS, now_ns;
    bool connected = true, told = false;
    json_t *answer;
    gw_err why;
    for (bool again = false;; again = true) {
        answer = connected ? gw_member_door_ask(&client->door, json_incref(request), client->patience_ns,
                                                bytes, count, err)
                           : NULL;
        bool is_late = connected && answer == NULL && err->code == GW_E_TIMEOUT;
        now_ns = gw_now_ns();
        if (answer != NULL || (connected && !is_late && err->code != GW_E_PEER) || now_ns >= end_ns) break;
        if (again) poll(NULL, 0, PAUSE_MS);
        gw_member_door_disconnect(&client->door);
        connected = connect_door(client, &why);
        if ((!is_late && connected) || told) continue;
        fprintf(stderr, "(%s: it is asked again for %u s)\n", is_late ? err->text : why.text,
                (unsigned)((end_ns - now_ns + SECOND_NS - 1) / SECOND_NS));
        told = true;
    }
    json_decref(request);
    return answer;
}

json_t *gw_flock_ask_jobs(gw_flock_client *client, json_t *ids, gw_err *err) {
    json_t *request = json_pack("{s:s,s:O}", "do", "jobs", "jobs", ids), *jobs = NULL, *asked, *job;
    json_t *answer = gw_flock_ask_patiently(client, request, NULL, NULL, err);
    size_t i;
    if (answer == NULL) return NULL;
    jobs = json_array();
    asked = json_object();
    json_array_foreach(ids, i, job) json_object_set_new(asked, json_string_value(job), json_true());
    json_array_foreach(json_object_get(answer, "jobs"), i, job) { /* of an earlier build it has all jobs */
        if (json_object_get(asked, gw_flock_text(job, "id")) != NULL) json_array_append(jobs, job);
    }
    json_decref(asked);
    json_decref(answer);
    return jobs;
}

bool gw_flock_ask_history(gw_flock_client *client, const char *job, const json_t *node, const char *label,
                          json_t *events) {
    void *bytes;
    size_t count;
    gw_err err;
    json_t *request = json_pack("{s:s,s:s,s:s,s:i,s:s}", "do", "log", "job", job, "stream",
                                GW_JOB_HISTORY_NAME, "offset", 0, "node", gw_flock_text(node, "id"));
    json_t *answer = gw_member_door_ask(&client->door, request, GW_FLOCK_PATIENCE_NS, &bytes, &count, &err);
    if (answer == NULL) return false;
    gw_story_add(events, label, bytes, count);
    free(bytes);
    json_decref(answer);
    return true;
}

bool gw_flock_read_file(gw_flock_client *client, const char *job, const char *node, const char *path,
                        uint64_t at, void **bytes, size_t *count, gw_err *err) {
    json_t *request = json_pack("{s:s,s:s,s:s,s:s,s:I}", "do", "result", "job", job, "node", node, "path",
                                path, "offset", (json_int_t)at);
    json_t *answer = gw_member_door_ask(&client->door, request, GW_FLOCK_PATIENCE_NS, bytes, count, err);
    json_decref(answer);
    return answer != NULL;
}

const char *gw_flock_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

int64_t gw_flock_number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static bool is_prefix(const char *text, const char *id) {
    return strlen(text) >= PREFIX_LEAST && strncmp(text, id, strlen(text)) == 0;
}

static bool is_later(const json_t *job, const json_t *other) {
    return other == NULL || gw_flock_number(job, "submitted_ms") > gw_flock_number(other, "submitted_ms");
}

const json_t *gw_flock_find_job(gw_flock_client *client, const char *text, gw_err *err) {
    const json_t *named = NULL, *begun = NULL;
    size_t i, beginnings = 0;
    json_t *job;
    if (client->jobs == NULL) {
        json_t *answer = gw_flock_ask(client, json_pack("{s:s}", "do", "jobs"), err);
        if (answer == NULL) return NULL;
        client->jobs = json_incref(json_object_get(answer, "jobs"));
        json_decref(answer);
    }
    json_array_foreach(client->jobs, i, job) {
        if (strcmp(gw_flock_text(job, "name"), text) == 0 && is_later(job, named)) named = job;
        if (!is_prefix(text, gw_flock_text(job, "id"))) continue;
        begun = job;
        beginnings++;
    }
    if (named != NULL) return named;
    if (beginnings == 1) return begun;
    if (beginnings > 1)
        gw_fail(err, GW_E_USAGE, "%zu jobs have ids that begin with %s: give more digits", beginnings, text);
    else
        gw_fail(err, GW_E_USAGE, "there is no job '%s': 'godwit queue --all' lists them", text);
    return NULL;
}

bool gw_flock_is_of_sweep(const json_t *job, const char *name) {
    const char *own = gw_flock_text(job, "name");
    size_t length = strlen(name);
    return gw_flock_text(job, "sweep")[0] != '\0' && strncmp(own, name, length) == 0 && own[length] == '-' &&
           own[length + 1] != '\0' && strspn(own + length + 1, "0123456789") == strlen(own + length + 1);
}

json_t *gw_flock_find_jobs(gw_flock_client *client, const char *text, gw_err *err) {
    const json_t *one = gw_flock_find_job(client, text, err), *last = NULL;
    json_t *job, *found = json_array(), *by_name = json_object();
    const char *name;
    size_t i;
    if (one != NULL) json_array_append(found, (json_t *)(uintptr_t)one);
    json_array_foreach(client->jobs, i, job) if (one == NULL && gw_flock_is_of_sweep(job, text) &&
                                                 is_later(job, last)) last = job;
    json_array_foreach(client->jobs, i, job) { /* of one that was tried again, the last */
        name = gw_flock_text(job, "name");
        if (last != NULL && gw_flock_is_of_sweep(job, text) &&
            strcmp(gw_flock_text(job, "sweep"), gw_flock_text(last, "sweep")) == 0 &&
            is_later(job, json_object_get(by_name, name)))
            json_object_set(by_name, name, job);
    }
    json_object_foreach(by_name, name, job) json_array_append(found, job);
    json_decref(by_name);
    if (json_array_size(found) > 0) return found; /* else *err says that there is no such job */
    json_decref(found);
    return NULL;
}

json_t *gw_flock_find_node(gw_flock_client *client, const char *text, gw_err *err) {
    json_t *answer = gw_flock_ask(client, json_pack("{s:s}", "do", "nodes"), err), *node, *found = NULL;
    size_t i, count = 0;
    if (answer == NULL) return NULL;
    json_array_foreach(json_object_get(answer, "nodes"), i, node) {
        bool named = strcmp(gw_flock_text(node, "name"), text) == 0;
        if (json_object_get(node, "namesake") != NULL) named = false; /* the one that is there is meant */
        if (!named && !is_prefix(text, gw_flock_text(node, "id"))) continue;
        found = node;
        count++;
    }
    json_incref(found);
    json_decref(answer);
    if (count == 1) return found;
    json_decref(found);
    if (count > 1)
        gw_fail(err, GW_E_USAGE, "%zu nodes are called %s: give the beginning of an id ('godwit nodes')",
                count, text);
    else
        gw_fail(err, GW_E_USAGE, "there is no node '%s': 'godwit nodes' lists them", text);
    return NULL;
}

const char *gw_flock_age(uint64_t ms, char text[GW_FLOCK_AGE_TEXT]) {
    uint64_t now_ms = gw_wall_ns() / 1000000, s = now_ms > ms ? (now_ms - ms) / 1000 : 0;
    if (s < 120)
        snprintf(text, GW_FLOCK_AGE_TEXT, "%u s", (unsigned)s);
    else if (s < 7200)
        snprintf(text, GW_FLOCK_AGE_TEXT, "%u m", (unsigned)(s / 60));
    else if (s < 172800)
        snprintf(text, GW_FLOCK_AGE_TEXT, "%u h", (unsigned)(s / 3600));
    else
        snprintf(text, GW_FLOCK_AGE_TEXT, "%u d", (unsigned)(s / 86400 % 100000));
    return text;
}

/* The name of another job, or the beginning of its id. */
static void name_other(gw_flock_client *client, const char *id, char *text, size_t size) {
    size_t i;
    json_t *job;
    snprintf(text, size, "%.*s", SHORT_ID, id);
    json_array_foreach(client->jobs, i, job) {
        if (strcmp(gw_flock_text(job, "id"), id) == 0 && gw_flock_text(job, "name")[0] != '\0')
            snprintf(text, size, "%s", gw_flock_text(job, "name"));
    }
}

/* The last round of a job that has failed; NULL: it has not, or nobody knows. */
static const json_t *last_failure(const json_t *job) {
    const json_t *rounds = json_object_get(job, "rounds");
    size_t count = json_array_size(rounds);
    return strcmp(gw_flock_text(job, "state"), "failed") == 0 && count > 0 ? json_array_get(rounds, count - 1)
                                                                           : NULL;
}

/* How a job has failed. Returns what asprintf does. */
static int write_failure(const json_t *job, const json_t *round, char **text) {
    char memory[GW_NUMBER_MEMORY_TEXT];
    int code = (int)gw_flock_number(round, "code");
    if (json_is_true(json_object_get(round, "out_of_memory")))
        return asprintf(text, "out of memory: asked %s",
                        gw_number_memory((uint64_t)gw_flock_number(job, "memory_mib"), memory));
    if (strcmp(gw_flock_text(job, "kind"), "map") == 0)
        return asprintf(text, "%d%s of its tasks failed", code, code > MOST_FAILED ? " or more" : "");
    return asprintf(text, "exit code %d", code);
}

const char *gw_flock_needs(const json_t *job, char text[GW_FLOCK_NEEDS_TEXT]) {
    char memory[GW_NUMBER_MEMORY_TEXT];
    int cores = (int)gw_flock_number(job, "cores"), gpus = (int)gw_flock_number(job, "gpus");
    int at = snprintf(text, GW_FLOCK_NEEDS_TEXT, "%d core%s", cores, cores == 1 ? "" : "s");
    if (gw_flock_number(job, "memory_mib") > 0)
        at += snprintf(text + at, (size_t)(GW_FLOCK_NEEDS_TEXT - at), ", %s",
                       gw_number_memory((uint64_t)gw_flock_number(job, "memory_mib"), memory));
    if (gpus > 0)
        snprintf(text + at, (size_t)(GW_FLOCK_NEEDS_TEXT - at), ", %d GPU%s", gpus, gpus == 1 ? "" : "s");
    return text;
}

/* Why there are not as many nodes as a job needs. */
static int write_lack(const json_t *job, char **text) {
    int others = (int)gw_flock_number(job, "other_builds");
    char why[80] = "";
    if (others > 0)
        snprintf(why, sizeof why, ": %d ha%s another build of Godwit", others, others == 1 ? "s" : "ve");
    return asprintf(text, "needs %d nodes, and %d here can have it%s", (int)gw_flock_number(job, "least"),
                    (int)gw_flock_number(job, "able"), why);
}

char *gw_flock_reason(gw_flock_client *client, const json_t *job) {
    const char *reason = gw_flock_text(job, "reason");
    const char *now = gw_waits_find(reason)->now;
    char other[80], needs[GW_FLOCK_NEEDS_TEXT], *text = NULL;
    int length, starts_in_s = (int)gw_flock_number(job, "starts_in_s");
    name_other(client, gw_flock_text(job, "reason_job"), other, sizeof other);
    if (strcmp(reason, "after") == 0)
        length = asprintf(&text, "comes after %s", other);
    else if (strcmp(reason, "broken") == 0)
        length =
            asprintf(&text, "comes after %s, which was not done: 'godwit retry %.8s', or 'godwit cancel %s'",
                     other, gw_flock_text(job, "reason_job"), gw_flock_text(job, "name"));
    else if (strcmp(reason, "no node") == 0 && gw_flock_number(job, "struck") > 0)
        length = asprintf(&text,
                          "cannot start on %d node%s ('godwit why %.8s' tells why), and no other can have it",
                          (int)gw_flock_number(job, "struck"), gw_flock_number(job, "struck") == 1 ? "" : "s",
                          gw_flock_text(job, "id"));
    else if (strcmp(reason, "no node") == 0)
        length = asprintf(&text, "no node that takes jobs has %s", gw_flock_needs(job, needs));
    else if (strcmp(reason, "few") == 0)
        length = write_lack(job, &text);
    else if (strcmp(reason, "away") == 0)
        length = asprintf(&text, "%s: starts in %d s if they stay away", now, starts_in_s);
    else if (strcmp(reason, "back") == 0)
        length = asprintf(&text, "%s: starts in %d s if they do not tell so", now, starts_in_s);
    else if (strcmp(reason, "newer") == 0)
        length = asprintf(&text, "%s: upgrade this node", now);
    else if (strcmp(reason, "older") == 0)
        length = asprintf(&text, "%s: upgrade that one", now);
    else if (strcmp(reason, "no build") == 0)
        length = asprintf(&text, "%s (%s): cancel it, and 'godwit retry'", now, gw_flock_text(job, "build"));
    else if (last_failure(job) != NULL)
        length = write_failure(job, last_failure(job), &text);
    else
        length = asprintf(&text, "%s", strcmp(reason, "held") == 0 ? "" : now);
    GW_ASSERT_MEMORY(length >= 0);
    return text;
}

/* Submitting. */

static void put_random(json_t *spec, const char *key, size_t count) {
    uint8_t bytes[32];
    randombytes_buf(bytes, count);
    gw_json_hex(spec, key, bytes, count);
}

void gw_flock_put_own(json_t *spec, uint64_t counter) {
    put_random(spec, "nonce", 16);
    put_random(spec, "key", 32);
    gw_json_count(spec, "counter", counter);
    gw_json_count(spec, "when", gw_wall_ns() / 1000000);
}

void gw_flock_print_submitted(const gw_flock_place *place, const char *name, const json_t *answer,
                              int64_t members) {
    if (place->json) {
        json_t *object = json_object();
        gw_json_text(object, "id", gw_flock_text(answer, "id"));
        gw_json_text(object, "name", name);
        gw_json_count(object, "disks", (uint64_t)gw_flock_number(answer, "disks"));
        if (json_object_get(answer, "file_disks") != NULL)
            gw_json_count(object, "file_disks", (uint64_t)gw_flock_number(answer, "file_disks"));
        char *line = gw_json_line(object);
        if (line != NULL) puts(line);
        free(line);
        json_decref(object);
        return;
    }
    printf("%s %.8s", name, gw_flock_text(answer, "id"));
    if (gw_flock_number(answer, "disks") < 2 && members > 1)
        printf("  (on %d disk so far: other nodes have not confirmed it)",
               (int)gw_flock_number(answer, "disks"));
    if (gw_flock_number(answer, "file_disks") == 1 && members > 1)
        printf("  (its files are on 1 disk so far: no other node has confirmed them)");
    printf("\n");
    fflush(stdout);
}
