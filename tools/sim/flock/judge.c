#include "tools/sim/flock/judge.h"

#include "core/base/assert.h"
#include "core/flock/allot.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The time after which members that have met, and that nothing disturbs, each know what the others know. */
#define SPREAD_NS (90 * SIM_FLOCK_SECOND)
/* The time after the last disturbance when a flock is at rest. */
#define REST_NS (120 * SIM_FLOCK_SECOND)
/* The time after a disturbance when nobody finds out any more that it has happened. */
#define QUIET_NS (20 * SIM_FLOCK_SECOND)

void sim_judge_fail(sim_judge *j, const char *format, ...) {
    sim_flock_result *r = j->result;
    if (r->failed) return;
    va_list list;
    va_start(list, format);
    vsnprintf(r->why, sizeof r->why, format, list);
    va_end(list);
    r->failed = true;
    r->at_ns = sim_flock_now(j->world);
    sim_flock_say(j->world, "FAILED: %s", r->why);
}

static const char *short_id(const gw_job_record_id *id, char text[5]) {
    snprintf(text, 5, "%02x%02x", id->bytes[0], id->bytes[1]);
    return text;
}

static sim_judged_job *find(sim_judge *j, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < j->job_count; i++)
        if (gw_job_record_id_equal(&j->jobs[i].id, id)) return &j->jobs[i];
    return NULL;
}

static const gw_job_record *known_to(const sim_member *m, const sim_judged_job *job) {
    return m->alive ? gw_job_records_find(m->records, &job->id) : NULL;
}

void sim_judge_submitted(sim_judge *j, const gw_job_record_id *id, const gw_job_spec *spec) {
    GW_ASSERT(j->job_count < SIM_FLOCK_JOBS);
    sim_judged_job *job = &j->jobs[j->job_count++];
    *job = (sim_judged_job){.id = *id, .spec = *spec};
    for (uint32_t i = 0; i < SIM_FLOCK_MEMBERS; i++) job->over_ns[i] = job->known_ns[i] = SIM_FLOCK_NEVER;
    for (uint32_t i = 0; i < j->world->count; i++)
        if (known_to(&j->world->members[i], job) != NULL)
            job->later = known_to(&j->world->members[i], job)->unknown_count;
}

void sim_judge_disturbed(sim_judge *j) {
    j->disturbed_ns = sim_flock_now(j->world);
    j->watches_death = false;
}

void sim_judge_forgets(sim_judge *j, uint32_t number) {
    for (uint32_t i = 0; i < j->job_count; i++)
        j->jobs[i].over_ns[number] = j->jobs[i].known_ns[number] = SIM_FLOCK_NEVER;
}

/* over, room */

static bool has_met_long_ago(const sim_judge *j, uint32_t a, uint32_t b) {
    const sim_link *link = sim_flock_link(j->world, a, b);
    uint64_t since = link->up_ns > j->slow_ns ? link->up_ns : j->slow_ns;
    return link->up && since + SPREAD_NS <= sim_flock_now(j->world);
}

static bool knows_for_long(const sim_judge *j, const sim_judged_job *job, uint32_t number) {
    uint64_t since = job->over_ns[number];
    if (since < j->slow_ns) since = j->slow_ns;
    return since != SIM_FLOCK_NEVER && since + SPREAD_NS <= sim_flock_now(j->world);
}

/* A child starts where others know that its job is over. */
static void judge_over(sim_judge *j, const sim_member *m, const sim_judged_job *job) {
    char id[5];
    bool all = true;
    uint32_t others = 0;
    for (uint32_t i = 0; i < j->world->count; i++) {
        if (!sim_flock_link(j->world, m->number, i)->up) continue;
        bool knows = knows_for_long(j, job, i);
        others++;
        all &= knows && j->world->members[i].past_ns != SIM_FLOCK_NEVER;
        if (knows && has_met_long_ago(j, m->number, i))
            sim_judge_fail(j, "over: %u starts %s, of which %u knows for long that it is over", m->number,
                           short_id(&job->id, id), i);
    }
    if (others > 0 && all && !gw_exchange_gate_is_forced(m->exchange))
        sim_judge_fail(j, "over: %u starts %s, of which all others, past their gates, know that it is over",
                       m->number, short_id(&job->id, id));
}

