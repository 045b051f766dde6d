#include "core/flock/decide.h"

#include "core/base/assert.h"
#include "core/base/mix.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX };

/* A member that comes back from the lesser side keeps commands back for so long that it hears what became of them. */
#define BACK_NS UINT64_C(10000000000)

/* What is remembered of a job that is not over. */
typedef struct entry {
    gw_job_record_id id;
    gw_job_view view;
    const gw_job_record *record; /* while the allotment's input is made */
    bool readable, tried;        /* its specification was read; that was tried */
    bool over;                   /* it is remembered only for its child, which has not ended yet */
    uint32_t index;              /* among the jobs that may be placed; NONE: it is none of them */
    uint64_t seen;               /* the decision that met it last */
    uint64_t since_ns; /* since when it is known here; 0: since before this member was past its gate */
    uint64_t running;  /* the last decision in which a live member said that it runs it */
    bool was_away;     /* it was kept back by the last decision */
    uint64_t stays;    /* the last decision in which it may have no nodes but those */
    uint64_t apart;    /* the last decision in which a node is able or not because of a claim on this job */
    uint64_t claimed_ns, claimed_number; /* when this member claimed it, and in which list; 0: it has not */
    gw_job_spec spec;
} entry;

struct gw_decider {
    gw_peer_id self;
    uint64_t decision;
    bool was_past_gate, was_larger, was_lesser; /* was_lesser: after it was on the larger side */
    uint32_t returns;
    uint32_t met_again; /* gw_sides_met_again, when it was not on the lesser side last */
    bool is_lesser;     /* at the last decision */
    uint64_t lesser_ns; /* when it was on the lesser side last */
    entry **table;      /* open addressing; a power of two */
    uint32_t count, room;
    entry **by_record; /* the entry of the record at each index when it was met last, or NULL */
    entry **met;       /* in this decision, in the order of the records */
    uint32_t met_count, met_room;
};

/* The table. */

static uint32_t slot_of(entry *const *table, uint32_t room, const gw_job_record_id *id) {
    gw_reader r = gw_reader_on(id->bytes, sizeof id->bytes);
    uint32_t at = (uint32_t)gw_mix64(gw_get_u64(&r)) & (room - 1);
    while (table[at] != NULL && !gw_job_record_id_equal(&table[at]->id, id)) at = (at + 1) & (room - 1);
    return at;
}

/* An entry that the last decision has met. */
static entry *find(const gw_decider *d, const gw_job_record_id *id) {
    entry *e = d->room == 0 ? NULL : d->table[slot_of(d->table, d->room, id)];
    return e != NULL && e->seen == d->decision ? e : NULL;
}

/* Makes a table of this room, without the entries that the last decision has not met. */
static void rebuild(gw_decider *d, uint32_t room) {
    if (d->met_room > 0) memset(d->by_record, 0, d->met_room * sizeof(entry *));
    entry **table = calloc(room, sizeof(entry *));
    GW_ASSERT_MEMORY(table != NULL);
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->room; i++) {
        entry *e = d->table[i];
        if (e == NULL) continue;
        if (e->seen != d->decision) {
            gw_job_spec_free(&e->spec);
            free(e);
            continue;
        }
        table[slot_of(table, room, &e->id)] = e;
        count++;
    }
    free(d->table);
    d->table = table;
    d->room = room;
    d->count = count;
}

static entry *find_or_add(gw_decider *d, const gw_job_record_id *id) {
    uint32_t slot = slot_of(d->table, d->room, id);
    if (d->table[slot] != NULL) return d->table[slot];
    entry *e = calloc(1, sizeof *e);
    GW_ASSERT_MEMORY(e != NULL);
    e->id = *id;
    d->table[slot] = e;
    d->count++;
    return e;
}

static void read_spec(entry *e) {
    gw_err err;
    if (e->tried || e->record->spec == NULL) return;
    e->tried = true;
    e->readable = gw_job_spec_read(e->record->spec, e->record->spec_bytes, &e->spec, &err);
}

static void enter(gw_decider *d, const gw_decide_input *in, entry *e, const gw_job_record *record,
                  bool over) {
    if (e->seen == 0 && d->was_past_gate) e->since_ns = in->now_ns;
    if (e->seen != d->decision) d->met[d->met_count++] = e;
    e->seen = d->decision;
    e->record = record;
    e->over = over;
    e->index = NONE;
    read_spec(e);
    gw_wait_reason waited = e->view.reason != GW_WAIT_NOT ? e->view.reason : e->view.waited;
    e->view = (gw_job_view){.spec = e->readable ? &e->spec : NULL, .reason = GW_WAIT_LATER, .waited = waited};
}

