#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/link/stream.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/flock/submission.h"
#include "tools/godwit/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_BYTES = 64 << 10, MOST_SECONDS = 3600 };

#define ACKNOWLEDGE_NS (3 * GW_SECOND_NS)
#define FILES_NS       (20 * GW_SECOND_NS) /* until the files of a submission are on another disk, at most */
#define PASSED_NS      (10 * GW_SECOND_NS)
#define ASKED_NS       (30 * GW_SECOND_NS) /* of a thread of this member, which can wait for more bytes */
#define NEVER          UINT64_MAX

/* Answers. */

/* To another member: id u32 | length of the object u32 | object | bytes. */
static void send_answer(gw_flock_member *m, const gw_reply *reply, json_t *answer, const void *bytes,
                        size_t count) {
    char *line = gw_json_line(answer);
    GW_ASSERT_MEMORY(line != NULL);
    size_t length = strlen(line), whole = 8 + length + count;
    uint8_t *message = malloc(whole);
    GW_ASSERT_MEMORY(message != NULL);
    gw_writer w = gw_writer_on(message, whole);
    gw_put_u32(&w, reply->id);
    gw_put_u32(&w, (uint32_t)length);
    gw_put_bytes(&w, line, length);
    if (count > 0) gw_put_bytes(&w, bytes, count);
    gw_member_send(m, &reply->peer, GW_LINK_ANSWER, message, whole);
    free(message);
    free(line);
    json_decref(answer);
}

void gw_member_answer(gw_flock_member *m, const gw_reply *reply, json_t *object, const void *bytes,
                      size_t count) {
    if (reply->call != NULL)
        gw_member_door_answer(reply->call, object, bytes, count);
    else if (reply->ask != NULL)
        gw_transfer_answered(reply->ask, object, bytes, count);
    else
        send_answer(m, reply, object, bytes, count);
}

void gw_member_refuse(gw_flock_member *m, const gw_reply *reply, const char *text) {
    json_t *object = json_object();
    gw_json_text(object, "error", text);
    gw_member_answer(m, reply, object, NULL, 0);
}

static void set_serve_timer(gw_flock_member *m);

/* Passing on to another member. */

void gw_member_pass_on(gw_flock_member *m, const gw_reply *reply, const gw_peer_id *to,
                       const json_t *request) {
    char *line = gw_json_line(request), name[GW_CLAIMS_NAME_TEXT], text[200];
    GW_ASSERT_MEMORY(line != NULL);
    size_t length = strlen(line);
    uint8_t *message = malloc(4 + length);
    GW_ASSERT_MEMORY(message != NULL);
    gw_writer w = gw_writer_on(message, 4 + length);
    gw_put_u32(&w, ++m->last_passed);
    gw_put_bytes(&w, line, length);
    free(line);
    if (m->passed_count == GW_MEMBER_PASSED)
        gw_member_refuse(m, reply, "too many requests wait for other nodes: try again");
    else if (!gw_member_is_live(m, to) || !gw_member_send(m, to, GW_LINK_REQUEST, message, 4 + length)) {
        snprintf(text, sizeof text, "%s cannot be reached now", gw_member_name(m, to, name));
        gw_member_refuse(m, reply, text);
    } else {
        m->passed[m->passed_count++] = (gw_member_passed){
            *reply, *to, m->last_passed, gw_now_ns() + (reply->ask != NULL ? ASKED_NS : PASSED_NS)};
        set_serve_timer(m);
    }
    free(message);
}

void gw_member_hear_answer(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length) {
    gw_reader r = gw_reader_on(bytes, length);
    uint32_t id = gw_get_u32(&r), line_length = gw_get_u32(&r);
    const uint8_t *line = gw_get_view(&r, line_length);
    if (line == NULL) return;
    for (uint32_t i = 0; i < m->passed_count; i++) {
        gw_member_passed one = m->passed[i];
        if (one.id != id || !gw_peer_id_equal(&one.to, from)) continue;
        m->passed[i] = m->passed[--m->passed_count];
        json_t *object = json_loadb((const char *)line, line_length, 0, NULL);
        if (!json_is_object(object)) {
            json_decref(object);
            gw_member_refuse(m, &one.reply, "another node's answer makes no sense");
            return;
        }
        json_object_del(object, "bytes");
        size_t count = gw_reader_left(&r);
        gw_member_answer(m, &one.reply, object, count > 0 ? gw_get_view(&r, count) : NULL, count);
        return;
    }
}