static void judge_room(sim_judge *j, const sim_member *m) {
    uint64_t cores = 0, memory = 0, gpus = 0;
    const gw_allot_need *has = &m->claims.has;
    for (uint32_t i = 0; i < m->child_count; i++) {
        const sim_child *child = &m->children[i];
        if (child->ended) continue;
        cores += child->need.cores;
        memory += child->need.memory_mib;
        gpus += child->need.gpus;
    }
    if (cores > has->cores || memory > has->memory_mib || gpus > has->gpus)
        sim_judge_fail(j, "room: the children on %u need %llu cores, %llu MiB and %llu GPUs of %u, %u and %u",
                       m->number, (unsigned long long)cores, (unsigned long long)memory,
                       (unsigned long long)gpus, has->cores, has->memory_mib, has->gpus);
}

/* apart */

/* Whether a member is on the lesser side, as far as it has lost others itself and nobody is drained. */
static bool is_lesser(const sim_judge *j, const sim_member *m) {
    uint32_t live = 1, away = 0, lowest = m->number;
    bool is_lower = false;
    for (uint32_t i = 0; i < j->world->count; i++) {
        if (j->world->members[i].claims.drained) return false;
        if (!sim_flock_link(j->world, m->number, i)->sees) continue;
        live++;
        if (i < lowest) lowest = i;
    }
    for (uint32_t i = 0; i < j->world->count; i++) {
        const sim_link *link = sim_flock_link(j->world, m->number, i);
        if (link->sees || link->lost_ns == 0 || link->lost_ns + GW_SIDES_SEEN_NS <= sim_flock_now(j->world))
            continue;
        away++;
        is_lower |= i < lowest;
    }
    return away > live || (away == live && is_lower);
}

static void judge_apart(sim_judge *j, const sim_member *m, const sim_judged_job *job) {
    uint64_t known_ns = job->known_ns[m->number], now = sim_flock_now(j->world);
    char id[5];
    if (job->spec.kind != GW_JOB_COMMAND || known_ns == SIM_FLOCK_NEVER || !is_lesser(j, m)) return;
    for (uint32_t i = 0; i < j->world->count; i++) {
        const sim_link *link = sim_flock_link(j->world, m->number, i);
        if (link->sees || link->lost_ns < known_ns || now >= link->lost_ns + j->world->config.takeover_ns ||
            sim_flock_child(j->world, i, &job->id) == NULL)
            continue;
        sim_judge_fail(j, "apart: %u starts %s, which runs on %u, that it lost %.3f s ago", m->number,
                       short_id(&job->id, id), i, (double)(now - link->lost_ns) / 1e9);
    }
}

static void started(void *context, const sim_member *m, const sim_child *child) {
    sim_judge *j = context;
    const gw_job_record *saved = gw_job_records_find(m->disk, &child->job);
    const sim_judged_job *job = find(j, &child->job);
    char id[5];
    j->result->starts++;
    if (saved == NULL || !saved->started)
        sim_judge_fail(j, "over: %u starts %s before that is durable", m->number, short_id(&child->job, id));
    judge_over(j, m, job);
    judge_room(j, m);
    judge_apart(j, m, job);
}

/* kept */

static void acknowledged(void *context, const sim_pending *what, const sim_member *a, const sim_member *b) {
    sim_judge *j = context;
    sim_judged_job *job = find(j, &what->id);
    j->result->acknowledged++;
    if (job == NULL) return; /* its submission is being told */
    for (int i = 0; i < 2; i++) {
        const sim_member *m = i == 0 ? a : b;
        const gw_job_record *saved = gw_job_records_find(m->disk, &what->id);
        char id[5];
        bool is_on_disk = saved != NULL && (what->cancel ? saved->cancel : saved->spec != NULL);
        if (!is_on_disk && !j->disk_was_lost[m->number])
            sim_judge_fail(j, "kept: %s is acknowledged, and is not on the disk of %u",
                           short_id(&what->id, id), m->number);
        if (what->cancel)
            job->cancel_on_disk[m->number] |= is_on_disk;
        else
            job->on_disk[m->number] |= is_on_disk;
    }
    job->kept |= !what->cancel;
    job->kept_cancel |= what->cancel;
}

void sim_judge_disk(sim_judge *j, uint32_t number, const gw_job_records *records) {
    j->disk_was_lost[number] = true;
    for (uint32_t i = 0; i < j->job_count; i++) {
        sim_judged_job *job = &j->jobs[i];
        const gw_job_record *record = records != NULL ? gw_job_records_find(records, &job->id) : NULL;
        job->on_disk[number] &= record != NULL && record->spec != NULL;
        job->cancel_on_disk[number] &= record != NULL && record->cancel;
    }
}

