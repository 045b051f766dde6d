#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/flock/submission.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/why/waits.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { ID_BYTES = 16 };

#define GONE "gone" /* the state of a node */

static const char *claim_word(gw_claim_state state) {
    static const char *const words[] = {"", "claimed", "running", "leaving", "struck"};
    return words[state];
}

/* The nodes that have claims on a job. *running and *struck count those that run it and may not have it. */
static json_t *nodes_of(const gw_flock_member *m, const gw_job_record_id *id, uint32_t *running,
                        uint32_t *struck) {
    json_t *nodes = json_array();
    *running = *struck = 0;
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        const gw_claim *claim = list->boot != 0 ? gw_claims_find(list, id) : NULL;
        if (claim == NULL) continue;
        json_t *one = json_object();
        gw_json_text(one, "name", list->name);
        gw_json_peer(one, "id", &list->member);
        gw_json_text(one, "state", claim_word(claim->state));
        if (claim->port != 0) gw_json_count(one, "port", claim->port);
        json_array_append_new(nodes, one);
        *running += claim->state == GW_CLAIM_RUNNING || claim->state == GW_CLAIM_LEAVING;
        *struck += claim->state == GW_CLAIM_STRUCK;
    }
    return nodes;
}

static void put_spec(json_t *job, const gw_job_spec *spec) {
    json_t *command = json_array(), *after = json_array();
    char text[GW_JOB_RECORD_ID_TEXT];
    gw_json_text(job, "name", spec->name);
    gw_json_text(job, "kind",
                 spec->kind == GW_JOB_RUN   ? "run"
                 : spec->kind == GW_JOB_MAP ? "map"
                                            : "command");
    for (uint32_t i = 0; i < spec->command_count; i++) {
        json_t *holder = json_object(); /* gw_json_text mends what is not UTF-8 */
        gw_json_text(holder, "word", spec->command[i]);
        json_array_append(command, json_object_get(holder, "word"));
        json_decref(holder);
    }
    json_object_set_new(job, "command", command);
    gw_json_text(job, "directory", spec->directory);
    if (spec->build != NULL) gw_json_text(job, "build", spec->build);
    gw_json_count(job, "submitted_ms", spec->when);
    gw_json_count(job, "counter", spec->counter);
    gw_json_count(job, "cores", spec->need.cores);
    gw_json_count(job, "memory_mib", spec->need.memory_mib);
    gw_json_count(job, "gpus", spec->need.gpus);
    gw_json_count(job, "least", spec->least);
    gw_json_count(job, "most", spec->most);
    gw_json_count(job, "retries", spec->retries);
    for (uint32_t i = 0; i < spec->after_count; i++) {
        gw_hex(spec->after[i].bytes, ID_BYTES, text);
        json_array_append_new(after, json_string(text));
    }
    json_object_set_new(job, "after", after);
    if (!sodium_is_zero(spec->sweep, sizeof spec->sweep))
        gw_json_hex(job, "sweep", spec->sweep, sizeof spec->sweep);
    if (!sodium_is_zero(spec->adopts.bytes, sizeof spec->adopts.bytes))
        gw_json_hex(job, "tries_again", spec->adopts.bytes, sizeof spec->adopts.bytes);
}

static void put_ends(json_t *job, const gw_job_record *record) {
    json_t *rounds = json_array(), *ends = json_array();
    for (uint32_t i = 0; i < record->round_count; i++) {
        json_t *one = json_object();
        gw_json_count(one, "round", record->rounds[i].round);
        gw_json_count(one, "code", record->rounds[i].code & ~(uint32_t)GW_JOB_ROUND_OUT_OF_MEMORY);
        if ((record->rounds[i].code & GW_JOB_ROUND_OUT_OF_MEMORY) != 0)
            gw_json_flag(one, "out_of_memory", true);
        gw_json_flag(one, "last", record->rounds[i].last || record->rounds[i].fatal);
        gw_json_peer(one, "node", &record->rounds[i].member);
        json_array_append_new(rounds, one);
    }
    for (uint32_t i = 0; i < record->end_count; i++) {
        json_t *one = json_object();
        gw_json_text(one, "kind", record->ends[i].kind == GW_JOB_END_DONE ? "done" : "stopped");
        if (!sodium_is_zero(record->ends[i].hash.bytes, sizeof record->ends[i].hash.bytes))
            gw_json_hash(one, "hash", &record->ends[i].hash); /* of a job of steps */
        gw_json_count(one, "when_ms", record->ends[i].when);
        gw_json_peer(one, "node", &record->ends[i].member);
        json_array_append_new(ends, one);
    }
    json_object_set_new(job, "rounds", rounds);
    json_object_set_new(job, "ends", ends);
    if (gw_job_record_ends_differ(record)) gw_json_flag(job, "ends_differ", true);
}

static const char *over_word(const gw_job_record *record) {
    if (record->cancel) return "cancelled"; /* whatever was known of its end later */
    if (gw_job_record_is_done(record)) return "done";
    return record->end_count > 0 ? "stopped" : "failed";
}

