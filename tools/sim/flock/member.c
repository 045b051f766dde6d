/* One member: its disk, its children, and what its decider has it do. */
#include "core/base/assert.h"
#include "core/base/mix.h"
#include "tools/sim/flock/world.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEARD_BACK = 2, LATER_TAG = 200 /* of a field that this build does not know */ };

#define LOOK_NS  (30 * SIM_FLOCK_SECOND) /* it decides so often though nothing has happened */
#define REST_NS  (5 * SIM_FLOCK_SECOND)
#define DAY_NS   (86400 * SIM_FLOCK_SECOND)
#define AGE_NS   (3600 * SIM_FLOCK_SECOND)
#define RETRY_NS (4 * SIM_FLOCK_SECOND)

static uint32_t number_of(const sim_flock *w, const gw_peer_id *id) {
    uint32_t number = (uint32_t)id->bytes[0] << 8 | id->bytes[1];
    GW_ASSERT(number < w->count);
    return number;
}

/* Plans an event of this life of the member. */
static void plan(sim_member *m, uint64_t at_ns, void (*run)(void *, const gw_sim_event *),
                 gw_sim_event event) {
    event.run = run;
    event.context = m;
    event.b = m->lives;
    gw_sim_schedule(m->of->engine, at_ns, &event);
}

static bool is_past_life(const sim_member *m, const gw_sim_event *event) {
    return !m->alive || event->b != m->lives;
}

/* Messages. */

/* Event c is how often the link had broken. */
static void arrive(void *context, const gw_sim_event *event) {
    sim_flock *w = context;
    sim_member *from = &w->members[event->a], *to = &w->members[event->b];
    const sim_link *link = sim_flock_link(w, from->number, to->number);
    if (!link->up || link->breaks != event->c) return;
    if (from->ahead) event->bytes[0]++; /* the version */
    uint64_t news = gw_exchange_news(to->exchange);
    GW_ASSERT(gw_exchange_message(to->exchange, &from->id, event->bytes, event->length, sim_flock_now(w)));
    sim_member_follow_exchange(to);
    if (gw_exchange_news(to->exchange) != news) sim_member_decide_soon(to);
}

static void send(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    sim_member *m = context;
    sim_flock *w = m->of;
    uint32_t number = number_of(w, to);
    sim_link *link = sim_flock_link(w, m->number, number);
    GW_ASSERT(length <= GW_EXCHANGE_MESSAGE_BYTES);
    if (!link->up || !gw_peer_id_equal(&w->members[number].id, to)) return;
    w->sent++;
    w->sent_bytes += length;
    uint64_t at =
        sim_flock_now(w) + sim_flock_between(w, w->config.message_least_ns, w->config.message_most_ns);
    if (at < link->last_ns) at = link->last_ns;
    link->last_ns = at;
    gw_sim_schedule(w->engine, at,
                    &(gw_sim_event){.run = arrive,
                                    .context = w,
                                    .a = m->number,
                                    .b = number,
                                    .c = link->breaks,
                                    .bytes = (uint8_t *)(uintptr_t)bytes,
                                    .length = length});
}

static void reach(void *context, const gw_peer_id *to) {
    sim_member *m = context;
    uint32_t number = number_of(m->of, to);
    if (gw_peer_id_equal(&m->of->members[number].id, to)) sim_flock_reach(m->of, m->number, number);
}

/* The disk. */

static void write_record(sim_member *m, const gw_job_record_id *id);

static void look_at_pending(sim_member *m) {
    for (uint32_t i = m->pending_count; i-- > 0;) {
        sim_pending one = m->pending[i];
        if (!one.durable || one.elsewhere == 0) continue;
        m->pending[i] = m->pending[--m->pending_count];
        if (m->of->config.events.acknowledged != NULL)
            m->of->config.events.acknowledged(m->of->config.events.context, &one, m,
                                              &m->of->members[one.elsewhere - 1]);
    }
}

static void set_disk_bad(sim_member *m, bool bad) {
    if (m->claims.disk_bad == bad) return;
    m->claims.disk_bad = bad;
    m->claims.number++;
    sim_member_decide_soon(m);
}