static void make_room(gw_decider *d, const gw_decide_input *in) {
    uint32_t records = gw_job_records_count(in->records), room = 64;
    uint32_t most = gw_job_records_open_count(in->records) + in->child_count;
    while (room < 2 * (most + d->count) + 2) room *= 2;
    if (room > d->room || d->count > 2 * d->met_count + 64) rebuild(d, room);
    if (records + in->child_count > d->met_room) {
        uint32_t before = d->met_room;
        d->met_room = 2 * (records + in->child_count);
        d->met = realloc(d->met, d->met_room * sizeof(entry *));
        d->by_record = realloc(d->by_record, d->met_room * sizeof(entry *));
        GW_ASSERT_MEMORY(d->met != NULL && d->by_record != NULL);
        memset(d->by_record + before, 0, (d->met_room - before) * sizeof(entry *));
    }
}

/* Meets all jobs that are not over, and those of this member's children. */
static void meet(gw_decider *d, const gw_decide_input *in) {
    uint32_t count = gw_job_records_count(in->records);
    make_room(d, in);
    d->decision++;
    d->met_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (gw_job_records_is_over_at(in->records, i)) continue;
        const gw_job_record *record = gw_job_records_at(in->records, i);
        entry *e = d->by_record[i]; /* where no record was forgotten, it has the index that it had */
        if (e == NULL || !gw_job_record_id_equal(&e->id, &record->id)) e = find_or_add(d, &record->id);
        d->by_record[i] = e;
        enter(d, in, e, record, false);
    }
    for (uint32_t i = 0; i < in->child_count; i++) {
        const gw_job_record *record = gw_job_records_find(in->records, &in->children[i].job);
        if (record != NULL) enter(d, in, find_or_add(d, &record->id), record, gw_job_record_is_over(record));
    }
    d->was_past_gate = in->past_gate;
}

static bool is_held(const gw_job_record *record, const gw_job_spec *spec) {
    return record->knob.n != 0 ? record->knob.hold : spec->hold;
}

/* The allotment's input. */

/* Nodes that may not have jobs of one build, whatever is claimed. */
typedef struct build {
    const char *name; /* NULL: any */
    uint32_t *struck; /* indices of nodes, rising */
    uint32_t struck_count;
    uint32_t node_count; /* that have it */
} build;

/* How many nodes may have jobs of one kind. */
typedef struct kind {
    bool used;
    uint32_t build, compute_class, able;
    gw_allot_need need;
} kind;

enum { KINDS = 256, KIND_SLOTS = 8 };

typedef struct work {
    gw_decider *d;
    const gw_decide_input *in;
    gw_allot_job *jobs;
    entry **entries; /* of the jobs */
    gw_allot_node *nodes;
    const gw_claims **lists; /* of the nodes */
    gw_allot_claim *claims;
    build *builds;
    uint32_t **apart; /* lists of struck nodes of jobs that have one of their own */
    uint32_t job_count, node_count, claim_count, build_count, apart_count, self;
    uint32_t rules;    /* the least version of the allotment that live members know */
    bool all_doubtful; /* so that a doubtful node is as good as any */
    bool lesser;       /* this is the lesser side of a flock of which members are away */
    uint64_t back_ns;  /* when the first job is free again that they may run; UINT64_MAX: none is */
    kind kinds[KINDS]; /* those that were met last */
} work;

/* Whether a job may be placed now; if not, its view says why. */

enum { RULES_FOLLOW_AGAIN = 2 }; /* the first version by which a job follows those that try others again */

static bool may_follow(const work *w, entry *e) {
    bool older = false;
    for (uint32_t i = 0; i < e->spec.after_count; i++) {
        const gw_job_record_id *before = &e->spec.after[i];
        gw_job_record_id which;
        gw_job_fate fate = gw_job_records_fate(w->in->records, before, &which);
        bool done = fate == GW_JOB_FATE_DONE;
        if (done && (w->rules >= RULES_FOLLOW_AGAIN || gw_job_record_id_equal(&which, before))) continue;
        e->view.after = which;
        e->view.reason = done ? GW_WAIT_OLDER : fate == GW_JOB_FATE_FAILED ? GW_WAIT_BROKEN : GW_WAIT_AFTER;
        if (!done) return false;
        older = true;
    }
    return !older;
}

/* A job that may run elsewhere goes on where live members say that they run it, and nowhere else. Returns whether any
 * does. */
static bool stays(const work *w, entry *e) {
    if (e->running != w->d->decision) return false;
    e->apart = e->stays = w->d->decision;
    return true;
}