/* How many live members do not have a build. */
static uint32_t count_other_builds(const gw_flock_member *m, const char *build) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        bool self = gw_peer_id_equal(&list->member, &m->identity.id);
        count += (self || gw_member_is_live(m, &list->member)) && !gw_claims_has_build(list, build);
    }
    return count;
}

static json_t *job_of(const gw_flock_member *m, const gw_job_record *record) {
    char text[GW_JOB_RECORD_ID_TEXT];
    gw_job_view view = gw_decider_view(m->decider, &record->id);
    json_t *job = json_object();
    uint32_t running, struck;
    gw_job_spec own = {.kind = GW_JOB_RUN};
    gw_err err;
    gw_hex(record->id.bytes, ID_BYTES, text);
    gw_json_text(job, "id", text);
    const gw_job_spec *spec = view.spec;
    if (spec == NULL && record->spec != NULL &&
        gw_job_spec_read(record->spec, record->spec_bytes, &own, &err)) /* of a job that is over */
        spec = &own;
    if (spec != NULL) put_spec(job, spec);
    json_object_set_new(job, "nodes", nodes_of(m, &record->id, &running, &struck));
    bool over = gw_job_record_is_over(record);
    const char *state = over                          ? over_word(record)
                        : running > 0                 ? "running"
                        : view.reason == GW_WAIT_NOT  ? "starting"
                        : view.reason == GW_WAIT_HELD ? "held"
                                                      : "waiting";
    gw_json_text(job, "state", state);
    if (!over && view.reason != GW_WAIT_NOT) gw_json_text(job, "reason", gw_waits_of(view.reason)->word);
    if (!over &&
        (view.reason == GW_WAIT_AFTER || view.reason == GW_WAIT_BROKEN || view.reason == GW_WAIT_OLDER)) {
        gw_hex(view.after.bytes, ID_BYTES, text);
        gw_json_text(job, "reason_job", text);
    }
    if (!over && (view.reason == GW_WAIT_AWAY || view.reason == GW_WAIT_BACK)) {
        uint64_t now = gw_now_ns();
        gw_json_count(job, "starts_in_s", view.until_ns > now ? (view.until_ns - now) / GW_SECOND_NS + 1 : 0);
    }
    gw_relay_progress progress = gw_relay_progress_of(m->relay, &record->id);
    if (progress.tasks > 0) {
        gw_json_count(job, "tasks", progress.tasks);
        gw_json_count(job, "tasks_done", progress.done);
        gw_json_count(job, "tasks_failed", progress.failed);
    }
    gw_json_count(job, "able", view.able);
    if (!over && view.reason == GW_WAIT_FEW)
        gw_json_count(job, "other_builds", count_other_builds(m, spec->build));
    gw_json_count(job, "struck", struck);
    json_object_set_new(job, "priority",
                        json_integer(record->knob.n != 0 ? record->knob.priority
                                     : spec != NULL      ? spec->priority
                                                         : 0));
    if (record->saved > 0) gw_json_count(job, "saved", record->saved);
    put_ends(job, record);
    gw_job_spec_free(&own);
    return job;
}

json_t *gw_member_jobs(const gw_flock_member *m, const json_t *ids) {
    json_t *jobs = json_array();
    for (size_t i = 0; i < json_array_size(ids); i++) {
        gw_job_record_id id;
        const gw_job_record *record = gw_submission_read_id(json_string_value(json_array_get(ids, i)), &id)
                                          ? gw_job_records_find(m->records, &id)
                                          : NULL;
        if (record != NULL) json_array_append_new(jobs, job_of(m, record));
    }
    if (ids != NULL) return jobs;
    for (uint32_t i = 0; i < gw_job_records_count(m->records); i++)
        json_array_append_new(jobs, job_of(m, gw_job_records_at(m->records, i)));
    return jobs;
}

/* Nodes. */