/* What a request names. */

static bool find_job(const gw_flock_member *m, const json_t *request, gw_job_record_id *id) {
    return gw_submission_read_id(json_string_value(json_object_get(request, "job")), id) &&
           gw_job_records_find(m->records, id) != NULL;
}

static bool find_node(const gw_flock_member *m, const json_t *request, gw_peer_id *id) {
    gw_job_record_id found;
    if (!gw_submission_read_id(json_string_value(json_object_get(request, "node")), &found)) return false;
    memcpy(id->bytes, found.bytes, sizeof id->bytes);
    return gw_peer_id_equal(id, &m->identity.id) || gw_gossip_find(m->gossip, id) != NULL;
}

/* Requests. */

static void hello(gw_flock_member *m, const gw_reply *reply) {
    json_t *object = json_object();
    uint64_t counter = 0;
    uint32_t least_cores = m->claims.has.cores;
    for (uint32_t i = 0; i < gw_job_records_count(m->records); i++) {
        const gw_job_spec *spec = gw_decider_spec(m->decider, &gw_job_records_at(m->records, i)->id);
        if (spec != NULL && spec->counter > counter) counter = spec->counter;
    }
    uint64_t known = gw_job_records_count(m->records);
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        if (list->boot != 0 && list->has.cores < least_cores) least_cores = list->has.cores;
    }
    gw_json_text(object, "name", m->claims.name);
    gw_json_peer(object, "id", &m->identity.id);
    gw_json_text(object, "directory", m->directory.path);
    gw_json_text(object, "build", m->claims.build);
    gw_json_count(object, "counter", (counter > known ? counter : known) + 1);
    gw_json_count(object, "least_cores", least_cores);
    gw_json_count(object, "members", gw_member_company(m));
    gw_member_answer(m, reply, object, NULL, 0);
}

static void acknowledge(gw_flock_member *m, uint32_t index) {
    gw_member_submission one = m->submissions[index];
    char text[GW_JOB_RECORD_ID_TEXT];
    json_t *object = json_object();
    m->submissions[index] = m->submissions[--m->submission_count];
    gw_hex(one.id.bytes, sizeof one.id.bytes, text);
    gw_json_text(object, "id", text);
    gw_json_count(object, "disks", one.durable + one.elsewhere);
    if (one.is_change) {
        gw_json_flag(object, "was_over", false);
        gw_json_count(object, "members", gw_member_company(m));
    }
    if (one.has_files) gw_json_count(object, "file_disks", 1 + one.files_elsewhere);
    gw_member_answer(m, &one.reply, object, NULL, 0);
}

static void look_at_submissions(gw_flock_member *m, uint64_t now_ns) {
    for (uint32_t i = m->submission_count; i-- > 0;) {
        const gw_member_submission *one = &m->submissions[i];
        bool elsewhere = one->elsewhere > 0 && (!one->has_files || one->files_elsewhere > 0);
        bool enough = one->durable && (elsewhere || gw_member_live_count(m) == 1);
        if (enough || now_ns >= one->until_ns) acknowledge(m, i);
    }
}

void gw_member_submission_durable(gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < m->submission_count; i++)
        if (gw_job_record_id_equal(&m->submissions[i].id, id)) m->submissions[i].durable = true;
    look_at_submissions(m, gw_now_ns());
}

static void note_holder(gw_member_submission *one, const gw_peer_id *member) {
    for (uint32_t i = 0; i < one->elsewhere; i++)
        if (gw_peer_id_equal(&one->holders[i], member)) return;
    if (one->elsewhere < GW_MEMBER_HOLDERS) one->holders[one->elsewhere++] = *member;
}