static bool is_anywhere(const sim_judge *j, const bool disks[SIM_FLOCK_MEMBERS]) {
    for (uint32_t i = 0; i < j->world->count; i++)
        if (disks[i]) return true;
    return false;
}

static void judge_kept(sim_judge *j) {
    char id[5];
    for (uint32_t i = 0; i < j->job_count; i++) {
        const sim_judged_job *job = &j->jobs[i];
        bool kept = job->kept && is_anywhere(j, job->on_disk);
        bool cancelled = job->kept_cancel && is_anywhere(j, job->cancel_on_disk);
        for (uint32_t k = 0; k < j->world->count; k++) {
            const gw_job_record *record = known_to(&j->world->members[k], job);
            if (kept && (record == NULL || (record->spec == NULL && !gw_job_record_is_over(record))))
                sim_judge_fail(j, "kept: %s was acknowledged, and is not known to %u", short_id(&job->id, id),
                               k);
            if (kept && record != NULL && record->unknown_count != job->later)
                sim_judge_fail(j, "kept: of what a later build has added to %s, %u knows %u fields of %u",
                               short_id(&job->id, id), k, record->unknown_count, job->later);
            if (cancelled && (record == NULL || !record->cancel))
                sim_judge_fail(j, "kept: the cancellation of %s was acknowledged, and is not known to %u",
                               short_id(&job->id, id), k);
        }
    }
}

/* least */

static gw_allot_job in_row(const sim_judged_job *job, const gw_job_record *record) {
    return (gw_allot_job){.id = job->id,
                          .counter = job->spec.counter,
                          .priority = record->knob.n != 0 ? record->knob.priority : job->spec.priority,
                          .started = record->started};
}

static bool is_outranked(const sim_judge *j, const sim_member *m, const sim_judged_job *job) {
    gw_allot_job own = in_row(job, known_to(m, job));
    for (uint32_t i = 0; i < j->job_count; i++) {
        const gw_job_record *record = known_to(m, &j->jobs[i]);
        if (record == NULL || gw_job_record_is_over(record)) continue;
        gw_allot_job other = in_row(&j->jobs[i], record);
        if (gw_allot_outranks(&other, &own)) return true;
    }
    return false;
}

void sim_judge_death(sim_judge *j, uint32_t number) {
    bool rests = j->disturbed_ns + QUIET_NS <= sim_flock_now(j->world) && sim_flock_agree(j->world);
    sim_judge_disturbed(j);
    if (!rests) return;
    j->watches_death = true;
    j->dead = number;
    j->result->deaths++;
    for (uint32_t i = 0; i < j->job_count; i++) {
        const sim_child *child = sim_flock_child(j->world, number, &j->jobs[i].id);
        bool is_hit = child != NULL && !child->leaving;
        j->jobs[i].ran_elsewhere = sim_flock_running(j->world, &j->jobs[i].id) - is_hit;
        if (j->jobs[i].spec.rigid && j->jobs[i].ran_elsewhere < j->jobs[i].spec.least)
            j->jobs[i].ran_elsewhere = 0; /* it does not go on with fewer */
    }
}

/* Whether any member knows that a job is over: others hear first that its claims are gone. */
static bool is_over_anywhere(const sim_judge *j, const sim_judged_job *job) {
    for (uint32_t i = 0; i < j->world->count; i++) {
        const gw_job_record *record = known_to(&j->world->members[i], job);
        if (record != NULL && gw_job_record_is_over(record)) return true;
    }
    return false;
}

static void stopped(void *context, const sim_member *m, const sim_child *child) {
    sim_judge *j = context;
    const sim_judged_job *job = find(j, &child->job);
    const gw_job_record *record = known_to(m, job);
    char id[5];
    j->result->stops++;
    if (j->watches_death && sim_flock_link(j->world, m->number, j->dead)->sees)
        return; /* it has not noticed */
    if (!j->watches_death || is_over_anywhere(j, job) || record->knob.hold) return;
    uint32_t least = job->spec.least < job->ran_elsewhere ? job->spec.least : job->ran_elsewhere;
    if (sim_flock_running(j->world, &child->job) < least && !is_outranked(j, m, job))
        sim_judge_fail(j, "least: a death makes %u stop %s, which runs on less than its least of %u then",
                       m->number, short_id(&child->job, id), job->spec.least);
}

/* alike, often */

