#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/mix.h"
#include "core/os/clock.h"
#include "net/loop/address.h"
#include "tools/godwit/flock/history.h"
#include "tools/godwit/flock/inside.h"
#include "tools/godwit/limit/cores.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/why/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_TEXT = GW_JOB_SPEC_NAME_BYTES + 1 };
enum {
    ACTIONS = 4096,
    MEMBERS = 4096,
    REST_S = 5,
    SOON_S = 60,
    DOUBTFUL_S = 3600,
    REST_FACTOR = 4, /* it rests from deciding for so many times as long as that took */
};

#define AGE_NS  (3600 * GW_SECOND_NS) /* between two looks for jobs that are over for long */
#define LOOK_NS (30 * GW_SECOND_NS)   /* it decides so often though nothing has happened */

static bool read_spec(const gw_flock_member *m, const gw_job_record_id *id, gw_job_spec *spec) {
    const gw_job_record *record = gw_job_records_find(m->records, id);
    gw_err err;
    return record != NULL && record->spec != NULL &&
           gw_job_spec_read(record->spec, record->spec_bytes, spec, &err);
}

/* The name of a job, which may be over. */
static const char *name_of(const gw_flock_member *m, const gw_job_record_id *id, char text[NAME_TEXT]) {
    gw_job_spec spec;
    gw_hex(id->bytes, 4, text);
    if (!read_spec(m, id, &spec)) return text;
    snprintf(text, NAME_TEXT, "%s", spec.name);
    gw_job_spec_free(&spec);
    return text;
}

/* Records. */

static bool is_unsaved(const gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < m->unsaved_count; i++)
        if (gw_job_record_id_equal(&m->unsaved[i], id)) return true;
    return m->unsaved_count == GW_MEMBER_UNSAVED;
}

static void save(gw_flock_member *m, const gw_job_record_id *id) {
    if (m->unsaved_count < GW_MEMBER_UNSAVED && !is_unsaved(m, id)) m->unsaved[m->unsaved_count++] = *id;
    gw_record_store_put(m->store, id);
}

void gw_member_change(gw_flock_member *m, const gw_job_record *change) {
    gw_job_records_joined joined = gw_job_records_join(m->records, change);
    if (joined != GW_JOB_RECORDS_CHANGED && joined != GW_JOB_RECORDS_NEW) return;
    save(m, &change->id);
    gw_exchange_put(m->exchange, &change->id, gw_now_ns());
    gw_member_decide_soon(m);
}

void gw_member_record_changed(gw_flock_member *m, const gw_job_record_id *id) {
    save(m, id);
    gw_member_decide_soon(m);
}

static void record_durable(void *context, const gw_job_record_id *id, uint64_t digest) {
    gw_flock_member *m = context;
    const gw_job_record *record = gw_job_records_find(m->records, id);
    if (record == NULL || gw_job_record_digest(record) != digest) return; /* it has changed: that follows */
    for (uint32_t i = 0; i < m->unsaved_count; i++)
        if (gw_job_record_id_equal(&m->unsaved[i], id)) m->unsaved[i--] = m->unsaved[--m->unsaved_count];
    gw_exchange_durable(m->exchange, id, digest);
    gw_member_submission_durable(m, id);
    if (gw_children_find(m->children, id) == NULL) gw_children_account(m->children, id);
    gw_member_decide_soon(m);
}

static void disk_failing(void *context, const char *why) {
    gw_flock_member *m = context;
    m->claims.disk_bad = why != NULL;
    m->claims.number++;
    if (why != NULL)
        gw_log(GW_ERROR, "flock", "the disk takes no writes (%s): this node runs no jobs until it does", why);
    else
        gw_log(GW_INFO, "flock", "the disk takes writes again");
    gw_member_decide_soon(m);
}

/* What happens to jobs here, for `godwit why`. */

static json_t *event_of(const char *kind) {
    json_t *event = json_object();
    gw_json_text(event, "event", kind);
    return event;
}

/* Adds an event, which is released, to the history of a job. */
static void add_event(const gw_flock_member *m, const gw_job_record_id *id, json_t *event) {
    char folder[GW_KEEPER_FOLDER_TEXT];
    gw_err err;
    if (gw_children_folder(m->children, id, folder, &err))
        gw_job_history_add(folder, event);
    else
        json_decref(event);
}