void gw_member_submission_held(gw_flock_member *m, const gw_job_record_id *id, const gw_peer_id *member,
                               uint64_t state) {
    for (uint32_t i = 0; i < m->submission_count; i++)
        if (state > m->submissions[i].after && gw_job_record_id_equal(&m->submissions[i].id, id))
            note_holder(&m->submissions[i], member);
    gw_member_decide_soon(m); /* it answers there: the exchange must not be called from here */
}

void gw_member_files_held(gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < m->submission_count; i++)
        if (gw_job_record_id_equal(&m->submissions[i].id, id)) m->submissions[i].files_elsewhere++;
    look_at_submissions(m, gw_now_ns());
}

void gw_member_take_submission(gw_flock_member *m, const gw_reply *reply, const gw_job_record *record,
                               bool has_files) {
    if (m->submission_count == GW_MEMBER_CALLS) {
        gw_member_refuse(m, reply, "too many submissions wait for a disk: try again");
        return;
    }
    bool known = gw_job_records_find(m->records, &record->id) != NULL;
    m->submissions[m->submission_count++] =
        (gw_member_submission){.reply = *reply,
                               .id = record->id,
                               .durable = known,
                               .after = known ? 0 : gw_exchange_states(m->exchange),
                               .has_files = has_files,
                               .until_ns = gw_now_ns() + (has_files ? FILES_NS : ACKNOWLEDGE_NS)};
    gw_member_change(m, record);
    set_serve_timer(m);
    if (known && !has_files) look_at_submissions(m, NEVER); /* it was sent twice */
}

/* Takes a record that a command has made, when its files are known to be here. */
static void take_record(gw_flock_member *m, const gw_reply *reply, const gw_job_record *record) {
    static const gw_hash none;
    gw_job_spec spec;
    gw_err err;
    if (m->claims.disk_bad) {
        gw_member_refuse(m, reply, "the disk of this node takes no writes: submit at another one");
        return;
    }
    if (!gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err)) {
        gw_member_refuse(m, reply, err.text);
        return;
    }
    if (gw_hash_equal(&spec.files, &none))
        gw_member_take_submission(m, reply, record, false);
    else
        gw_member_check_files(m, reply, record, &spec.files);
    gw_job_spec_free(&spec);
}

static void submit(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_job_record record;
    gw_err err;
    if (!gw_submission_read(json_object_get(request, "spec"), m->identity.public_key, m->identity.secret_key,
                            &record, &err)) {
        gw_member_refuse(m, reply, err.text);
        return;
    }
    take_record(m, reply, &record);
    gw_job_record_free(&record);
}

/* Takes a job anew that is over and was not done. */
static void again(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_job_record_id id;
    gw_job_record record;
    gw_err err;
    if (!find_job(m, request, &id)) {
        gw_member_refuse(m, reply, "there is no such job");
        return;
    }
    const gw_job_record *old = gw_job_records_find(m->records, &id);
    if (!gw_job_record_is_over(old)) {
        gw_member_refuse(m, reply, "the job is not over: there is nothing to try again yet");
        return;
    }
    if (gw_job_record_is_done(old)) {
        gw_member_refuse(m, reply, "the job is done: there is nothing to try again");
        return;
    }
    if (!gw_submission_again(request, old, m->claims.build, m->identity.public_key, m->identity.secret_key,
                             &record, &err)) {
        gw_member_refuse(m, reply, err.text);
        return;
    }
    take_record(m, reply, &record);
    gw_job_record_free(&record);
}

