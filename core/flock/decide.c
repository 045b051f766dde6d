#include "core/flock/decide.h"

#include "core/base/assert.h"
#include "core/base/mix.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX };

/* What is remembered of a job that is not over. */
typedef struct entry {
    gw_job_record_id id;
    gw_job_spec spec;
    bool used, readable;
    bool over;                           /* it is remembered only for its child, which has not ended yet */
    uint64_t seen;                       /* the decision that met it last */
    uint64_t claimed_ns, claimed_number; /* when this member claimed it, and in which list; 0: it has not */
    gw_job_view view;
} entry;

struct gw_decider {
    gw_peer_id self;
    uint64_t decision;
    entry *table; /* open addressing; a power of two */
    uint32_t count, room;
};

/* The table. */

static uint32_t slot_of(const entry *table, uint32_t room, const gw_job_record_id *id) {
    gw_reader r = gw_reader_on(id->bytes, sizeof id->bytes);
    uint32_t at = (uint32_t)gw_mix64(gw_get_u64(&r)) & (room - 1);
    while (table[at].used && !gw_job_record_id_equal(&table[at].id, id)) at = (at + 1) & (room - 1);
    return at;
}

static entry *find(const gw_decider *d, const gw_job_record_id *id) {
    if (d->room == 0) return NULL;
    entry *found = &d->table[slot_of(d->table, d->room, id)];
    return found->used ? found : NULL;
}

/* Makes a table of this room, without the entries that the last decision has not met. */
static void rebuild(gw_decider *d, uint32_t room) {
    entry *table = calloc(room, sizeof *table);
    GW_ASSERT_MEMORY(table != NULL);
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->room; i++) {
        entry *e = &d->table[i];
        if (!e->used) continue;
        if (e->seen != d->decision) {
            gw_job_spec_free(&e->spec);
            continue;
        }
        table[slot_of(table, room, &e->id)] = *e;
        count++;
    }
    free(d->table);
    d->table = table;
    d->room = room;
    d->count = count;
}

static void read_spec(entry *e, const gw_job_record *record) {
    gw_err err;
    if (e->readable || record->spec == NULL) return;
    e->readable = gw_job_spec_read(record->spec, record->spec_bytes, &e->spec, &err);
}

static void enter(gw_decider *d, const gw_job_record *record) {
    entry *e = &d->table[slot_of(d->table, d->room, &record->id)];
    if (!e->used) {
        *e = (entry){.id = record->id, .used = true, .seen = d->decision};
        d->count++;
    }
    read_spec(e, record);
    e->over = gw_job_record_is_over(record);
    e->view = (gw_job_view){.spec = e->readable ? &e->spec : NULL, .reason = GW_WAIT_LATER};
}

static void note_seen(gw_decider *d, const gw_job_record_id *id) {
    entry *e = find(d, id);
    if (e != NULL) e->seen = d->decision;
}

/* Meets all jobs that are not over, and those of this member's children. Pointers to entries are valid after that, until
 * the next decision. */
static void meet(gw_decider *d, const gw_decide_input *in) {
    d->decision++;
    uint32_t count = gw_job_records_count(in->records), open = in->child_count;
    for (uint32_t i = 0; i < in->child_count; i++) note_seen(d, &in->children[i].job);
    for (uint32_t i = 0; i < count; i++) {
        const gw_job_record *record = gw_job_records_at(in->records, i);
        if (gw_job_record_is_over(record)) continue;
        open++;
        note_seen(d, &record->id);
    }
    uint32_t room = 64;
    while (room < 2 * open + 2) room *= 2;
    rebuild(d, room);
    for (uint32_t i = 0; i < count; i++) {
        const gw_job_record *record = gw_job_records_at(in->records, i);
        if (!gw_job_record_is_over(record)) enter(d, record);
    }
    for (uint32_t i = 0; i < in->child_count; i++) {
        const gw_job_record *record = gw_job_records_find(in->records, &in->children[i].job);
        if (record != NULL) enter(d, record);
    }
}

/* Whether a job may be placed now; if not, its view says why. */

static bool is_done(const gw_job_record *record) {
    for (uint32_t i = 0; i < record->end_count; i++)
        if (record->ends[i].kind == GW_JOB_END_DONE) return true;
    return false;
}

static bool may_follow(entry *e, const gw_job_records *records) {
    for (uint32_t i = 0; i < e->spec.after_count; i++) {
        const gw_job_record *before = gw_job_records_find(records, &e->spec.after[i]);
        if (before != NULL && is_done(before)) continue;
        e->view.after = e->spec.after[i];
        e->view.reason = before != NULL && gw_job_record_is_over(before) ? GW_WAIT_BROKEN : GW_WAIT_AFTER;
        return false;
    }
    return true;
}