void gw_member_bereave(gw_flock_member *m, const gw_peer_id *id) {
    const gw_claims *list = gw_exchange_claims_of(m->exchange, id);
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        if (list->list[i].state != GW_CLAIM_RUNNING) continue;
        gw_member_bereft *one = &m->bereft[m->bereft_at];
        m->bereft_at = (m->bereft_at + 1) % GW_MEMBER_BEREFT;
        one->id = list->list[i].job;
        gw_member_name(m, id, one->name);
    }
}

static void tell_start(gw_flock_member *m, const gw_do *action) {
    json_t *event = event_of("start");
    gw_json_count(event, "round", action->round);
    if (action->waited != GW_WAIT_NOT) gw_json_text(event, "waited", gw_waits_of(action->waited)->word);
    for (uint32_t i = 0; i < GW_MEMBER_BEREFT; i++) {
        gw_member_bereft *one = &m->bereft[i];
        if (one->name[0] == '\0' || !gw_job_record_id_equal(&one->id, &action->job)) continue;
        gw_json_text(event, "from", one->name);
        one->name[0] = '\0';
    }
    add_event(m, &action->job, event);
}

static void tell_text(gw_flock_member *m, const gw_job_record_id *id, const char *kind, const char *text) {
    json_t *event = event_of(kind);
    gw_json_text(event, "text", text);
    add_event(m, id, event);
}

static void tell_stop(gw_flock_member *m, const gw_job_record_id *id, const char *cause) {
    json_t *event = event_of("stop");
    gw_json_text(event, "cause", cause);
    add_event(m, id, event);
}

/* Whether another live member runs a job. */
static bool runs_elsewhere(const gw_flock_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < gw_exchange_claims_count(m->exchange); i++) {
        const gw_claims *list = gw_exchange_claims_at(m->exchange, i);
        const gw_claim *claim = gw_claims_find(list, id);
        if (claim != NULL && claim->state == GW_CLAIM_RUNNING &&
            !gw_peer_id_equal(&list->member, &m->identity.id) && gw_member_is_live(m, &list->member))
            return true;
    }
    return false;
}

/* Why the decision asks a child of this member to end. */
static const char *stop_cause(const gw_flock_member *m, const gw_job_record_id *id) {
    const gw_job_record *record = gw_job_records_find(m->records, id);
    if (record != NULL && gw_job_record_is_over(record)) return record->cancel ? "cancelled" : "over";
    if (gw_decider_view(m->decider, id).reason == GW_WAIT_HELD) return "held";
    if (m->claims.drained || m->claims.disk_bad) return m->claims.drained ? "drained" : "disk";
    const gw_job_spec *spec = gw_decider_spec(m->decider, id);
    bool one = spec != NULL && spec->kind == GW_JOB_COMMAND;
    return one && runs_elsewhere(m, id) ? "elsewhere" : "moved";
}

static gw_child_stop stop_of(const gw_flock_member *m, const gw_job_record_id *id) {
    const gw_job_record *record = gw_job_records_find(m->records, id);
    if (record != NULL && gw_job_record_is_over(record)) return GW_CHILD_STOP_NOW;
    return gw_decider_view(m->decider, id).reason == GW_WAIT_HELD ? GW_CHILD_STOP_LATER : GW_CHILD_STOP_SOON;
}

/* Has children that take their time end now where their jobs are over meanwhile. */
static void hurry_children(gw_flock_member *m) {
    for (uint32_t i = 0; i < gw_children_count(m->children); i++) {
        const gw_child *child = gw_children_at(m->children, i);
        if (child->leaving && stop_of(m, &child->id) == GW_CHILD_STOP_NOW)
            gw_children_stop(m->children, &child->id, GW_CHILD_STOP_NOW);
    }
}