static void change(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_job_record_id id;
    if (!find_job(m, request, &id)) {
        gw_member_refuse(m, reply, "there is no such job");
        return;
    }
    const gw_job_record *record = gw_job_records_find(m->records, &id);
    const gw_job_spec *spec = gw_decider_spec(m->decider, &id);
    gw_job_record change = gw_job_record_of(&id);
    const json_t *hold = json_object_get(request, "hold"), *priority = json_object_get(request, "priority");
    change.cancel = json_is_true(json_object_get(request, "cancel"));
    if (hold != NULL || priority != NULL) {
        bool held = record->knob.n != 0 ? record->knob.hold : spec != NULL && spec->hold;
        int32_t now = record->knob.n != 0 ? record->knob.priority : spec != NULL ? spec->priority : 0;
        change.knob =
            (gw_job_record_knob){.n = record->knob.n + 1,
                                 .writer = m->identity.id,
                                 .priority = priority != NULL ? (int32_t)json_integer_value(priority) : now,
                                 .hold = hold != NULL ? json_is_true(hold) : held};
    }
    if (gw_job_record_is_over(record)) {
        json_t *object = json_object();
        gw_json_flag(object, "was_over", true);
        gw_member_answer(m, reply, object, NULL, 0);
        return;
    }
    if (!change.cancel && change.knob.n == 0) {
        gw_member_refuse(m, reply, "a change has \"cancel\", \"hold\" or \"priority\"");
        return;
    }
    if (m->submission_count == GW_MEMBER_CALLS) {
        gw_member_refuse(m, reply, "too many changes wait for a disk: try again");
        return;
    }
    m->submissions[m->submission_count++] = (gw_member_submission){.reply = *reply,
                                                                   .id = id,
                                                                   .is_change = true,
                                                                   .after = gw_exchange_states(m->exchange),
                                                                   .until_ns = gw_now_ns() + ACKNOWLEDGE_NS};
    gw_member_change(m, &change);
    set_serve_timer(m);
}

/* The node on which a job has ended; none where nobody knows of one. */
static gw_peer_id end_of(const gw_job_record *record) {
    gw_peer_id none = {{0}};
    if (record->end_count > 0) return record->ends[0].member;
    return record->round_count > 0 ? record->rounds[record->round_count - 1].member : none;
}

/* A node that has a child of a job; this one rather than another. */
static void find_runner(const gw_flock_member *m, const gw_job_record_id *id, gw_peer_id *node) {
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        const gw_claim *claim = list->boot != 0 ? gw_claims_find(list, id) : NULL;
        if (claim == NULL || (claim->state != GW_CLAIM_RUNNING && claim->state != GW_CLAIM_LEAVING)) continue;
        *node = list->member;
        if (gw_peer_id_equal(node, &m->identity.id)) return;
    }
}

/* The node whose child of a job has written most recently, as far as that is known. That of a job that is over is the one
 * whose end was recorded, though a child that ran beside it may be about to leave elsewhere. */
static bool find_writer(const gw_flock_member *m, const gw_job_record_id *id, gw_peer_id *node) {
    const gw_job_record *record = gw_job_records_find(m->records, id);
    if (gw_job_record_is_over(record) && !record->cancel)
        *node = end_of(record);
    else
        find_runner(m, id, node);
    if (gw_peer_id_is_none(node)) *node = end_of(record);
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange) && gw_peer_id_is_none(node); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        const gw_claim *claim = gw_claims_find(list, id);
        if (claim != NULL && claim->state == GW_CLAIM_STRUCK) *node = list->member;
    }
    return !gw_peer_id_is_none(node);
}

static void show_log(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_job_record_id id;
    gw_peer_id node = {{0}};
    if (!find_job(m, request, &id)) {
        gw_member_refuse(m, reply, "there is no such job");
        return;
    }
    if (json_object_get(request, "node") != NULL) {
        if (!find_node(m, request, &node)) {
            gw_member_refuse(m, reply, "there is no such node, or it has not been met yet");
            return;
        }
    } else if (!find_writer(m, &id, &node)) {
        gw_member_refuse(m, reply, "the job has not run yet");
        return;
    }
    if (gw_peer_id_equal(&node, &m->identity.id)) {
        gw_member_stock_serve(m, reply, request, NULL, 0);
    } else if (reply->call != NULL) {
        json_t *named = json_copy((json_t *)(uintptr_t)request); /* the node might choose another one */
        gw_json_peer(named, "node", &node);
        gw_member_pass_on(m, reply, &node, named);
        json_decref(named);
    } else {
        gw_member_refuse(m, reply, "the job does not run here any more");
    }
}