/* Until when a command may run where members are away, or were just now (*reason becomes BACK); 0: it does not. */
static uint64_t away_until(const work *w, const entry *e, gw_wait_reason *reason) {
    const gw_decide_input *in = w->in;
    if (in->sides == NULL || e->spec.kind != GW_JOB_COMMAND) return 0;
    if (w->lesser) return gw_sides_taken_until(in->sides, &e->id, e->since_ns, in->takeover_ns, in->now_ns);
    uint64_t back_ns = e->was_away && w->d->lesser_ns > 0 ? w->d->lesser_ns + BACK_NS : 0;
    uint64_t run_ns = gw_sides_run_until(in->sides, &e->id, in->now_ns);
    if (back_ns > run_ns) *reason = GW_WAIT_BACK;
    return back_ns > run_ns ? back_ns : run_ns;
}

/* Whether a command may run where members are away, so that it is not to be started here. */
static bool is_away(work *w, entry *e) {
    gw_wait_reason reason = GW_WAIT_AWAY;
    uint64_t until_ns = away_until(w, e, &reason);
    e->was_away = until_ns > w->in->now_ns;
    if (!e->was_away) return false;
    if (until_ns < w->back_ns) w->back_ns = until_ns;
    e->view.until_ns = until_ns;
    if (stays(w, e)) return false;
    e->view.reason = reason;
    return true;
}

/* Whether a job may run on a live member that is unreadable, so that it is not to be started here. */
static bool is_out_of_sight(const work *w, entry *e) {
    if (!w->in->unreadable || stays(w, e)) return false;
    e->view.reason = GW_WAIT_NEWER;
    return true;
}

static bool may_be_placed(work *w, entry *e) {
    if (!e->readable) return false;
    if (is_held(e->record, &e->spec)) {
        e->view.reason = GW_WAIT_HELD;
        return false;
    }
    return may_follow(w, e) && !is_away(w, e) && !is_out_of_sight(w, e);
}

static bool takes_children(const gw_claims *list) {
    return !list->drained && !list->disk_bad;
}

/* Whether a node takes children beside those that run there. */
static bool takes_more(const work *w, const gw_claims *list) {
    return list->past_gate && (!list->doubtful || w->all_doubtful);
}

static bool has_room(const gw_allot_need *has, const gw_allot_need *need) {
    return need->cores <= has->cores && need->memory_mib <= has->memory_mib && need->gpus <= has->gpus;
}

/* Whether a claim makes its node able or not to have its job: a job is struck there; or a member that is doubtful, or has
 * started again and is not past its gate, keeps a child that runs there, and takes no others. */
static bool sets_apart(const work *w, const gw_claims *list, const gw_claim *claim) {
    return claim->state == GW_CLAIM_STRUCK || (claim->state == GW_CLAIM_RUNNING && !takes_more(w, list));
}

/* Whether a node may have a job. That a node is of another class is left to the allotment. */
static bool is_able(const work *w, const gw_claims *list, const char *build_name, const entry *e) {
    const gw_claim *claim = e != NULL ? gw_claims_find(list, &e->id) : NULL;
    bool takes = takes_more(w, list) && (e == NULL || e->stays != w->d->decision);
    if (claim != NULL && claim->state == GW_CLAIM_STRUCK) return false;
    if (!takes && (claim == NULL || claim->state != GW_CLAIM_RUNNING)) return false;
    return gw_claims_has_build(list, build_name);
}

static bool is_fit(const gw_claims *list, const gw_job_spec *spec) {
    return has_room(&list->has, &spec->need) &&
           (spec->compute_class == 0 || spec->compute_class == list->compute_class);
}

static void add_nodes(work *w) {
    w->all_doubtful = true;
    w->rules = GW_ALLOT_VERSION;
    for (uint32_t i = 0; i < w->in->member_count; i++) {
        const gw_claims *list = w->in->members[i];
        if (list->allotment < w->rules) w->rules = list->allotment;
        if (takes_children(list) && list->past_gate && !list->doubtful) w->all_doubtful = false;
    }
    for (uint32_t i = 0; i < w->in->member_count; i++) {
        const gw_claims *list = w->in->members[i];
        for (uint32_t k = 0; k < list->count; k++) {
            bool runs = list->list[k].state == GW_CLAIM_RUNNING;
            bool apart = sets_apart(w, list, &list->list[k]);
            entry *e = runs || apart ? find(w->d, &list->list[k].job) : NULL;
            if (e != NULL && runs) e->running = w->d->decision;
            if (e != NULL && apart) e->apart = w->d->decision;
        }
        if (!takes_children(list)) continue;
        if (gw_peer_id_equal(&list->member, &w->d->self)) w->self = w->node_count;
        w->nodes[w->node_count] =
            (gw_allot_node){.id = list->member, .has = list->has, .compute_class = list->compute_class};
        w->lists[w->node_count++] = list;
    }
}