static void tell_end(gw_flock_member *m, const gw_child_end *end) {
    static const char *const outcomes[] = {
        [GW_CHILD_DONE] = "done",   [GW_CHILD_STOPPED] = "stopped", [GW_CHILD_FAILED] = "failed",
        [GW_CHILD_FATAL] = "fatal", [GW_CHILD_STRUCK] = "struck",   [GW_CHILD_LEFT] = "left"};
    json_t *event = event_of("end");
    const gw_job_record *record = gw_job_records_find(m->records, &end->id);
    /* All children of a map end with it, and alike. */
    bool with_map = end->kind == GW_JOB_MAP &&
                    (end->verdict == GW_CHILD_FATAL ||
                     (end->verdict == GW_CHILD_LEFT && record != NULL && gw_job_record_is_over(record)));
    gw_json_text(event, "outcome", with_map ? "ended" : outcomes[end->verdict]);
    gw_json_count(event, "round", end->round);
    gw_json_count(event, "code", end->code & ~(uint32_t)GW_JOB_ROUND_OUT_OF_MEMORY);
    gw_json_text(event, "text", end->text);
    add_event(m, &end->id, event);
}

/* Children. */

void gw_member_stop_children(gw_flock_member *m) {
    for (uint32_t i = 0; i < gw_children_count(m->children); i++)
        if (!gw_children_at(m->children, i)->leaving)
            tell_stop(m, &gw_children_at(m->children, i)->id, "down");
    gw_children_stop_all(m->children);
}

/* Tells the history of a job why it is not started here now, unless that was told when it began to rest the last time. */
static uint64_t tell_delay(gw_flock_member *m, const gw_job_record_id *id, const char *text) {
    uint64_t why = 1;
    for (const char *c = text; *c != '\0'; c++) why = gw_mix64(why ^ (unsigned char)*c);
    for (uint32_t i = 0; i < GW_MEMBER_RESTING; i++)
        if (m->resting[i].why == why && gw_job_record_id_equal(&m->resting[i].id, id)) return why;
    tell_text(m, id, "delay", text);
    return why;
}

/* Notes that a job is not started here again for some seconds. */
static void rest(gw_flock_member *m, const gw_job_record_id *id, uint64_t why) {
    m->resting[m->resting_at] = (gw_member_resting){*id, gw_now_ns() + REST_S * GW_SECOND_NS, why};
    m->resting_at = (m->resting_at + 1) % GW_MEMBER_RESTING;
}

static bool is_resting(const gw_flock_member *m, const gw_job_record_id *id) {
    uint64_t now = gw_now_ns();
    for (uint32_t i = 0; i < GW_MEMBER_RESTING; i++)
        if (m->resting[i].until_ns > now && gw_job_record_id_equal(&m->resting[i].id, id)) return true;
    return false;
}

/* What a failure counts for: the job, or all jobs of its sweep, which may fail alike. */
static gw_job_record_id blamed(const gw_flock_member *m, const gw_job_record_id *id) {
    gw_job_record_id what = *id;
    gw_job_spec spec;
    if (!read_spec(m, id, &spec)) return what;
    for (size_t i = 0; i < sizeof spec.sweep; i++)
        if (spec.sweep[i] != 0) memcpy(what.bytes, spec.sweep, sizeof what.bytes);
    gw_job_spec_free(&spec);
    return what;
}

/* A child has failed. Where those of several jobs failed soon after their start, the node may be to blame; without other
 * nodes, which could do better, it makes no difference. */
static void note_failure(gw_flock_member *m, const gw_child_end *end) {
    uint64_t now = gw_now_ns();
    gw_job_record_id id = blamed(m, &end->id);
    if (end->when - end->began > SOON_S || gw_member_live_count(m) < 2) return;
    uint32_t soon = 0, oldest = 0;
    for (uint32_t i = 0; i < GW_MEMBER_FAILURES; i++) {
        gw_member_failure *f = &m->failures[i];
        if (f->at_ns != 0 && gw_job_record_id_equal(&f->id, &id)) {
            f->at_ns = now;
            return;
        }
        if (f->at_ns < m->failures[oldest].at_ns) oldest = i;
    }
    m->failures[oldest] = (gw_member_failure){id, now};
    for (uint32_t i = 0; i < GW_MEMBER_FAILURES; i++)
        soon += m->failures[i].at_ns != 0 && m->failures[i].at_ns + SOON_S * GW_SECOND_NS > now;
    if (soon < GW_MEMBER_FAILURES) return;
    memset(m->failures, 0, sizeof m->failures);
    m->doubtful_until_ns = now + DOUBTFUL_S * GW_SECOND_NS;
    gw_log(GW_WARN, "flock",
           "children of %d jobs have failed here soon after their start, and none was done: while others "
           "take jobs, this node "
           "takes none for an hour, or until 'godwit drain --undo' names it",
           GW_MEMBER_FAILURES);
}