/* Waiting. */

static void look_at_waits(gw_flock_member *m, uint64_t now_ns) {
    for (uint32_t i = m->wait_count; i-- > 0;) {
        gw_member_wait one = m->waits[i];
        bool over = true;
        for (uint32_t k = 0; k < one.count && over; k++) {
            const gw_job_record *record = gw_job_records_find(m->records, &one.ids[k]);
            /* One that no member knows was forgotten; here it may not have come from the others yet. */
            over = record != NULL ? gw_job_record_is_over(record) : gw_exchange_is_past_gate(m->exchange);
        }
        if (!over && now_ns < one.until_ns) continue;
        m->waits[i] = m->waits[--m->wait_count];
        json_t *object = json_object();
        gw_json_flag(object, "over", over);
        gw_member_answer(m, &one.reply, object, NULL, 0);
        free(one.ids);
    }
}

static void begin_wait(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    const json_t *list = json_object_get(request, "jobs");
    int64_t seconds = json_integer_value(json_object_get(request, "seconds"));
    gw_member_wait one = {.reply = *reply};
    if (m->wait_count == GW_MEMBER_CALLS) {
        gw_member_refuse(m, reply, "too many commands wait for jobs");
        return;
    }
    one.ids = calloc(json_array_size(list) + 1, sizeof *one.ids);
    GW_ASSERT_MEMORY(one.ids != NULL);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (gw_submission_read_id(json_string_value(json_array_get(list, i)), &one.ids[one.count]))
            one.count++;
    one.until_ns = gw_now_ns() + (uint64_t)(seconds < 0              ? 0
                                            : seconds > MOST_SECONDS ? MOST_SECONDS
                                                                     : seconds) *
                                     GW_SECOND_NS;
    m->waits[m->wait_count++] = one;
    look_at_waits(m, gw_now_ns());
    set_serve_timer(m);
}

/* The node itself. */

static void drain(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_peer_id node;
    if (!find_node(m, request, &node)) {
        gw_member_refuse(m, reply, "there is no such node");
        return;
    }
    if (!gw_peer_id_equal(&node, &m->identity.id)) {
        if (reply->call != NULL)
            gw_member_pass_on(m, reply, &node, request);
        else
            gw_member_refuse(m, reply, "this is another node");
        return;
    }
    m->claims.drained = json_is_true(json_object_get(request, "on"));
    if (!m->claims.drained) {
        m->doubtful_until_ns = 0;
        memset(m->failures, 0, sizeof m->failures);
        gw_member_lost_forget(m);
    }
    m->claims.number++;
    gw_log(GW_INFO, "flock",
           m->claims.drained ? "this node is drained: it takes no jobs" : "this node takes jobs again");
    gw_member_decide_soon(m);
    gw_member_answer(m, reply, json_object(), NULL, 0);
}

static uint64_t over_since_ms(const gw_job_record *record) {
    uint64_t when = 0;
    for (uint32_t i = 0; i < record->end_count; i++)
        if (record->ends[i].when > when) when = record->ends[i].when;
    if (when > 0) return when;
    if (record->spec == NULL)
        return gw_wall_ns() / 1000000 - 1000 * (uint64_t)GW_JOB_RECORDS_SPEC_S; /* it may be longer */
    gw_job_spec spec;
    gw_err err;
    if (!gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err)) return 0;
    when = spec.when; /* it failed or was cancelled: nobody has written when */
    gw_job_spec_free(&spec);
    return when;
}