/* The nodes that are not able, for jobs of a build (e NULL), or for one job. */
static uint32_t *list_struck(const work *w, const char *name, const entry *e, uint32_t *count) {
    uint32_t *struck = calloc(w->node_count + 1, sizeof *struck);
    GW_ASSERT_MEMORY(struck != NULL);
    for (uint32_t n = 0; n < w->node_count; n++)
        if (!is_able(w, w->lists[n], name, e)) struck[(*count)++] = n;
    return struck;
}

static uint32_t build_of(work *w, const char *name) {
    for (uint32_t i = 0; i < w->build_count; i++) {
        const char *one = w->builds[i].name;
        if (name == one || (name != NULL && one != NULL && strcmp(name, one) == 0)) return i;
    }
    w->builds = realloc(w->builds, (w->build_count + 1) * sizeof *w->builds);
    GW_ASSERT_MEMORY(w->builds != NULL);
    build *b = &w->builds[w->build_count];
    *b = (build){.name = name};
    b->struck = list_struck(w, name, NULL, &b->struck_count);
    for (uint32_t n = 0; n < w->node_count; n++) b->node_count += gw_claims_has_build(w->lists[n], name);
    return w->build_count++;
}

static uint32_t count_able(const work *w, const gw_job_spec *spec, const uint32_t *struck, uint32_t count) {
    uint32_t able = 0;
    for (uint32_t n = 0, s = 0; n < w->node_count; n++) {
        if (s < count && struck[s] == n)
            s++;
        else
            able += is_fit(w->lists[n], spec);
    }
    return able;
}

/* How many nodes may have jobs like this one, on which no claim sets a node apart. */
static uint32_t able_of_kind(work *w, const gw_job_spec *spec, uint32_t of_build) {
    const gw_allot_need *need = &spec->need;
    uint64_t key = gw_mix64((uint64_t)need->cores << 32 | need->memory_mib);
    key = gw_mix64(key ^ ((uint64_t)need->gpus << 48 | (uint64_t)of_build << 32 | spec->compute_class));
    for (uint32_t i = 0; i < KIND_SLOTS; i++) {
        kind *k = &w->kinds[(key + i) % KINDS];
        bool is_it = k->used && k->build == of_build && k->compute_class == spec->compute_class &&
                     memcmp(&k->need, need, sizeof *need) == 0;
        if (is_it) return k->able;
        if (k->used && i + 1 < KIND_SLOTS) continue; /* the last one gives way */
        const build *b = &w->builds[of_build];
        *k = (kind){true, of_build, spec->compute_class, count_able(w, spec, b->struck, b->struck_count),
                    *need};
        return k->able;
    }
    return 0;
}

static void add_job(work *w, entry *e) {
    const gw_job_spec *spec = &e->spec;
    const gw_job_record *record = e->record;
    uint32_t of_build = build_of(w, spec->build), struck_count = w->builds[of_build].struck_count;
    uint32_t *struck = w->builds[of_build].struck;
    if (e->apart == w->d->decision) {
        struck_count = 0;
        struck = w->apart[w->apart_count++] = list_struck(w, spec->build, e, &struck_count);
        e->view.able = count_able(w, spec, struck, struck_count);
    } else {
        e->view.able = able_of_kind(w, spec, of_build);
    }
    e->view.reason = e->view.able >= spec->least           ? GW_WAIT_ROOM
                     : e->view.able > 0                    ? GW_WAIT_FEW
                     : w->builds[of_build].node_count == 0 ? GW_WAIT_NO_BUILD
                                                           : GW_WAIT_NO_NODE;
    e->index = w->job_count;
    w->entries[w->job_count] = e;
    w->jobs[w->job_count++] =
        (gw_allot_job){.id = e->id,
                       .counter = spec->counter,
                       .priority = record->knob.n != 0 ? record->knob.priority : spec->priority,
                       .least = spec->least,
                       .most = spec->most,
                       .shares = spec->shares,
                       .need = spec->need,
                       .compute_class = spec->compute_class,
                       .rigid = spec->rigid,
                       .started = record->started,
                       .struck = struck,
                       .struck_count = struck_count};
}