/* How often a job is tried again. The decider does not know it yet where its child has ended while no member ran. */
static uint32_t retries_of(const gw_flock_member *m, const gw_job_record_id *id) {
    const gw_job_spec *known = gw_decider_spec(m->decider, id);
    gw_job_spec spec;
    if (known != NULL) return known->retries;
    if (!read_spec(m, id, &spec)) return 0;
    uint32_t retries = spec.retries;
    gw_job_spec_free(&spec);
    return retries;
}

static void child_ended(void *context, const gw_child_end *end) {
    gw_flock_member *m = context;
    char name[NAME_TEXT];
    gw_job_record change = gw_job_record_of(&end->id);
    const gw_job_record *record = gw_job_records_find(m->records, &end->id);
    gw_log(end->verdict == GW_CHILD_FAILED || end->verdict == GW_CHILD_FATAL ? GW_WARN : GW_INFO, "flock",
           "%s: its child here has ended: %s", name_of(m, &end->id, name), end->text);
    tell_end(m, end);
    rest(m, &end->id, 0);
    if (end->killed > 0) gw_member_tell_killed(m, &end->id, end->killed);
    switch (end->verdict) {
    case GW_CHILD_DONE:
    case GW_CHILD_STOPPED:
        memset(m->failures, 0, sizeof m->failures); /* the node is good for jobs */
        change.ends[change.end_count++] =
            (gw_job_record_end){.kind = end->verdict == GW_CHILD_DONE ? GW_JOB_END_DONE : GW_JOB_END_STOPPED,
                                .hash = end->hash,
                                .when = (uint64_t)(end->when * 1000),
                                .member = m->identity.id};
        break;
    case GW_CHILD_FAILED:
    case GW_CHILD_FATAL:
        if (end->round >= GW_JOB_RECORD_ROUNDS) break;
        change.rounds[change.round_count++] =
            (gw_job_record_round){.round = end->round,
                                  .last = end->round >= retries_of(m, &end->id),
                                  .fatal = end->verdict == GW_CHILD_FATAL,
                                  .code = end->code,
                                  .member = m->identity.id,
                                  .boot = m->identity.incarnation.boot};
        if (end->verdict == GW_CHILD_FAILED) note_failure(m, end);
        break;
    case GW_CHILD_STRUCK:
        gw_claims_set(&m->claims, &(gw_claim){.job = end->id, .state = GW_CLAIM_STRUCK});
        m->claims.number++;
        note_failure(m, end);
        break;
    case GW_CHILD_LEFT:
        break;
    }
    /* It is accounted for once that is durable. Where the record was lost an end waits for it, as the others know it; of a
     * failure nobody could say whether it was the last one. */
    if (change.end_count > 0 || (record != NULL && change.round_count > 0)) gw_member_change(m, &change);
    if (!is_unsaved(m, &end->id)) gw_children_account(m->children, &end->id);
    gw_member_decide_soon(m);
}

/* Ports for children: one that is free for TCP and UDP now. */
static bool is_free(const gw_flock_member *m, uint16_t port, uint16_t *bound_port) {
    gw_addr wanted = m->listen, bound;
    gw_err err;
    int tcp, udp;
    wanted.port = port;
    for (uint32_t i = 0; port != 0 && i < gw_children_count(m->children); i++)
        if (gw_children_at(m->children, i)->port == port) return false;
    if (!gw_endpoint_bind(&wanted, &tcp, &udp, &bound, &err)) return false;
    close(tcp);
    close(udp);
    *bound_port = bound.port;
    return true;
}

static bool choose_port(const gw_flock_member *m, uint16_t *port, gw_err *err) {
    if (m->options->port_low == 0) return is_free(m, 0, port) || gw_fail(err, GW_E_IO, "no port is free");
    for (uint32_t at = m->options->port_low; at <= m->options->port_high; at++)
        if (is_free(m, (uint16_t)at, port)) return true;
    return gw_fail(err, GW_E_IO, "none of the ports of --child-ports is free");
}