static void decided(void *context, const sim_member *m) {
    sim_judge *j = context;
    for (uint32_t i = 0; i < j->job_count; i++) {
        sim_judged_job *job = &j->jobs[i];
        if (job->over_ns[m->number] != SIM_FLOCK_NEVER) continue;
        const gw_job_record *record = known_to(m, job);
        if (record != NULL && job->known_ns[m->number] == SIM_FLOCK_NEVER)
            job->known_ns[m->number] = sim_flock_now(j->world);
        if (record != NULL && gw_job_record_is_over(record))
            job->over_ns[m->number] = sim_flock_now(j->world);
    }
}

static bool takes_for_live(const sim_judge *j, uint32_t a, uint32_t b) {
    return a == b || sim_flock_link(j->world, a, b)->sees;
}

/* Whether a member keeps a command back for others that it has lost, and which it may have lost later than others have. */
static bool keeps_back(const sim_judge *j, const sim_member *m) {
    for (uint32_t i = 0; i < j->job_count; i++)
        if (gw_decider_view(m->decider, &j->jobs[i].id).until_ns != 0) return true;
    return false;
}

/* Whether two members decide by the same. */
static bool know_alike(const sim_judge *j, const sim_member *a, const sim_member *b) {
    if (gw_job_records_digest(a->records) != gw_job_records_digest(b->records)) return false;
    if (keeps_back(j, a) || keeps_back(j, b)) return false;
    for (uint32_t i = 0; i < j->world->count; i++) {
        const sim_member *m = &j->world->members[i];
        if (takes_for_live(j, a->number, i) != takes_for_live(j, b->number, i)) return false;
        if (!takes_for_live(j, a->number, i)) continue;
        const gw_claims *x = gw_exchange_claims_of(a->exchange, &m->id),
                        *y = gw_exchange_claims_of(b->exchange, &m->id);
        if ((x == NULL) != (y == NULL)) return false;
        if (x != NULL && (x->boot != y->boot || x->number != y->number)) return false;
    }
    for (uint32_t i = 0; i < j->job_count; i++) {
        const gw_job_record *x = known_to(a, &j->jobs[i]), *y = known_to(b, &j->jobs[i]);
        if (x != NULL && y != NULL && (x->spec == NULL) != (y->spec == NULL)) return false;
    }
    return true;
}

/* Whether what a member has decided is of the claims that it has told. */
static bool is_settled(const sim_member *m) {
    return m->alive && m->decide_ns > sim_flock_now(m->of) + SIM_FLOCK_SECOND;
}

static void compare(sim_judge *j, const sim_member *a, const sim_member *b) {
    char id[5];
    for (uint32_t i = 0; i < j->job_count; i++) {
        gw_job_view x = gw_decider_view(a->decider, &j->jobs[i].id),
                    y = gw_decider_view(b->decider, &j->jobs[i].id);
        if (x.reason != y.reason || x.placed != y.placed || x.able != y.able)
            sim_judge_fail(
                j, "alike: %u and %u know the same, and give %s to %u and %u nodes (reasons %d and %d)",
                a->number, b->number, short_id(&j->jobs[i].id, id), x.placed, y.placed, x.reason, y.reason);
    }
    j->result->compared++;
}

/* told */

/* What of its claims stays as it is while a member lives. */
static bool is_as_told(const gw_claims *known, const gw_claims *told) {
    return known->allotment == told->allotment && known->tail_bytes == told->tail_bytes &&
           (told->tail_bytes == 0 || memcmp(known->tail, told->tail, told->tail_bytes) == 0);
}

static void judge_told(sim_judge *j, const sim_member *m) {
    for (uint32_t i = 0; i < j->world->count; i++) {
        const sim_member *other = &j->world->members[i];
        const gw_claims *known = other->alive ? gw_exchange_claims_of(m->exchange, &other->id) : NULL;
        if (known != NULL && known->boot == other->claims.boot && !is_as_told(known, &other->claims))
            sim_judge_fail(j, "told: %u does not know all that %u has told, %u bytes of a later build",
                           m->number, i, other->claims.tail_bytes);
    }
}

/* Among those that a member at rest takes for live. */
static void judge_often(sim_judge *j, const sim_member *m) {
    char id[5];
    for (uint32_t i = 0; i < j->job_count; i++) {
        uint32_t most = j->jobs[i].spec.most, runs = 0;
        for (uint32_t k = 0; k < j->world->count; k++) {
            const sim_child *child = sim_flock_child(j->world, k, &j->jobs[i].id);
            runs += takes_for_live(j, m->number, k) && child != NULL && !child->leaving;
        }
        if (runs > most)
            sim_judge_fail(j, "often: %u members that %u takes for live run %s, of at most %u", runs,
                           m->number, short_id(&j->jobs[i].id, id), most);
    }
}