static uint32_t job_of(const work *w, const gw_job_record_id *id) {
    const entry *e = find(w->d, id);
    return e != NULL ? e->index : NONE;
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
            if (job == NONE) continue;
            bool runs = claim->state == GW_CLAIM_RUNNING;
            w->claims[w->claim_count++] = (gw_allot_claim){job, n, runs};
            if (runs) w->entries[job]->view.waited = GW_WAIT_NOT;
        }
}

static work *open_work(gw_decider *d, const gw_decide_input *in) {
    work *w = calloc(1, sizeof *w);
    GW_ASSERT_MEMORY(w != NULL);
    w->d = d;
    w->in = in;
    w->self = NONE;
    w->lesser = in->sides != NULL && gw_sides_is_lesser(in->sides, in->members, in->member_count, in->now_ns);
    w->back_ns = UINT64_MAX;
    if (w->lesser || d->is_lesser) d->lesser_ns = in->now_ns; /* it was until now */
    d->is_lesser = w->lesser;
    w->nodes = calloc(in->member_count + 1, sizeof *w->nodes);
    w->lists = calloc(in->member_count + 1, sizeof(const gw_claims *));
    w->jobs = calloc(d->met_count + 1, sizeof *w->jobs);
    w->entries = calloc(d->met_count + 1, sizeof(entry *));
    w->apart = calloc(d->met_count + 1, sizeof(uint32_t *));
    GW_ASSERT_MEMORY(w->nodes && w->lists && w->jobs && w->entries && w->apart);
    add_nodes(w);
    for (uint32_t i = 0; i < d->met_count; i++)
        if (!d->met[i]->over && may_be_placed(w, d->met[i])) add_job(w, d->met[i]);
    add_claims(w);
    return w;
}

static void close_work(work *w) {
    for (uint32_t i = 0; i < w->build_count; i++) free(w->builds[i].struck);
    for (uint32_t i = 0; i < w->apart_count; i++) free(w->apart[i]);
    free(w->builds);
    free(w->apart);
    free(w->nodes);
    free(w->lists);
    free(w->jobs);
    free(w->entries);
    free(w->claims);
    free(w);
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
                                .round = gw_job_record_next_round(record),
                                .waited = e->view.waited});
}

/* Whether a job is not to be started here, as it may run on members that this one does not see, or as others do not place it
 * yet: a child of it goes on. */
static bool is_kept_back(const entry *e) {
    gw_wait_reason reason = e->view.reason;
    return reason == GW_WAIT_AWAY || reason == GW_WAIT_BACK || reason == GW_WAIT_NEWER ||
           reason == GW_WAIT_OLDER;
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
        bool keeps =
            !o->in->past_gate || !known || (job != NONE && given[job]) || (e != NULL && is_kept_back(e));
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

/* Looks whether this member has come back from the lesser side. Where all whom it had lost have started again, they were
 * away, and not this member. */
static void note_side(gw_decider *d, const gw_decide_input *in, bool lesser) {
    uint32_t met_again = in->sides != NULL ? gw_sides_met_again(in->sides) : 0;
    d->was_larger |= in->past_gate && !lesser;
    d->returns += d->was_lesser && !lesser && met_again != d->met_again;
    if (!lesser) d->met_again = met_again;
    d->was_lesser = d->was_larger && lesser;
}

uint64_t gw_decide(gw_decider *d, const gw_decide_input *in, gw_claims *claims, gw_decide_act *act,
                   void *context) {
    meet(d, in);
    work *w = open_work(d, in);
    note_side(d, in, w->lesser);
    gw_allot_input input = {.jobs = w->jobs,
                            .job_count = w->job_count,
                            .nodes = w->nodes,
                            .node_count = w->node_count,
                            .claims = w->claims,
                            .claim_count = w->claim_count};
    gw_allotment allotment = gw_allot(&input);
    outcome o = {.d = d, .in = in, .claims = claims, .again_ns = w->back_ns, .act = act, .context = context};
    follow(&o, w, &allotment);
    if (o.changed) claims->number++;
    gw_allotment_free(&allotment);
    close_work(w);
    return o.again_ns;
}

gw_job_view gw_decider_view(const gw_decider *d, const gw_job_record_id *id) {
    const entry *e = find(d, id);
    return e != NULL ? e->view : (gw_job_view){.reason = GW_WAIT_LATER};
}

uint32_t gw_decider_returns(const gw_decider *d) {
    return d->returns;
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
    for (uint32_t i = 0; i < d->room; i++) {
        if (d->table[i] == NULL) continue;
        gw_job_spec_free(&d->table[i]->spec);
        free(d->table[i]);
    }
    free(d->table);
    free(d->by_record);
    free(d->met);
    free(d);
}