/* Deals out the processors of this node to the children, and to one that is about to start, whose become *coming_set. */
static void deal_cores(gw_flock_member *m, const gw_job_spec *coming, cpu_set_t *coming_set) {
    uint32_t count = gw_children_count(m->children), need = coming != NULL ? coming->need.cores : 0;
    if (!m->deals_cores) return;
    gw_cores_share *shares = calloc(count + 1, sizeof *shares);
    GW_ASSERT_MEMORY(shares != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const gw_child *child = gw_children_at(m->children, i);
        const gw_job_spec *spec = gw_decider_spec(m->decider, &child->id);
        shares[i].set = child->cores;
        shares[i].count = spec == NULL               ? 1
                          : spec->kind == GW_JOB_MAP ? gw_member_slots(m, spec, need)
                                                     : spec->need.cores;
    }
    shares[count].count = need;
    /* Members of one machine begin at different processors. */
    gw_cores_deal(&m->processors, m->identity.id.bytes[0], shares, count + (coming != NULL));
    for (uint32_t i = 0; i < count; i++)
        gw_children_set_cores(m->children, &gw_children_at(m->children, i)->id, &shares[i].set);
    if (coming != NULL) *coming_set = shares[count].set;
    free(shares);
}

static void start_child(gw_flock_member *m, const gw_do *action) {
    gw_child_place place = {.host = m->host, .grace_s = m->options->grace_s, .name = m->claims.name};
    char program[GW_PATH_BYTES];
    cpu_set_t set;
    gw_err err;
    bool steps = action->spec->kind == GW_JOB_RUN;
    char directory[GW_PATH_BYTES] = "";
    if (is_unsaved(m, &action->job) || is_resting(m, &action->job)) return; /* it decides again */
    gw_prepared prepared = gw_member_prepare(m, action, directory, &err);
    if (prepared == GW_PREPARING) return; /* it decides again */
    if (prepared == GW_UNPREPARED) {
        gw_member_warn(m, "%s cannot be started here yet: %s", action->spec->name, err.text);
        rest(m, &action->job, tell_delay(m, &action->job, err.text));
        return;
    }
    place.directory = directory[0] != '\0' ? directory : NULL;
    place.program = program;
    if (m->deals_cores) place.cores = &set;
    deal_cores(m, action->spec, &set);
    if (prepared == GW_PREPARED && gw_member_program(m, action->spec->build, program, &err) &&
        (!steps || choose_port(m, &place.port, &err)) &&
        gw_children_start(m->children, &action->job, action->spec, action->round, &place, &err)) {
        gw_log(GW_INFO, "flock", "%s starts here%s", action->spec->name, action->round > 0 ? " again" : "");
        tell_start(m, action);
        gw_member_decide_soon(m); /* its claim tells that it runs, and where */
        return;
    }
    gw_log(GW_WARN, "flock", "%s cannot be started here: %s", action->spec->name, err.text);
    tell_text(m, &action->job, "unfit", err.text);
    gw_claims_set(&m->claims, &(gw_claim){.job = action->job, .state = GW_CLAIM_STRUCK});
    m->claims.number++;
    gw_member_decide_soon(m);
}

static void carry_out(gw_flock_member *m, const gw_do *action) {
    char name[NAME_TEXT];
    const char *cause;
    const gw_child *child = gw_children_find(m->children, &action->job);
    gw_job_record change = gw_job_record_of(&action->job);
    switch (action->kind) {
    case GW_DO_MARK:
        change.started = true;
        gw_member_change(m, &change);
        break;
    case GW_DO_START:
        if (!m->going_down) start_child(m, action);
        break;
    case GW_DO_STOP:
        gw_log(GW_INFO, "flock", "%s is asked to end here", name_of(m, &action->job, name));
        cause = stop_cause(m, &action->job);
        if (child == NULL || child->kind != GW_JOB_MAP || strcmp(cause, "over") != 0)
            tell_stop(m, &action->job, cause); /* a map is over when all its children are about to end */
        gw_children_stop(m->children, &action->job, stop_of(m, &action->job));
        break;
    }
}