/* The record in the event's bytes is on the disk, or is not. */
static void written(void *context, const gw_sim_event *event) {
    sim_member *m = context;
    gw_job_record record;
    gw_err err;
    if (is_past_life(m, event)) return;
    GW_ASSERT(gw_job_record_get(event->bytes, event->length, &record, &err));
    set_disk_bad(m, m->full);
    if (m->full) {
        plan(m, sim_flock_now(m->of) + RETRY_NS, written,
             (gw_sim_event){.bytes = event->bytes, .length = event->length});
        gw_job_record_free(&record);
        return;
    }
    m->of->saves++;
    gw_job_records_join(m->disk, &record);
    const gw_job_record *now = gw_job_records_find(m->records, &record.id);
    uint64_t digest = gw_job_record_digest(&record);
    if (now != NULL && gw_job_record_digest(now) == digest) { /* else a later write follows */
        gw_exchange_durable(m->exchange, &record.id, digest);
        for (uint32_t i = 0; i < m->pending_count; i++)
            if (gw_job_record_id_equal(&m->pending[i].id, &record.id)) m->pending[i].durable = true;
        look_at_pending(m);
        for (uint32_t i = 0; i < m->child_count; i++) /* it is accounted for */
            if (m->children[i].ended && gw_job_record_id_equal(&m->children[i].job, &record.id))
                m->children[i--] = m->children[--m->child_count];
        sim_member_decide_soon(m);
    }
    gw_job_record_free(&record);
}

static void write_record(sim_member *m, const gw_job_record_id *id) {
    static uint8_t bytes[GW_JOB_RECORD_BYTES];
    const sim_flock_config *config = &m->of->config;
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_job_record_put(&w, gw_job_records_find(m->records, id), true);
    GW_ASSERT(!w.failed);
    gw_sim_event event = {.bytes = bytes, .length = w.length};
    uint64_t delay = sim_flock_between(m->of, config->disk_least_ns, config->disk_most_ns);
    plan(m, sim_flock_now(m->of) + delay, written, event);
}

/* Whether all of what is known of the record is on the disk. */
static bool is_saved(const sim_member *m, const gw_job_record_id *id) {
    const gw_job_record *known = gw_job_records_find(m->records, id);
    const gw_job_record *saved = gw_job_records_find(m->disk, id);
    return saved != NULL && gw_job_record_digest(saved) == gw_job_record_digest(known);
}

/* What the exchange tells. */

static void record_changed(void *context, const gw_job_record_id *id) {
    sim_member *m = context;
    write_record(m, id);
    sim_member_decide_soon(m);
}

static void claims_changed(void *context, const gw_peer_id *member) {
    (void)member;
    sim_member_decide_soon(context);
}

static void held(void *context, const gw_job_record_id *id, const gw_peer_id *member, uint64_t state) {
    sim_member *m = context;
    m->held++;
    for (uint32_t i = 0; i < m->pending_count; i++)
        if (state > m->pending[i].after && gw_job_record_id_equal(&m->pending[i].id, id))
            m->pending[i].elsewhere = 1 + number_of(m->of, member);
    look_at_pending(m);
}

/* Event a is when it was planned for. */
static void exchange_due(void *context, const gw_sim_event *event) {
    sim_member *m = context;
    if (is_past_life(m, event) || event->a != m->tick_ns) return;
    m->tick_ns = SIM_FLOCK_NEVER;
    uint64_t news = gw_exchange_news(m->exchange);
    gw_exchange_tick(m->exchange, sim_flock_now(m->of));
    if (gw_exchange_news(m->exchange) != news) sim_member_decide_soon(m);
    sim_member_follow_exchange(m);
}

void sim_member_follow_exchange(sim_member *m) {
    uint64_t at_ns = gw_exchange_next_deadline(m->exchange) + m->of->slow_ns;
    if (at_ns >= m->tick_ns) return;
    m->tick_ns = at_ns;
    plan(m, at_ns, exchange_due, (gw_sim_event){.a = at_ns});
}

/* Children. */