/* What the kernel holds children to on a node. */
static void put_limits(json_t *node, uint8_t limits) {
    static const char *const words[] = {"memory", "processes", "cores"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((limits >> i & 1) != 0) json_array_append_new(list, json_string(words[i]));
    json_object_set_new(node, "limits", list);
}

static json_t *node_of(const gw_flock_member *m, const gw_peer_id *id, bool live, const gw_claims *list) {
    char name[GW_CLAIMS_NAME_TEXT];
    gw_addr addr;
    bool self = gw_peer_id_equal(id, &m->identity.id);
    json_t *node = json_object();
    gw_json_text(node, "name", gw_member_name(m, id, name));
    gw_json_peer(node, "id", id);
    gw_json_flag(node, "self", self);
    if (self)
        gw_json_addr(node, "address", &m->listen);
    else if (gw_member_address(m, id, &addr))
        gw_json_addr(node, "address", &addr);
    if (gw_exchange_is_unreadable(m->exchange, id)) list = NULL; /* it has told another one since */
    const char *state = !live              ? GONE
                        : list == NULL     ? "unknown"
                        : list->drained    ? "drained"
                        : list->disk_bad   ? "disk full"
                        : list->doubtful   ? "doubtful"
                        : !list->past_gate ? "joining"
                                           : "ready";
    gw_json_text(node, "state", state);
    if (list == NULL) return node;
    uint32_t running = 0;
    for (uint32_t i = 0; i < list->count; i++) running += list->list[i].state != GW_CLAIM_STRUCK;
    gw_json_count(node, "cores", list->has.cores);
    gw_json_count(node, "memory_mib", list->has.memory_mib);
    gw_json_count(node, "gpus", list->has.gpus);
    gw_json_count(node, "jobs", running);
    gw_json_text(node, "build", list->build);
    put_limits(node, list->limits);
    return node;
}

/* Marks nodes that are gone and whose names others have that are there, as after a node was set up anew: "namesake" is the
 * other one's id. */
static void mark_namesakes(const json_t *nodes) {
    json_t *there = json_object(), *node;
    size_t i;
    json_array_foreach(nodes, i, node) {
        bool gone = strcmp(json_string_value(json_object_get(node, "state")), GONE) == 0;
        if (!gone)
            json_object_set(there, json_string_value(json_object_get(node, "name")),
                            json_object_get(node, "id"));
    }
    json_array_foreach(nodes, i, node) {
        bool gone = strcmp(json_string_value(json_object_get(node, "state")), GONE) == 0;
        json_t *other = json_object_get(there, json_string_value(json_object_get(node, "name")));
        if (gone && other != NULL) json_object_set(node, "namesake", other);
    }
    json_decref(there);
}

json_t *gw_member_nodes(const gw_flock_member *m) {
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < gw_gossip_count(m->gossip); i++) {
        const gw_gossip_member *one = gw_gossip_at(m->gossip, i);
        bool self = gw_peer_id_equal(&one->id, &m->identity.id);
        if (one->state == GW_GOSSIP_IS_LEFT && !self) continue;
        const gw_claims *list = self ? &m->claims : gw_exchange_claims_of(m->exchange, &one->id);
        json_array_append_new(nodes, node_of(m, &one->id, one->state <= GW_GOSSIP_IS_SUSPECT, list));
    }
    mark_namesakes(nodes);
    return nodes;
}

/* What browsers see. */

enum { SHOWN = 500 }; /* jobs */

static int64_t number_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

bool gw_member_job_is_over(const json_t *job) {
    static const char *const words[] = {"done", "stopped", "cancelled", "failed"};
    const char *state = json_string_value(json_object_get(job, "state"));
    for (size_t i = 0; state != NULL && i < sizeof words / sizeof *words; i++)
        if (strcmp(state, words[i]) == 0) return true;
    return false;
}

/* Those that are not over first, then the newest. */
static int compare_jobs(const void *a, const void *b) {
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int64_t later = number_of(y, "submitted_ms") - number_of(x, "submitted_ms");
    if (gw_member_job_is_over(x) != gw_member_job_is_over(y)) return gw_member_job_is_over(x) ? 1 : -1;
    return (later > 0) - (later < 0);
}

static json_t *shown_job(const json_t *job) {
    static const char *const kept[] = {"id", "name", "kind", "state", "tasks", "tasks_done", "tasks_failed"};
    json_t *shown = json_object(), *names = json_array();
    const json_t *node;
    size_t i;
    for (i = 0; i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(job, kept[i]) != NULL)
            json_object_set(shown, kept[i], json_object_get(job, kept[i]));
    json_array_foreach(json_object_get(job, "nodes"), i, node) {
        const char *state = json_string_value(json_object_get(node, "state"));
        if (state != NULL && (strcmp(state, "running") == 0 || strcmp(state, "leaving") == 0))
            json_array_append(names, json_object_get(node, "name"));
    }
    json_object_set_new(shown, "nodes", names);
    const char *reason = json_string_value(json_object_get(job, "reason"));
    if (reason != NULL) gw_json_text(shown, "reason", gw_waits_find(reason)->now);
    return shown;
}

json_t *gw_member_queue(void *member) {
    const gw_flock_member *m = member;
    json_t *queue = json_object(), *jobs = gw_member_jobs(m, NULL), *shown = json_array();
    size_t count = json_array_size(jobs);
    json_t **list = calloc(count + 1, sizeof(json_t *));
    GW_ASSERT_MEMORY(list != NULL);
    for (size_t i = 0; i < count; i++) list[i] = json_array_get(jobs, i);
    qsort(list, count, sizeof(json_t *), compare_jobs);
    for (size_t i = 0; i < count && i < SHOWN; i++) json_array_append_new(shown, shown_job(list[i]));
    free(list);
    json_decref(jobs);
    gw_json_text(queue, "flock", m->options->flock);
    gw_json_text(queue, "node", m->claims.name);
    gw_json_flag(queue, "ready",
                 m->claims.past_gate && !m->claims.drained && !m->claims.disk_bad && !m->claims.doubtful);
    json_t *nodes = gw_member_nodes(m), *kept = json_array(), *node;
    size_t i;
    json_array_foreach(nodes, i, node) {
        json_object_del(node, "address"); /* names and states alone */
        if (json_object_get(node, "namesake") == NULL) json_array_append(kept, node);
    }
    json_decref(nodes);
    json_object_set_new(queue, "nodes", kept);
    json_object_set_new(queue, "jobs", shown);
    return queue;
}