static bool is_held(const gw_job_record *record, const gw_job_spec *spec) {
    return record->knob.n != 0 ? record->knob.hold : spec->hold;
}

static bool may_be_placed(entry *e, const gw_job_record *record, const gw_job_records *records) {
    if (!e->readable) return false;
    if (is_held(record, &e->spec)) {
        e->view.reason = GW_WAIT_HELD;
        return false;
    }
    return may_follow(e, records);
}

/* The allotment's input. */

typedef struct work {
    const gw_decide_input *in;
    gw_allot_job *jobs;
    entry **entries; /* of the jobs */
    gw_allot_node *nodes;
    const gw_claims **lists; /* of the nodes */
    uint32_t *struck;
    gw_allot_pair *claims;
    uint32_t job_count, node_count, struck_count, claim_count, self;
} work;

static bool takes_children(const gw_claims *list) {
    return !list->drained && !list->disk_bad && !list->doubtful;
}

static bool has_room(const gw_allot_need *has, const gw_allot_need *need) {
    return need->cores <= has->cores && need->memory_mib <= has->memory_mib && need->gpus <= has->gpus;
}

/* Whether a node may have a job. That a node is of another class is left to the allotment. A member that has started
 * again and is not past its gate keeps the children that it has adopted, and takes no others. */
static bool is_able(const gw_claims *list, const gw_job_spec *spec, const gw_job_record_id *id) {
    const gw_claim *claim = gw_claims_find(list, id);
    if (claim != NULL && claim->state == GW_CLAIM_STRUCK) return false;
    if (!list->past_gate && (claim == NULL || claim->state != GW_CLAIM_RUNNING)) return false;
    return spec->build == NULL || strcmp(spec->build, list->build) == 0;
}

static void add_nodes(work *w, const gw_peer_id *self) {
    for (uint32_t i = 0; i < w->in->member_count; i++) {
        const gw_claims *list = w->in->members[i];
        if (!takes_children(list)) continue;
        if (gw_peer_id_equal(&list->member, self)) w->self = w->node_count;
        w->nodes[w->node_count] =
            (gw_allot_node){.id = list->member, .has = list->has, .compute_class = list->compute_class};
        w->lists[w->node_count++] = list;
    }
}

static void add_job(work *w, entry *e, const gw_job_record *record) {
    const gw_job_spec *spec = &e->spec;
    gw_allot_job *job = &w->jobs[w->job_count];
    *job = (gw_allot_job){.id = e->id,
                          .counter = spec->counter,
                          .priority = record->knob.n != 0 ? record->knob.priority : spec->priority,
                          .least = spec->least,
                          .most = spec->most,
                          .shares = spec->shares,
                          .need = spec->need,
                          .compute_class = spec->compute_class,
                          .rigid = spec->rigid,
                          .started = record->started,
                          .struck = w->struck + w->struck_count};
    for (uint32_t n = 0; n < w->node_count; n++) {
        const gw_claims *list = w->lists[n];
        bool able = is_able(list, spec, &e->id);
        bool fits = has_room(&list->has, &spec->need) &&
                    (spec->compute_class == 0 || spec->compute_class == list->compute_class);
        e->view.able += able && fits;
        if (!able) w->struck[w->struck_count + job->struck_count++] = n;
    }
    w->struck_count += job->struck_count;
    e->view.reason = e->view.able > 0 ? GW_WAIT_ROOM : GW_WAIT_NO_NODE;
    w->entries[w->job_count++] = e;
}

/* Jobs by their ids, to find those of claims. */
static int compare_jobs(const void *a, const void *b) {
    return memcmp(((const gw_allot_job *)a)->id.bytes, ((const gw_allot_job *)b)->id.bytes, 16);
}

static int compare_entries(const void *a, const void *b) {
    return memcmp((*(entry *const *)a)->id.bytes, (*(entry *const *)b)->id.bytes, 16);
}

static uint32_t job_of(const work *w, const gw_job_record_id *id) {
    gw_allot_job key = {.id = *id};
    const gw_allot_job *found =
        w->job_count == 0 ? NULL : bsearch(&key, w->jobs, w->job_count, sizeof key, compare_jobs);
    return found != NULL ? (uint32_t)(found - w->jobs) : NONE;
}