/* Writes for each child of a job of several nodes where the others are. */
static void tell_siblings(gw_flock_member *m) {
    for (uint32_t i = 0; i < gw_children_count(m->children); i++) {
        const gw_job_record_id *id = &gw_children_at(m->children, i)->id;
        const gw_job_spec *spec = gw_decider_spec(m->decider, id);
        gw_addr addrs[GW_MEMBER_SEEDS];
        uint32_t count = 0;
        if (spec == NULL || spec->kind != GW_JOB_RUN || spec->most < 2) continue;
        for (uint32_t k = 0; k < gw_exchange_claims_count(m->exchange) && count < GW_MEMBER_SEEDS; k++) {
            const gw_claims *list = gw_exchange_claims_at(m->exchange, k);
            const gw_claim *claim = gw_claims_find(list, id);
            if (claim == NULL || claim->port == 0 || gw_peer_id_equal(&list->member, &m->identity.id) ||
                !gw_member_address(m, &list->member, &addrs[count]))
                continue;
            addrs[count++].port = claim->port;
        }
        gw_children_tell_siblings(m->children, id, addrs, count);
    }
}

/* Deciding. */

typedef struct actions {
    gw_do list[ACTIONS];
    uint32_t count;
} actions;

static void note_action(void *context, const gw_do *action) {
    actions *a = context;
    if (a->count < ACTIONS) a->list[a->count++] = *action;
}

static void decide(void *context);

static void decide_at(gw_flock_member *m, uint64_t at_ns) {
    gw_err err;
    if (!gw_timer_set(m->loop, &m->decide_timer, at_ns, decide, m, &err))
        gw_log(GW_ERROR, "flock", "%s", err.text);
}

/* Sets this member's conditions in its claims. */
static void look_at_itself(gw_flock_member *m) {
    bool past = gw_exchange_is_past_gate(m->exchange), doubtful = gw_now_ns() < m->doubtful_until_ns;
    if (past && !m->gate_told) {
        m->gate_told = true;
        if (gw_exchange_gate_is_forced(m->exchange))
            gw_log(GW_WARN, "flock",
                   "no majority of the members that were known has been met for as long as --gate says: this "
                   "member takes "
                   "jobs all the same. What was cancelled elsewhere meanwhile may start once more");
        else
            gw_log(GW_INFO, "flock", "this member knows what the others know, and takes jobs");
    }
    if (m->claims.past_gate == past && m->claims.doubtful == doubtful) return;
    m->claims.past_gate = past;
    m->claims.doubtful = doubtful;
    m->claims.number++;
}

/* Drops what jobs were to do that are over for long: what became of them is kept. */
static void drop_old_specs(gw_flock_member *m) {
    uint64_t now = gw_now_ns();
    if (m->aged_ns != 0 && now < m->aged_ns + AGE_NS) return;
    m->aged_ns = now;
    uint64_t now_s = gw_wall_ns() / GW_SECOND_NS;
    if (gw_job_records_drop_old_specs(m->records, now_s, GW_JOB_RECORDS_SPEC_S) > 0)
        gw_record_store_rewrite(m->store);
}

static uint32_t live_claims(const gw_flock_member *m, const gw_claims **lists, gw_peer_id *live,
                            uint32_t *live_count) {
    uint32_t count = 0;
    *live_count = 0;
    lists[count++] = &m->claims;
    for (uint32_t i = 0; i < gw_gossip_count(m->gossip) && count < MEMBERS; i++) {
        const gw_gossip_member *other = gw_gossip_at(m->gossip, i);
        if (other->state > GW_GOSSIP_IS_SUSPECT || gw_peer_id_equal(&other->id, &m->identity.id)) continue;
        live[(*live_count)++] = other->id;
        const gw_claims *list = gw_exchange_claims_of(m->exchange, &other->id);
        if (list != NULL) lists[count++] = list;
    }
    return count;
}

/* Whether a live member is unreadable. Tells when the first one is there, and when none is any more. */
static bool is_any_unreadable(gw_flock_member *m, const gw_peer_id *live, uint32_t count) {
    char name[GW_CLAIMS_NAME_TEXT];
    uint32_t at = 0;
    while (at < count && !gw_exchange_is_unreadable(m->exchange, &live[at])) at++;
    if (at < count && !m->newer_told)
        gw_log(
            GW_WARN, "flock",
            "%s runs a build of Godwit that is too new for this one, which cannot tell what jobs run there: "
            "this member starts none while such a member is there. Upgrade this node too",
            gw_member_name(m, &live[at], name));
    if (at == count && m->newer_told)
        gw_log(GW_INFO, "flock", "this member knows again what runs on all others, and starts jobs");
    m->newer_told = at < count;
    return at < count;
}