static void forget(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    json_int_t before_s = json_integer_value(json_object_get(request, "before"));
    uint32_t forgotten = 0;
    gw_job_record_id *ids = calloc(gw_job_records_count(m->records) + 1, sizeof *ids);
    GW_ASSERT_MEMORY(ids != NULL);
    for (uint32_t i = gw_job_records_count(m->records); i-- > 0 && before_s > 0;) {
        const gw_job_record *record = gw_job_records_at(m->records, i);
        gw_job_record_id id = record->id;
        if (!gw_job_record_is_over(record) || over_since_ms(record) >= (uint64_t)before_s * 1000 ||
            gw_children_find(m->children, &id) != NULL || gw_member_is_preparing(m, &id))
            continue;
        gw_job_records_forget(m->records, &id);
        ids[forgotten++] = id;
    }
    if (forgotten > 0) {
        gw_record_store_rewrite(m->store);
        gw_member_stock_forget(m, ids, forgotten);
    }
    free(ids);
    json_t *object = json_object();
    gw_json_count(object, "forgotten", forgotten);
    gw_member_answer(m, reply, object, NULL, 0);
}

static void go_down(gw_flock_member *m, const gw_reply *reply) {
    json_t *object = json_object();
    gw_json_count(object, "children", gw_children_count(m->children));
    gw_member_answer(m, reply, object, NULL, 0);
    gw_log(GW_INFO, "flock", "this member ends when its children have");
    m->going_down = true;
    m->claims.drained = true;
    m->claims.number++;
    gw_member_stop_children(m);
    gw_member_decide_soon(m);
}

static json_t *with_list(const char *key, json_t *list) {
    json_t *object = json_object();
    json_object_set_new(object, key, list);
    return object;
}

/* Has this member fetch files from the one that asks. */
static void hold(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_hash files;
    if (gw_unhex(json_string_value(json_object_get(request, "files")), files.bytes, sizeof files.bytes))
        gw_member_hold_files(m, reply, &files);
    else
        gw_member_refuse(m, reply, "this names no files");
}

/* Has this member keep the checkpoint of a job that the one has which asks. */
static void keep(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_job_record_id id;
    if (find_job(m, request, &id))
        gw_member_keep(m, reply, &id);
    else
        gw_member_refuse(m, reply, "there is no such job");
}

/* Whether a request of a command names a node: then that one has it, or has answered already that this cannot be. */
static bool is_for_another(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    const char *what = json_string_value(json_object_get(request, "do"));
    gw_peer_id node;
    if (reply->call == NULL || (strcmp(what, "results") != 0 && strcmp(what, "result") != 0)) return false;
    if (!find_node(m, request, &node)) {
        gw_member_refuse(m, reply, "there is no such node");
        return true;
    }
    if (gw_peer_id_equal(&node, &m->identity.id)) return false;
    gw_member_pass_on(m, reply, &node, request);
    return true;
}

/* Brings the newest checkpoint of a job here, for a command that takes it from this disk. */
static void bring(gw_flock_member *m, const gw_reply *reply, const json_t *request) {
    gw_job_record_id id;
    if (find_job(m, request, &id))
        gw_member_bring(m, reply, &id);
    else
        gw_member_refuse(m, reply, "there is no such job");
}

static void serve(gw_flock_member *m, const gw_reply *reply, const json_t *request, const void *bytes,
                  size_t count) {
    const char *what = json_string_value(json_object_get(request, "do"));
    bool own = reply->call != NULL;
    if (what == NULL)
        gw_member_refuse(m, reply, "a request has a text \"do\"");
    else if (strcmp(what, "log") == 0)
        show_log(m, reply, request);
    else if (is_for_another(m, reply, request) || gw_member_stock_serve(m, reply, request, bytes, count))
        return;
    else if (!own && strcmp(what, "hold") == 0)
        hold(m, reply, request);
    else if (!own && strcmp(what, "keep") == 0)
        keep(m, reply, request);
    else if (strcmp(what, "drain") == 0)
        drain(m, reply, request);
    else if (strcmp(what, "forget") == 0)
        forget(m, reply, request);
    else if (own && strcmp(what, "hello") == 0)
        hello(m, reply);
    else if (own && strcmp(what, "jobs") == 0)
        gw_member_answer(m, reply, with_list("jobs", gw_member_jobs(m, json_object_get(request, "jobs"))),
                         NULL, 0);
    else if (own && strcmp(what, "nodes") == 0)
        gw_member_answer(m, reply, with_list("nodes", gw_member_nodes(m)), NULL, 0);
    else if (own && strcmp(what, "submit") == 0)
        submit(m, reply, request);
    else if (own && strcmp(what, "bring") == 0)
        bring(m, reply, request);
    else if (own && strcmp(what, "again") == 0)
        again(m, reply, request);
    else if (own && strcmp(what, "change") == 0)
        change(m, reply, request);
    else if (own && strcmp(what, "wait") == 0)
        begin_wait(m, reply, request);
    else if (own && strcmp(what, "down") == 0)
        go_down(m, reply);
    else
        gw_member_refuse(m, reply,
                         "the member of this flock does not know this request: it is of another build");
}