static void add_claims(work *w) {
    uint32_t room = 1;
    for (uint32_t n = 0; n < w->node_count; n++) room += w->lists[n]->count;
    w->claims = calloc(room, sizeof *w->claims);
    GW_ASSERT_MEMORY(w->claims != NULL);
    for (uint32_t n = 0; n < w->node_count; n++)
        for (uint32_t i = 0; i < w->lists[n]->count; i++) {
            const gw_claim *claim = &w->lists[n]->list[i];
            if (claim->state != GW_CLAIM_CLAIMED && claim->state != GW_CLAIM_RUNNING) continue;
            uint32_t job = job_of(w, &claim->job);
            if (job != NONE) w->claims[w->claim_count++] = (gw_allot_pair){job, n};
        }
}

static void open_work(work *w, gw_decider *d, const gw_decide_input *in) {
    *w = (work){.in = in, .self = NONE};
    w->nodes = calloc(in->member_count + 1, sizeof *w->nodes);
    w->lists = calloc(in->member_count + 1, sizeof(const gw_claims *));
    w->jobs = calloc(d->count + 1, sizeof *w->jobs);
    w->entries = calloc(d->count + 1, sizeof(entry *));
    w->struck = calloc((size_t)d->count * in->member_count + 1, sizeof *w->struck);
    GW_ASSERT_MEMORY(w->nodes && w->lists && w->jobs && w->entries && w->struck);
    add_nodes(w, &d->self);
    for (uint32_t i = 0; i < d->room; i++) {
        entry *e = &d->table[i];
        if (!e->used || e->over) continue;
        const gw_job_record *record = gw_job_records_find(in->records, &e->id);
        if (may_be_placed(e, record, in->records)) add_job(w, e, record);
    }
    qsort(w->jobs, w->job_count, sizeof *w->jobs, compare_jobs);
    qsort(w->entries, w->job_count, sizeof(entry *), compare_entries);
    add_claims(w);
}

static void close_work(work *w) {
    free(w->nodes);
    free(w->lists);
    free(w->jobs);
    free(w->entries);
    free(w->struck);
    free(w->claims);
}

/* What follows from the allotment. */

typedef struct outcome {
    gw_decider *d;
    const gw_decide_input *in;
    gw_claims *claims;
    bool changed;
    uint64_t again_ns;
    gw_allot_need taken; /* by children, those that are asked to end among them */
    gw_decide_act *act;
    void *context;
} outcome;

static const gw_decide_child *child_of(const gw_decide_input *in, const gw_job_record_id *id) {
    for (uint32_t i = 0; i < in->child_count; i++)
        if (gw_job_record_id_equal(&in->children[i].job, id)) return &in->children[i];
    return NULL;
}

static void set_claim(outcome *o, const gw_job_record_id *id, gw_claim_state state, uint16_t port) {
    const gw_claim *claim = gw_claims_find(o->claims, id);
    gw_claim wanted = {.job = *id, .state = state, .port = port};
    if (claim != NULL && claim->state == state && claim->port == port) return;
    gw_claims_set(o->claims, &wanted);
    o->changed = true;
}

static gw_allot_need plus(const gw_allot_need *a, const gw_allot_need *b) {
    return (gw_allot_need){a->cores + b->cores, a->memory_mib + b->memory_mib, a->gpus + b->gpus};
}

/* A job that the allotment gives this member, which has no child of it. */
static void take(outcome *o, entry *e, const gw_job_record *record) {
    const gw_decide_input *in = o->in;
    const gw_claim *claim = gw_claims_find(o->claims, &e->id);
    if (claim == NULL || claim->state != GW_CLAIM_CLAIMED || e->claimed_number == 0) {
        set_claim(o, &e->id, GW_CLAIM_CLAIMED, 0);
        e->claimed_ns = in->now_ns;
        e->claimed_number = o->claims->number + 1; /* of the list that is told next */
        o->changed = true;
    }
    uint64_t due_ns = e->claimed_ns + GW_DECIDE_CLAIM_NS;
    if (in->heard < e->claimed_number && in->now_ns < due_ns) {
        if (due_ns < o->again_ns) o->again_ns = due_ns;
        return;
    }
    if (gw_job_record_next_round(record) >= GW_JOB_RECORD_ROUNDS) return;
    gw_allot_need with = plus(&o->taken, &e->spec.need);
    if (!has_room(&o->claims->has, &with)) return; /* a child that was asked to end has not ended yet */
    if (record->started) o->taken = with;
    o->act(o->context, &(gw_do){.kind = record->started ? GW_DO_START : GW_DO_MARK,
                                .job = e->id,
                                .spec = &e->spec,
                                .round = gw_job_record_next_round(record)});
}