static void account_for(sim_member *m, uint32_t index) {
    sim_child *child = &m->children[index];
    gw_job_record change = gw_job_record_of(&child->job);
    const gw_job_record *record = gw_job_records_find(m->records, &child->job);
    gw_job_spec spec;
    gw_err err;
    switch (child->verdict) {
    case SIM_CHILD_DONE:
        change.ends[change.end_count++] =
            (gw_job_record_end){.kind = 1, .when = sim_flock_now(m->of) / SIM_FLOCK_MS, .member = m->id};
        break;
    case SIM_CHILD_FAILED:
    case SIM_CHILD_FATAL:
        if (child->round >= GW_JOB_RECORD_ROUNDS || record == NULL || record->spec == NULL) break;
        GW_ASSERT(gw_job_spec_read(record->spec, record->spec_bytes, &spec, &err));
        change.rounds[change.round_count++] =
            (gw_job_record_round){.round = child->round,
                                  .last = child->round >= spec.retries,
                                  .fatal = child->verdict == SIM_CHILD_FATAL,
                                  .code = 1,
                                  .member = m->id,
                                  .boot = m->claims.boot};
        gw_job_spec_free(&spec);
        break;
    case SIM_CHILD_STRUCK:
        gw_claims_set(&m->claims, &(gw_claim){.job = child->job, .state = GW_CLAIM_STRUCK});
        m->claims.number++;
        break;
    case SIM_CHILD_LEFT:
        break;
    }
    sim_flock_say(m->of, "%u: child of %02x%02x ends, verdict %d", m->number, child->job.bytes[0],
                  child->job.bytes[1], child->verdict);
    bool tells = record != NULL && (change.end_count > 0 || change.round_count > 0);
    gw_job_record_id id = child->job;
    if (tells) sim_flock_change(m->of, m->number, &change);
    if (tells && !is_saved(m, &id)) return;
    m->children[index] = m->children[--m->child_count];
}

/* Event a is the child's serial. Children end whether their member lives or not. */
static void child_ends(void *context, const gw_sim_event *event) {
    sim_member *m = context;
    uint32_t at = 0;
    while (at < m->child_count && m->children[at].serial != event->a) at++;
    if (at == m->child_count || m->children[at].ended) return;
    m->children[at].ended = true;
    if (event->c != 0) m->children[at].verdict = SIM_CHILD_LEFT; /* it was asked to */
    if (!m->alive) return;
    account_for(m, at);
    sim_member_decide_soon(m);
}

static void plan_end(sim_member *m, const sim_child *child, uint64_t after_ns, bool asked) {
    gw_sim_schedule(m->of->engine, sim_flock_now(m->of) + after_ns,
                    &(gw_sim_event){.run = child_ends, .context = m, .a = child->serial, .c = asked});
}

/* Whether a child of the job has ended here a moment ago, or has not been accounted for. */
static bool is_resting(const sim_member *m, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < m->child_count; i++)
        if (gw_job_record_id_equal(&m->children[i].job, id)) return true;
    return false;
}

static void start_child(sim_member *m, const gw_do *action) {
    const sim_flock_events *events = &m->of->config.events;
    GW_ASSERT(!gw_job_record_is_over(gw_job_records_find(m->records, &action->job)));
    if (!is_saved(m, &action->job) || is_resting(m, &action->job)) return; /* it decides again */
    if (m->child_count == m->child_room) {
        m->child_room = 2 * m->child_room + 8;
        m->children = realloc(m->children, m->child_room * sizeof *m->children);
        GW_ASSERT_MEMORY(m->children != NULL);
    }
    sim_fate fate = {SIM_FLOCK_NEVER, SIM_CHILD_LEFT};
    if (events->fate != NULL) fate = events->fate(events->context, m, &action->job, action->round);
    sim_child *child = &m->children[m->child_count++];
    *child = (sim_child){.job = action->job,
                         .need = action->spec->need,
                         .round = action->round,
                         .serial = ++m->of->children,
                         .started_ns = sim_flock_now(m->of),
                         .verdict = fate.verdict};
    m->starts++;
    sim_flock_say(m->of, "%u: %02x%02x starts, round %u", m->number, action->job.bytes[0],
                  action->job.bytes[1], action->round);
    if (fate.runs_ns != SIM_FLOCK_NEVER) plan_end(m, child, fate.runs_ns, false);
    if (events->started != NULL) events->started(events->context, m, child);
}

static void stop_child(sim_member *m, const gw_job_record_id *id) {
    const sim_flock_events *events = &m->of->config.events;
    for (uint32_t i = 0; i < m->child_count; i++) {
        sim_child *child = &m->children[i];
        if (child->ended || child->leaving || !gw_job_record_id_equal(&child->job, id)) continue;
        child->leaving = true;
        m->stops++;
        sim_flock_say(m->of, "%u: %02x%02x is asked to end", m->number, id->bytes[0], id->bytes[1]);
        plan_end(m, child,
                 sim_flock_between(m->of, m->of->config.leave_least_ns, m->of->config.leave_most_ns), true);
        if (events->stopped != NULL) events->stopped(events->context, m, child);
    }
}