static void serve_door(void *context, gw_member_door_call *call, const json_t *request, const void *bytes,
                       size_t count) {
    serve(context, &(gw_reply){.call = call}, request, bytes, count);
}

void gw_member_hear_request(gw_flock_member *m, const gw_peer_id *from, const uint8_t *bytes, size_t length) {
    gw_reader r = gw_reader_on(bytes, length);
    gw_reply reply = {.peer = *from, .id = gw_get_u32(&r)};
    size_t left = gw_reader_left(&r);
    const uint8_t *line = gw_get_view(&r, left);
    json_t *request =
        line != NULL && left <= REQUEST_BYTES ? json_loadb((const char *)line, left, 0, NULL) : NULL;
    if (json_is_object(request)) serve(m, &reply, request, NULL, 0);
    json_decref(request);
}

/* What waits. */

static void serve_due(void *context) {
    gw_member_serve_look(context);
}

static void set_serve_timer(gw_flock_member *m) {
    uint64_t next = NEVER;
    gw_err err;
    for (uint32_t i = 0; i < m->submission_count; i++)
        if (m->submissions[i].until_ns < next) next = m->submissions[i].until_ns;
    for (uint32_t i = 0; i < m->wait_count; i++)
        if (m->waits[i].until_ns < next) next = m->waits[i].until_ns;
    for (uint32_t i = 0; i < m->passed_count; i++)
        if (m->passed[i].until_ns < next) next = m->passed[i].until_ns;
    if (next != NEVER && !gw_timer_set(m->loop, &m->serve_timer, next, serve_due, m, &err))
        gw_log(GW_ERROR, "flock", "%s", err.text);
}

void gw_member_serve_look(gw_flock_member *m) {
    uint64_t now = gw_now_ns();
    char name[GW_CLAIMS_NAME_TEXT], text[200];
    look_at_submissions(m, now);
    look_at_waits(m, now);
    for (uint32_t i = m->passed_count; i-- > 0;) {
        gw_member_passed one = m->passed[i];
        if (now < one.until_ns && gw_member_is_live(m, &one.to)) continue;
        m->passed[i] = m->passed[--m->passed_count];
        snprintf(text, sizeof text, "%s does not answer", gw_member_name(m, &one.to, name));
        gw_member_refuse(m, &one.reply, text);
    }
    set_serve_timer(m);
    if (m->going_down && gw_children_count(m->children) == 0 && !m->stopped) {
        m->stopped = true;
        gw_gossip_leave(m->gossip, now);
        gw_member_lost_left(m);
        gw_loop_stop(m->loop);
    }
}

void gw_member_refuse_asks(gw_flock_member *m) {
    for (uint32_t i = m->passed_count; i-- > 0;) {
        gw_member_passed one = m->passed[i];
        if (one.reply.ask == NULL) continue;
        m->passed[i] = m->passed[--m->passed_count];
        gw_member_refuse(m, &one.reply, "this member ends");
    }
}

bool gw_member_serve_open(gw_flock_member *m, gw_err *err) {
    m->door = gw_member_door_open(m->loop, m->directory.path, serve_door, m, err);
    return m->door != NULL;
}

void gw_member_serve_close(gw_flock_member *m) {
    gw_timer_cancel(&m->serve_timer);
    gw_member_door_close(m->door);
    m->door = NULL;
    for (uint32_t i = 0; i < m->wait_count; i++) free(m->waits[i].ids);
}