/* Claims of jobs that this member neither runs nor is given. */
static void let_go(outcome *o, const bool *given, const work *w) {
    for (uint32_t i = o->claims->count; i-- > 0;) {
        const gw_claim *claim = &o->claims->list[i];
        gw_job_record_id id = claim->job;
        uint32_t job = job_of(w, &id);
        const gw_job_record *record = gw_job_records_find(o->in->records, &id);
        bool struck = claim->state == GW_CLAIM_STRUCK && record != NULL && !gw_job_record_is_over(record);
        if (struck || child_of(o->in, &id) != NULL || (job != NONE && given[job])) continue;
        entry *e = find(o->d, &id);
        if (e != NULL) e->claimed_number = 0;
        gw_claims_remove(o->claims, &id);
        o->changed = true;
    }
}

static void follow_children(outcome *o, const bool *given, const work *w) {
    for (uint32_t i = 0; i < o->in->child_count; i++) {
        const gw_decide_child *child = &o->in->children[i];
        const gw_job_record *record = gw_job_records_find(o->in->records, &child->job);
        entry *e = find(o->d, &child->job);
        uint32_t job = job_of(w, &child->job);
        bool known = record != NULL &&
                     (e == NULL || e->over || e->readable); /* else it is not to be judged by this build */
        bool keeps = !o->in->past_gate || !known || (job != NONE && given[job]);
        if (known && gw_job_record_is_over(record)) keeps = !o->in->past_gate;
        if (known && e != NULL && e->view.reason == GW_WAIT_HELD) keeps = false;
        if (!keeps && !child->leaving) o->act(o->context, &(gw_do){.kind = GW_DO_STOP, .job = child->job});
        if (e != NULL && e->readable) o->taken = plus(&o->taken, &e->spec.need);
        set_claim(o, &child->job, keeps && !child->leaving ? GW_CLAIM_RUNNING : GW_CLAIM_LEAVING,
                  child->port);
        if (e != NULL) e->claimed_number = 0;
    }
}

static void follow(outcome *o, const work *w, const gw_allotment *allotment) {
    bool *given = calloc(w->job_count + 1, sizeof *given);
    GW_ASSERT_MEMORY(given != NULL);
    for (uint32_t i = 0; i < allotment->count; i++) {
        const gw_allot_pair *pair = &allotment->pairs[i];
        entry *e = w->entries[pair->job];
        e->view.placed++;
        e->view.reason = GW_WAIT_NOT;
        given[pair->job] |= pair->node == w->self;
    }
    follow_children(o, given, w);
    let_go(o, given, w);
    for (uint32_t i = 0; i < w->job_count && o->in->past_gate; i++)
        if (given[i] && child_of(o->in, &w->entries[i]->id) == NULL)
            take(o, w->entries[i], gw_job_records_find(o->in->records, &w->entries[i]->id));
    free(given);
}

uint64_t gw_decide(gw_decider *d, const gw_decide_input *in, gw_claims *claims, gw_decide_act *act,
                   void *context) {
    work w;
    meet(d, in);
    open_work(&w, d, in);
    gw_allot_input input = {.jobs = w.jobs,
                            .job_count = w.job_count,
                            .nodes = w.nodes,
                            .node_count = w.node_count,
                            .claims = w.claims,
                            .claim_count = w.claim_count};
    gw_allotment allotment = gw_allot(&input);
    outcome o = {.d = d, .in = in, .claims = claims, .again_ns = UINT64_MAX, .act = act, .context = context};
    follow(&o, &w, &allotment);
    if (o.changed) claims->number++;
    gw_allotment_free(&allotment);
    close_work(&w);
    return o.again_ns;
}

gw_job_view gw_decider_view(const gw_decider *d, const gw_job_record_id *id) {
    const entry *e = find(d, id);
    return e != NULL ? e->view : (gw_job_view){.reason = GW_WAIT_LATER};
}

const gw_job_spec *gw_decider_spec(const gw_decider *d, const gw_job_record_id *id) {
    const entry *e = find(d, id);
    return e != NULL && e->readable ? &e->spec : NULL;
}

gw_decider *gw_decider_open(const gw_peer_id *self) {
    gw_decider *d = calloc(1, sizeof *d);
    GW_ASSERT_MEMORY(d != NULL);
    d->self = *self;
    return d;
}

void gw_decider_close(gw_decider *d) {
    if (d == NULL) return;
    for (uint32_t i = 0; i < d->room; i++)
        if (d->table[i].used) gw_job_spec_free(&d->table[i].spec);
    free(d->table);
    free(d);
}