/* Deciding. */

static void act(void *context, const gw_do *action) {
    sim_member *m = context;
    gw_job_record change = gw_job_record_of(&action->job);
    switch (action->kind) {
    case GW_DO_MARK:
        change.started = true;
        sim_flock_change(m->of, m->number, &change);
        break;
    case GW_DO_START:
        start_child(m, action);
        break;
    case GW_DO_STOP:
        stop_child(m, &action->job);
        break;
    }
}

typedef struct actions {
    gw_do list[256];
    uint32_t count;
} actions;

static void note_action(void *context, const gw_do *action) {
    actions *a = context;
    if (a->count < sizeof a->list / sizeof *a->list) a->list[a->count++] = *action;
}

static void decide_due(void *context, const gw_sim_event *event);

static void decide_at(sim_member *m, uint64_t at_ns) {
    if (at_ns >= m->decide_ns) return;
    m->decide_ns = at_ns;
    plan(m, at_ns, decide_due, (gw_sim_event){.a = at_ns, .order = 1});
}

void sim_member_decide_soon(sim_member *m) {
    uint64_t now = sim_flock_now(m->of), rested_ns = m->decided_ns + m->of->config.rest_ns;
    decide_at(m, now < rested_ns ? rested_ns : now);
}

static void drop_old_specs(sim_member *m) {
    uint64_t now = sim_flock_now(m->of);
    if (now < m->aged_ns + AGE_NS) return;
    m->aged_ns = now;
    m->dropped += gw_job_records_drop_old_specs(m->records, now / SIM_FLOCK_SECOND, GW_JOB_RECORDS_SPEC_S);
}

/* It was lost to the others. */
static void note_loss(sim_member *m) {
    uint64_t now = sim_flock_now(m->of);
    gw_losses_add(&m->losses, now / SIM_FLOCK_SECOND);
    m->doubtful_until = now + gw_losses_wait_s(&m->losses) * SIM_FLOCK_SECOND;
}

/* Sets its conditions in its claims. */
static void look_at_itself(sim_member *m) {
    uint64_t now = sim_flock_now(m->of);
    bool past = gw_exchange_is_past_gate(m->exchange), doubtful = now < m->doubtful_until;
    if (past && m->past_ns == SIM_FLOCK_NEVER) m->past_ns = now;
    if (m->claims.past_gate == past && m->claims.doubtful == doubtful) return;
    m->claims.past_gate = past;
    m->claims.doubtful = doubtful;
    m->claims.number++;
}

static void decide(sim_member *m) {
    sim_flock *w = m->of;
    drop_old_specs(m);
    static actions due;
    const gw_claims **lists = calloc(w->count, sizeof(const gw_claims *));
    gw_peer_id *live = calloc(w->count, sizeof *live);
    gw_decide_child *children = calloc(m->child_count + 1, sizeof *children);
    GW_ASSERT_MEMORY(lists != NULL && live != NULL && children != NULL);
    gw_decide_input in = {
        .now_ns = sim_flock_now(w), .records = m->records, .members = lists, .children = children};
    uint32_t live_count = 0;
    in.sides = m->sides;
    in.takeover_ns = w->config.takeover_ns;
    look_at_itself(m);
    in.past_gate = m->claims.past_gate;
    lists[in.member_count++] = &m->claims;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!sim_flock_link(w, m->number, i)->sees) continue;
        live[live_count++] = w->members[i].id;
        in.unreadable |= gw_exchange_is_unreadable(m->exchange, &w->members[i].id);
        const gw_claims *list = gw_exchange_claims_of(m->exchange, &w->members[i].id);
        if (list != NULL) lists[in.member_count++] = list;
    }
    for (uint32_t i = 0; i < m->child_count; i++)
        if (!m->children[i].ended)
            children[in.child_count++] =
                (gw_decide_child){.job = m->children[i].job, .leaving = m->children[i].leaving};
    for (uint64_t back = 0; back < HEARD_BACK && in.heard == 0; back++)
        if (m->claims.number > back &&
            gw_exchange_all_heard(m->exchange, live, live_count, m->claims.number - back))
            in.heard = m->claims.number - back;
    due.count = 0;
    w->decisions++;
    uint64_t again_ns = gw_decide(m->decider, &in, &m->claims, note_action, &due);
    if (gw_decider_returns(m->decider) != m->returns) {
        m->returns = gw_decider_returns(m->decider);
        note_loss(m);
        sim_member_decide_soon(m);
    }
    if (w->config.events.decided != NULL) w->config.events.decided(w->config.events.context, m);
    for (uint32_t i = 0; i < due.count; i++) act(m, &due.list[i]);
    const gw_claims *told = gw_exchange_claims_of(m->exchange, &m->id);
    if (told == NULL || told->number < m->claims.number)
        gw_exchange_set_claims(m->exchange, &m->claims, in.now_ns);
    uint64_t latest_ns = in.now_ns + (due.count > 0 ? SIM_FLOCK_SECOND : LOOK_NS + w->slow_ns);
    if (in.now_ns < m->doubtful_until && m->doubtful_until < latest_ns) latest_ns = m->doubtful_until;
    decide_at(m, again_ns < latest_ns ? again_ns : latest_ns);
    free(lists);
    free(live);
    free(children);
}