void sim_judge_compare(sim_judge *j) {
    const sim_flock *w = j->world;
    const sim_member *last = NULL;
    for (uint32_t i = 0; i < w->count; i++) {
        const sim_member *m = &w->members[i];
        if (m->alive) judge_told(j, m);
        if (!is_settled(m)) continue;
        if (last != NULL && know_alike(j, last, m)) compare(j, last, m);
        last = m;
    }
    if (j->disturbed_ns + REST_NS > sim_flock_now(w) || j->slow_ns + REST_NS > sim_flock_now(w)) return;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->members[i].alive) judge_often(j, &w->members[i]);
}

/* waits */

typedef enum state { OVER, STRANDED, OPEN } state;

static bool is_any_doubtful(const sim_flock *w) {
    for (uint32_t i = 0; i < w->count; i++)
        if (w->members[i].alive && w->members[i].claims.doubtful) return true;
    return false;
}

static state state_of(sim_judge *j, const sim_judged_job *job, uint32_t depth) {
    const sim_flock *w = j->world;
    uint32_t at = 0;
    while (at < w->count && known_to(&w->members[at], job) == NULL) at++;
    if (at == w->count) return STRANDED; /* it was never acknowledged, or its disks are lost */
    const gw_job_record *record = known_to(&w->members[at], job);
    if (gw_job_record_is_over(record)) return OVER;
    gw_job_view view = gw_decider_view(w->members[at].decider, &job->id);
    const sim_judged_job *before;
    bool more = is_any_doubtful(w); /* nodes come that may have it */
    switch (view.reason) {
    case GW_WAIT_LATER:
        return record->spec == NULL ? STRANDED : OPEN;
    case GW_WAIT_BROKEN:
        return STRANDED;
    case GW_WAIT_NO_BUILD:
    case GW_WAIT_NO_NODE:
    case GW_WAIT_FEW:
        return more ? OPEN : STRANDED;
    case GW_WAIT_AFTER:
        before = find(j, &view.after);
        return before == NULL || depth > SIM_FLOCK_JOBS || state_of(j, before, depth + 1) == STRANDED
                   ? STRANDED
                   : OPEN;
    case GW_WAIT_ROOM:
    case GW_WAIT_NOT:
    case GW_WAIT_HELD:
    case GW_WAIT_AWAY:
    case GW_WAIT_BACK:
    case GW_WAIT_NEWER:
    case GW_WAIT_OLDER:
        break;
    }
    return OPEN;
}

bool sim_judge_finished(sim_judge *j, char why[SIM_FLOCK_WHY]) {
    char id[5];
    for (uint32_t i = 0; i < j->job_count; i++) {
        const sim_judged_job *job = &j->jobs[i];
        if (state_of(j, job, 0) != OPEN) continue;
        gw_job_view view = gw_decider_view(j->world->members[0].decider, &job->id);
        snprintf(why, SIM_FLOCK_WHY,
                 "waits: %s is not over (reason %d; it has %u of %u able nodes, and runs on %u)",
                 short_id(&job->id, id), view.reason, view.placed, view.able,
                 sim_flock_running(j->world, &job->id));
        return false;
    }
    return true;
}

static void count_ends(sim_judge *j) {
    for (uint32_t i = 0; i < j->job_count; i++) {
        const gw_job_record *record = known_to(&j->world->members[0], &j->jobs[i]);
        bool over = record != NULL && gw_job_record_is_over(record);
        j->result->stranded += !over;
        j->result->done += over && record->end_count > 0;
        j->result->cancelled += over && record->cancel;
        j->result->failures += over && record->end_count == 0 && !record->cancel;
    }
}

void sim_judge_end(sim_judge *j) {
    if (!sim_flock_agree(j->world)) sim_judge_fail(j, "kept: members do not come to know the same");
    judge_kept(j);
    count_ends(j);
}

void sim_judge_open(sim_judge *j, sim_flock_events *events, sim_flock_result *result) {
    *j = (sim_judge){.result = result};
    events->context = j;
    events->started = started;
    events->stopped = stopped;
    events->decided = decided;
    events->acknowledged = acknowledged;
}