static void decide(void *context) {
    gw_flock_member *m = context;
    static const gw_claims *lists[MEMBERS];
    static gw_peer_id live[MEMBERS];
    static actions due; /* one thread decides */
    gw_decide_child children[1024];
    uint32_t live_count, child_count = gw_children_count(m->children);
    if (m->known_changed) gw_member_write_known(m);
    look_at_itself(m);
    drop_old_specs(m);
    gw_decide_input in = {.now_ns = gw_now_ns(),
                          .records = m->records,
                          .members = lists,
                          .children = children,
                          .child_count = child_count,
                          .past_gate = m->claims.past_gate,
                          .sides = m->sides,
                          .takeover_ns = m->options->takeover_ns};
    in.member_count = live_claims(m, lists, live, &live_count);
    in.unreadable = is_any_unreadable(m, live, live_count);
    for (uint32_t i = 0; i < child_count; i++) {
        const gw_child *child = gw_children_at(m->children, i);
        children[i] = (gw_decide_child){child->id, child->leaving || m->going_down, child->port};
    }
    for (uint64_t back = 0; back < 2 && in.heard == 0; back++)
        if (m->claims.number > back &&
            gw_exchange_all_heard(m->exchange, live, live_count, m->claims.number - back))
            in.heard = m->claims.number - back;
    due.count = 0;
    uint64_t again_ns = gw_decide(m->decider, &in, &m->claims, note_action, &due), decided_ns = gw_now_ns();
    m->decide_next_ns = decided_ns + REST_FACTOR * (decided_ns - in.now_ns);
    gw_member_lost_look(m);
    for (uint32_t i = 0; i < due.count; i++) carry_out(m, &due.list[i]);
    hurry_children(m);
    const gw_claims *told = gw_exchange_claims_of(m->exchange, &m->identity.id);
    if (told == NULL || told->number < m->claims.number) {
        gw_exchange_set_claims(m->exchange, &m->claims, gw_now_ns());
        if (live_count == 0) gw_member_decide_soon(m); /* nobody else has to hear it */
    }
    tell_siblings(m);
    deal_cores(m, NULL, NULL);
    gw_member_tell_maps(m);
    if (m->decide_timer.loop == NULL) { /* nothing that was done has asked for another decision */
        uint64_t latest_ns = in.now_ns + (due.count > 0 ? GW_SECOND_NS : LOOK_NS);
        if (in.now_ns < m->doubtful_until_ns && m->doubtful_until_ns < latest_ns)
            latest_ns = m->doubtful_until_ns;
        decide_at(m, again_ns < latest_ns ? again_ns : latest_ns);
    }
    gw_member_serve_look(m);
}

void gw_member_decide_soon(gw_flock_member *m) {
    uint64_t now = gw_now_ns();
    if (m->decider != NULL && m->children != NULL && m->door != NULL)
        decide_at(m, now < m->decide_next_ns ? m->decide_next_ns : now);
}

/* Opening and closing. */

bool gw_member_act_open(gw_flock_member *m, gw_err *err) {
    gw_record_store_events store = {m, record_durable, disk_failing};
    gw_record_store_found found;
    m->records = gw_job_records_open(err);
    if (m->records == NULL) return false;
    m->store =
        gw_record_store_open(m->loop, &m->directory.io, m->directory.path, m->records, &store, &found, err);
    if (m->store == NULL) return false;
    if (found.damaged > 0)
        gw_log(GW_WARN, "flock",
               "the records in %s were damaged at %llu places: what is lost there comes back from the other "
               "members",
               m->directory.path, (unsigned long long)found.damaged);
    m->decider = gw_decider_open(&m->identity.id);
    m->claims.member = m->identity.id;
    m->claims.boot = m->identity.incarnation.boot;
    m->claims.number = 1;
    m->claims.drained = m->options->drained;
    return true;
}

bool gw_member_act_close(gw_flock_member *m) {
    gw_timer_cancel(&m->decide_timer);
    gw_children_close(m->children);
    bool good = gw_record_store_close(m->store, 5 * GW_SECOND_NS);
    gw_decider_close(m->decider);
    gw_claims_free(&m->claims);
    if (good) gw_job_records_close(m->records);
    return good;
}

bool gw_member_children_open(gw_flock_member *m, gw_err *err) {
    gw_children_events events = {m, child_ended};
    m->children = gw_children_open(m->loop, m->directory.path, &m->groups, &events, err);
    return m->children != NULL;
}