static void decide_due(void *context, const gw_sim_event *event) {
    sim_member *m = context;
    if (is_past_life(m, event) || event->a != m->decide_ns) return;
    m->decide_ns = SIM_FLOCK_NEVER;
    m->decided_ns = sim_flock_now(m->of);
    decide(m);
}

/* Lives. */

/* Sets what the build of this life tells. The generator does not draw which build that is, as all else would be drawn anew. */
static void set_build(sim_member *m) {
    uint64_t drawn = gw_mix64(m->of->config.seed ^ gw_mix64((uint64_t)m->number << 32 | m->lives));
    bool later = m->of->config.mixed && drawn % 3 == 0;
    m->claims.allotment = (uint8_t)(GW_ALLOT_VERSION + (later ? drawn / 3 % 3 : 0));
    m->claims.tail_bytes = later ? (uint32_t)(drawn / 9 % 40) : 0;
    if (m->claims.tail_bytes == 0) return;
    m->claims.tail = malloc(m->claims.tail_bytes);
    GW_ASSERT_MEMORY(m->claims.tail != NULL);
    memset(m->claims.tail, (int)(drawn >> 32 & 0xff), m->claims.tail_bytes);
}

void sim_member_open(sim_member *m) {
    sim_flock *w = m->of;
    gw_err err;
    uint64_t now = sim_flock_now(w);
    gw_peer_id *known = calloc(m->known_count + 1, sizeof *known);
    GW_ASSERT_MEMORY(known != NULL);
    uint32_t known_count = 0;
    m->sides = gw_sides_open(&m->id);
    for (uint32_t i = 0; i < m->known_count; i++) {
        if (m->known[i].seen_ns + DAY_NS < now) continue;
        known[known_count++] = m->known[i].id;
        gw_sides_known(m->sides, &m->known[i].id, now - m->known[i].seen_ns, now);
    }
    m->records = gw_job_records_open(&err);
    GW_ASSERT_MEMORY(m->records != NULL);
    for (uint32_t i = 0; i < gw_job_records_count(m->disk); i++)
        gw_job_records_join(m->records, gw_job_records_at(m->disk, i));
    gw_exchange_config config = {.self = m->id,
                                 .records = m->records,
                                 .known = known,
                                 .known_count = known_count,
                                 .expects_others = true,
                                 .gate_ns = w->config.gate_ns,
                                 .rng_seed = gw_rng_next(&w->rng),
                                 .sink = {m, send, reach, record_changed, claims_changed, held}};
    m->exchange = gw_exchange_open(&config, now);
    m->decider = gw_decider_open(&m->id);
    m->claims.member = m->id;
    m->claims.boot = m->lives;
    m->claims.number = 1;
    set_build(m);
    m->claims.past_gate = m->claims.disk_bad = m->claims.doubtful = false;
    m->returns = 0;
    if (m->lives > 1) note_loss(m);
    m->past_ns = m->decide_ns = m->tick_ns = SIM_FLOCK_NEVER;
    for (uint32_t i = m->child_count; i-- > 0;)
        if (m->children[i].ended) account_for(m, i);
    gw_exchange_set_claims(m->exchange, &m->claims, now);
    sim_member_follow_exchange(m);
    sim_member_decide_soon(m);
    free(known);
}

void sim_member_close(sim_member *m) {
    gw_exchange_close(m->exchange);
    gw_sides_close(m->sides);
    gw_decider_close(m->decider);
    gw_job_records_close(m->records);
    gw_claims_free(&m->claims); /* its list and tail alone: what the node has stays */
    m->exchange = NULL;
    m->decider = NULL;
    m->records = NULL;
    m->pending_count = 0;
}

void sim_flock_drain(sim_flock *w, uint32_t number, bool drained) {
    sim_member *m = &w->members[number];
    if (m->claims.drained == drained) return;
    m->claims.drained = drained;
    if (!m->alive) return;
    m->claims.number++;
    sim_member_decide_soon(m);
}

void sim_flock_fill(sim_flock *w, uint32_t number, bool full) {
    if (w->members[number].full == full) return;
    w->members[number].full = full;
    sim_flock_say(w, "%u: its disk is %s", number, full ? "full" : "not full any more");
}

/* Records. */

void sim_flock_change(sim_flock *w, uint32_t number, const gw_job_record *change) {
    sim_member *m = &w->members[number];
    gw_job_records_joined joined = gw_job_records_join(m->records, change);
    if (joined != GW_JOB_RECORDS_CHANGED && joined != GW_JOB_RECORDS_NEW) return;
    write_record(m, &change->id);
    gw_exchange_put(m->exchange, &change->id, sim_flock_now(w));
    sim_member_decide_soon(m);
}

void sim_flock_put(sim_flock *w, uint32_t number, const gw_job_record *change) {
    sim_member *m = &w->members[number];
    if (m->pending_count < SIM_FLOCK_PENDING)
        m->pending[m->pending_count++] = (sim_pending){
            .id = change->id, .cancel = change->cancel, .after = gw_exchange_states(m->exchange)};
    sim_flock_change(w, number, change);
}

gw_job_record_id sim_flock_submit(sim_flock *w, uint32_t number, gw_job_spec *spec) {
    static const char *command[] = {"digits"};
    uint8_t secret_key[64], *bytes;
    uint32_t length;
    gw_err err;
    const sim_member *m = &w->members[number];
    uint64_t nonce = gw_rng_next(&w->rng);
    memcpy(spec->nonce, &nonce, sizeof nonce);
    spec->counter = gw_job_records_count(m->records) + 1;
    spec->command = command;
    spec->command_count = 1;
    crypto_sign_seed_keypair(spec->submitter, secret_key,
                             (const uint8_t *)"0123456789abcdef0123456789abcdef");
    GW_ASSERT(gw_job_spec_write(spec, secret_key, &bytes, &length, &err));
    gw_job_record_id id = gw_job_record_id_of(bytes, length);
    gw_job_record record = gw_job_record_of(&id);
    record.spec = bytes;
    record.spec_bytes = length;
    if (m->claims.tail_bytes > 0) { /* a later build adds to a record, too */
        gw_job_record_field *added = &record.unknown[record.unknown_count++];
        *added = (gw_job_record_field){LATER_TAG, 1, calloc(1, 1)};
        GW_ASSERT_MEMORY(added->bytes != NULL);
    }
    sim_flock_say(w, "%u: %02x%02x is submitted", number, id.bytes[0], id.bytes[1]);
    sim_flock_put(w, number, &record);
    gw_job_record_free(&record);
    return id;
}

void sim_flock_done(sim_flock *w, uint32_t number, const gw_job_record_id *id) {
    sim_member *m = &w->members[number];
    for (uint32_t i = 0; i < m->child_count; i++) {
        if (m->children[i].ended || !gw_job_record_id_equal(&m->children[i].job, id)) continue;
        m->children[i].ended = true;
        m->children[i].verdict = SIM_CHILD_DONE;
        account_for(m, i);
        return;
    }
}

const sim_child *sim_flock_child(const sim_flock *w, uint32_t number, const gw_job_record_id *id) {
    const sim_member *m = &w->members[number];
    for (uint32_t i = 0; i < m->child_count; i++)
        if (!m->children[i].ended && gw_job_record_id_equal(&m->children[i].job, id)) return &m->children[i];
    return NULL;
}
