/* Collectives, one member at a time: each enters with the contents of its accumulator, and ends on its
 * own. When a member dies or aborts, or a link breaks, some of the others may still have all they need. */
#include "tools/sim/world/inside.h"

#include "core/base/assert.h"
#include "net/collective/doubling.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STALL_MOST_NS (2000 * SIM_MS) /* time without progress, after all have entered */

typedef struct sim_entry { /* one member of a collective */
    bool entered, ended;
    bool lucky; /* it has all it needs, and succeeds although the others do not */
    uint32_t peer;
    uint64_t life;
    gw_token token;
    sim_sum snapshot;
    int64_t row[GW_SLOTS];
    int64_t *table; /* GW_VERIFY_TABLE words; NULL = zeros; owned */
} sim_entry;

struct sim_reduction {
    gw_view view;
    uint64_t step;
    uint32_t entered;
    uint32_t arrangement; /* the order of its members, which is the same for all of them */
    bool broken;
    bool damaged;      /* at least one member got a damaged sum */
    uint64_t full_ns;  /* since when all members have entered */
    sim_sum sum;       /* the sum of all entries, made when the first member succeeds */
    int64_t *table;    /* the sum of their tables; NULL = zeros */
    sim_entry entry[]; /* by rank */
};

static uint64_t front_of(const gw_view_name *name) {
    uint64_t front;
    memcpy(&front, name->bytes, sizeof front);
    return front;
}

static void free_reduction(sim_reduction *r) {
    for (uint32_t i = 0; i < r->view.count; i++) {
        sim_sum_free(&r->entry[i].snapshot);
        free(r->entry[i].table);
    }
    sim_sum_free(&r->sum);
    free(r->table);
    free(r);
}

void sim_reductions_free(sim_cluster *c) {
    for (uint32_t i = 0; i < c->reduction_count; i++) free_reduction(c->reductions[i]);
    c->reduction_count = 0;
}

static bool is_over(const sim_cluster *c, const sim_reduction *r) {
    for (uint32_t i = 0; i < r->view.count; i++) {
        const sim_entry *e = &r->entry[i];
        if (!e->entered || e->ended) continue;
        const sim_peer *p = &c->peers[e->peer];
        if (p->brain != NULL && p->boot == e->life) return false;
    }
    return r->broken || r->entered == r->view.count;
}

static sim_reduction *find(sim_cluster *c, uint64_t front, uint64_t step) {
    for (uint32_t i = 0; i < c->reduction_count; i++)
        if (front_of(&c->reductions[i]->view.name) == front && c->reductions[i]->step == step)
            return c->reductions[i];
    return NULL;
}

static sim_reduction *open_reduction(sim_cluster *c, const gw_view *view, uint64_t step) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->reduction_count && c->reduction_count == SIM_REDUCTIONS; i++) {
        if (is_over(c, c->reductions[i]))
            free_reduction(c->reductions[i]);
        else
            c->reductions[kept++] = c->reductions[i];
    }
    if (c->reduction_count == SIM_REDUCTIONS) c->reduction_count = kept;
    GW_ASSERT(c->reduction_count < SIM_REDUCTIONS);
    sim_reduction *r = calloc(1, sizeof *r + view->count * sizeof r->entry[0]);
    GW_ASSERT_MEMORY(r != NULL);
    r->view = *view;
    r->step = step;
    c->reductions[c->reduction_count++] = r;
    return r;
}

static void fail(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (p->m.reduce_token != op->token) return;
    sim_reduction *r = find(c, op->x, op->y);
    if (r != NULL) r->entry[gw_view_rank(&r->view, &p->id)].ended = true;
    p->m.reduce_token = 0;
    c->result->faults[GW_SIM_FAILED_REDUCTION]++;
    gw_event event = {.kind = GW_EV_REDUCED, .token = op->token, .outcome = GW_FAILED, .text = "link broke"};
    if (op->z != SIM_PEERS) {
        const sim_peer *with = &c->peers[op->z];
        event.peer = with->id;
        c->result->faults[GW_SIM_NAMED_REDUCTION]++;
        SIM_NOTIFY(c, sum_failed, p, with);
    }
    sim_event(c, p, &event);
}

static sim_op op_of_entry(const sim_cluster *c, const sim_reduction *r, const sim_entry *e,
                          void (*handle)(sim_cluster *, sim_peer *, const sim_op *)) {
    sim_op op = sim_op_to(&c->peers[e->peer], handle);
    op.life = e->life;
    op.token = e->token;
    op.x = front_of(&r->view.name);
    op.y = r->step;
    return op;
}

/* Plans the failure of the entry. `with` is the member that it has failed with; SIM_PEERS = unknown. */
static void fail_later(sim_cluster *c, const sim_reduction *r, const sim_entry *e, uint32_t with) {
    sim_op op = op_of_entry(c, r, e, fail);
    op.z =
        c->options->path_ms != 0 ? with : SIM_PEERS; /* members name another only if the run has lost paths */
    sim_later(c, sim_between(c, SIM_MS / 10, 50 * SIM_MS), &op);
}

/* Whether the collective makes progress: every member runs and reaches every other. */
static bool makes_progress(const sim_cluster *c, const sim_reduction *r) {
    for (uint32_t i = 0; i < r->view.count; i++) {
        const sim_peer *p = &c->peers[r->entry[i].peer];
        if (p->paused_until_ns > sim_now(c)) return false;
        for (uint32_t k = 0; k < i; k++)
            if (!sim_reaches_both(c, r->entry[i].peer, r->entry[k].peer)) return false;
    }
    return true;
}

static int64_t *new_table(void) {
    int64_t *table = calloc(GW_VERIFY_TABLE, sizeof *table);
    GW_ASSERT_MEMORY(table != NULL);
    return table;
}

static void add_table(sim_reduction *r, const int64_t *table) {
    if (table == NULL) return;
    if (r->table == NULL) r->table = new_table();
    for (uint32_t k = 0; k < GW_VERIFY_TABLE; k++)
        r->table[k] = (int64_t)((uint64_t)r->table[k] + (uint64_t)table[k]);
}

static void add_up(sim_reduction *r) {
    const sim_sum *first = &r->entry[0].snapshot;
    sim_sum *sum = &r->sum;
    *sum = (sim_sum){.there = true, .step = r->step, .shards = first->shards};
    sum->times = calloc(first->shards, 1);
    GW_ASSERT_MEMORY(sum->times != NULL);
    for (uint32_t i = 0; i < r->view.count; i++) {
        const sim_entry *e = &r->entry[i];
        for (uint32_t s = 0; s < first->shards; s++)
            sum->times[s] = (uint8_t)(sum->times[s] + e->snapshot.times[s]);
        sum->value += e->snapshot.value;
        sum->spoilt |= e->snapshot.spoilt;
        if (e->snapshot.mixed ||
            (sum->state != 0 && e->snapshot.state != 0 && sum->state != e->snapshot.state))
            sum->mixed = true;
        if (e->snapshot.state != 0) sum->state = e->snapshot.state;
        add_table(r, e->table);
    }
}

static bool covers(const sim_sum *sum) {
    for (uint32_t s = 0; s < sum->shards; s++)
        if (sum->times[s] != 1) return false;
    return true;
}

static void succeed(sim_cluster *c, sim_peer *p, sim_reduction *r, sim_entry *e) {
    static const int64_t zeros[GW_VERIFY_TABLE];
    int64_t slots[SIM_PEERS * GW_SLOTS];
    sim_memory *m = &p->m;
    GW_ASSERT(r->entered == r->view.count);
    if (!r->sum.there) add_up(r);
    for (uint32_t i = 0; i < r->view.count; i++)
        memcpy(slots + (size_t)i * GW_SLOTS, r->entry[i].row, sizeof r->entry[i].row);
    sim_sum_free(&m->sum);
    m->sum = sim_sum_copy(&r->sum);
    m->sum_epoch = r->view.epoch;
    m->sum_name = front_of(&r->view.name);
    m->sum.value = sim_sum_of_view(c->options, m->sum.value, m->sum_name);

    e->ended = true;
    m->reduce_token = 0;
    SIM_NOTIFY(c, sum_reduced, p, &r->view);
    if (r->broken) c->result->faults[GW_SIM_SPLIT_REDUCTION]++;
    gw_bad first;
    bool corrupt = c->hazards->damages_sum(c, p, r->step, &m->sum, &r->damaged), whole = covers(&m->sum),
         right = !corrupt && !m->sum.spoilt;
    gw_event event = {.kind = GW_EV_REDUCED,
                      .token = e->token,
                      .outcome = GW_DONE,
                      .reduced.coverage_ok = whole,
                      .reduced.fingerprint_ok = right,
                      .reduced.damaged = e->snapshot.spoilt,
                      .reduced.bad_count =
                          sim_bad_among(c->options, m->sum.step, m->sum.shards, m->sum.times, &first),
                      .reduced.slots = whole && right ? slots : NULL,
                      .reduced.check_table = r->table != NULL ? r->table : zeros};
    if (!whole) sim_trace(c, "peer %u: sum of step %" PRIu64 " does not cover", p->number, r->step);
    sim_event(c, p, &event);
}

static void done(sim_cluster *c, sim_peer *p, const sim_op *op) {
    sim_reduction *r = find(c, op->x, op->y);
    if (r == NULL || p->m.reduce_token != op->token) return;
    sim_entry *e = &r->entry[gw_view_rank(&r->view, &p->id)];
    if (e->ended || (r->broken && !e->lucky)) return;
    if (!e->lucky && !makes_progress(c, r)) {
        if (sim_now(c) - r->full_ns > STALL_MOST_NS) {
            sim_op stalled = *op;
            stalled.z = SIM_PEERS;
            r->broken = true;
            fail(c, p, &stalled);
        } else {
            sim_later(c, 10 * SIM_MS, op);
        }
        return;
    }
    succeed(c, p, r, e);
}

static void damaged(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (p->m.reduce_token != op->token) return;
    p->m.reduce_token = 0;
    gw_event event = {.kind = GW_EV_REDUCED,
                      .token = op->token,
                      .outcome = GW_FAILED,
                      .reduced.damaged = true,
                      .text = "the state has another fingerprint"};
    sim_event(c, p, &event);
}

/* A member that repeats a sum checks its own part first, and finds it wrong. */
static void part_is_wrong(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (p->m.reduce_token != op->token) return;
    p->m.reduce_token = 0;
    gw_event event = {.kind = GW_EV_REDUCED,
                      .token = op->token,
                      .outcome = GW_DONE,
                      .reduced.coverage_ok = true,
                      .reduced.damaged = true,
                      .text = "its own part"};
    sim_event(c, p, &event);
}

static void refuse_part(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_op op = sim_op_to(p, part_is_wrong);
    op.token = p->m.reduce_token = action->token;
    p->m.reduce_told_ns = sim_now(c) + SIM_MS;
    sim_later(c, SIM_MS, &op);
}

/* The flipped bit is found before any of the part is sent. */
static void refuse(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_op op = sim_op_to(p, damaged);
    op.token = p->m.reduce_token = action->token;
    sim_later(c, SIM_MS, &op);
}

/* Returns the member that an entry names: each of two that cannot exchange anything names the other, and
 * all name one that has ended (b is SIM_PEERS). */
static uint32_t failed_with(const sim_entry *e, uint32_t a, uint32_t b) {
    if (e->peer == a) return b;
    return e->peer == b || b == SIM_PEERS ? a : SIM_PEERS;
}

/* Breaks the reduction between the members a and b; a is SIM_PEERS where the cause is not known. */
static void break_reduction(sim_cluster *c, sim_reduction *r, uint32_t a, uint32_t b) {
    if (r->broken) return;
    r->broken = true;
    for (uint32_t i = 0; i < r->view.count; i++) {
        sim_entry *e = &r->entry[i];
        if (!e->entered || e->ended) continue;
        e->lucky = r->entered == r->view.count && sim_chance(c, 0.4);
        if (!e->lucky) fail_later(c, r, e, failed_with(e, a, b));
    }
}

void sim_hear_of_change(sim_cluster *c, sim_peer *p, uint32_t which, bool holds, bool in_sum,
                        gw_event *event) {
    SIM_NOTIFY(c, change_arrives, p, which, holds);
    if (event->kind == GW_EV_REDUCED)
        event->reduced.changed = true;
    else
        event->loaded.changed = true;
    event->text = "other bits than it had there";
    sim_event(c, p, event);
    SIM_NOTIFY(c, change_heard, p, which, in_sum);
}

static void deliver_changed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (p->m.reduce_token != op->token) return;
    sim_reduction *r = find(c, op->x, op->y);
    if (r != NULL) r->entry[gw_view_rank(&r->view, &p->id)].ended = true;
    p->m.reduce_token = 0;
    gw_event event = {.kind = GW_EV_REDUCED, .token = op->token, .outcome = GW_FAILED};
    memcpy(event.peer.bytes, op->bytes, sizeof event.peer.bytes);
    c->result->faults[GW_SIM_CHANGED_SUM]++;
    sim_hear_of_change(c, p, (uint32_t)op->z, true, true, &event);
}

static bool change_between(sim_cluster *c, sim_reduction *r, uint32_t from, uint32_t to) {
    uint32_t sender = r->entry[from].peer, receiver = r->entry[to].peer;
    if (!c->hazards->would_change(c, sender, receiver)) return false;
    sim_op op = op_of_entry(c, r, &r->entry[to], deliver_changed);
    op.bytes = c->peers[sender].id.bytes; /* its name at this time, even if it loses its disk later */
    op.length = sizeof c->peers[sender].id.bytes;
    op.z = c->hazards->changes(c, sender, receiver);
    sim_later(c, sim_between(c, SIM_MS / 10, 50 * SIM_MS), &op);
    r->broken = true;
    return true;
}

/* Changes bits in a ring, where each member receives from its left neighbour. */
static void change_in_ring(sim_cluster *c, sim_reduction *r, const uint32_t *ranks, bool *stuck) {
    for (uint32_t k = 0; k < r->view.count; k++) {
        uint32_t to = ranks[(k + 1) % r->view.count];
        stuck[to] = change_between(c, r, ranks[k], to);
    }
}

/* Changes bits in recursive doubling: a member that has seen changed bits goes no further, and neither do
 * members that wait for what it does not send (net/collective/doubling.c). */
static void change_in_pairs(sim_cluster *c, sim_reduction *r, const uint32_t *ranks, bool *stuck) {
    uint32_t last = gw_doubling_rounds(r->view.count) + 1;
    for (uint32_t stage = 0; stage <= last; stage++) {
        bool before[GW_MAX_MEMBERS];
        memcpy(before, stuck, sizeof before);
        for (uint32_t k = 0; k < r->view.count; k++) {
            uint32_t other = gw_doubling_partner(r->view.count, k, stage), to = ranks[k], from = ranks[other];
            bool receives = stage == 0 ? k % 2 == 1 : stage == last ? k % 2 == 0 : true;
            if (other == k || !receives || before[to]) continue;
            stuck[to] = before[from] || change_between(c, r, from, to);
        }
    }
}

/* Changes bits in a reduction. A member that received changed bits has no sum, and the others have none
 * before the view ends, except that with exact sums some may have had all they need
 * (net/collective/ring.c). */
static void change_bits(sim_cluster *c, sim_reduction *r) {
    uint32_t ranks[GW_MAX_MEMBERS];
    bool stuck[GW_MAX_MEMBERS] = {false};
    if (r->view.count == 1) return;
    gw_view_arrange(&r->view, r->arrangement, ranks);
    (sim_sums_are_small(c->options) ? change_in_pairs : change_in_ring)(c, r, ranks, stuck);
    for (uint32_t rank = 0; rank < r->view.count && r->broken; rank++)
        r->entry[rank].lucky = !stuck[rank] && !c->options->fast && sim_chance(c, 0.4);
}

void sim_reduce(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_memory *m = &p->m;
    if (m->flipped) {
        refuse(c, p, action);
        return;
    }
    const sim_sum *a = &m->accumulator;
    int rank = m->fence.epoch == 0 ? -1 : gw_view_rank_of_life(&m->fence, &p->id, p->boot, p->nonce);
    if (rank < 0 || m->reduce_token != 0 || !a->there || a->step != action->step) {
        sim_violation(c, "peer %u reduces step %" PRIu64 " outside a view, twice, or of another step",
                      p->number, action->step);
        return;
    }
    SIM_NOTIFY(c, sum_entered, p);
    c->hazards->touches_part(c, p);
    bool again = m->tried == action->step + 1;
    m->tried = action->step + 1;
    if (again && a->spoilt) {
        refuse_part(c, p, action);
        return;
    }
    sim_reduction *r = find(c, front_of(&m->fence.name), action->step);
    if (r == NULL) {
        r = open_reduction(c, &m->fence, action->step);
        r->arrangement = action->reduce.arrangement;
        for (uint32_t i = 0; i < r->view.count; i++) {
            const sim_peer *member = sim_by_id(c, &r->view.members[i].id);
            r->entry[i].peer = member != NULL ? member->number : SIM_PEERS; /* such a member never enters */
        }
    }
    if (r->arrangement != action->reduce.arrangement)
        sim_violation(c, "peer %u enters the reduction of step %" PRIu64 " in another order than others",
                      p->number, r->step);
    sim_entry *e = &r->entry[rank];
    if (e->entered) {
        sim_violation(c, "peer %u enters the reduction of step %" PRIu64 " twice in one view", p->number,
                      r->step);
        return;
    }
    uint32_t parted = sim_parted_from(c, &r->view, p->number);
    if (parted != SIM_PEERS) break_reduction(c, r, p->number, parted);
    *e = (sim_entry){.entered = true,
                     .peer = p->number,
                     .life = p->boot,
                     .token = action->token,
                     .snapshot = sim_sum_copy(a)};
    memcpy(e->row, action->reduce.slots, sizeof e->row);
    if (action->reduce.check_table != NULL) {
        e->table = new_table();
        memcpy(e->table, action->reduce.check_table, GW_VERIFY_TABLE * sizeof *e->table);
    }
    m->reduce_token = action->token;
    r->entered++;
    if (r->broken) {
        fail_later(c, r, e, parted);
        return;
    }
    if (r->entered < r->view.count) return;
    r->full_ns = sim_now(c);
    change_bits(c, r);
    for (uint32_t i = 0; i < r->view.count; i++) {
        const sim_op op = op_of_entry(c, r, &r->entry[i], done);
        sim_later(c, sim_between(c, SIM_MS, 4 * SIM_MS), &op);
    }
}

void sim_reduce_hurt(sim_cluster *c, uint32_t a, int b) {
    for (uint32_t i = 0; i < c->reduction_count; i++) {
        sim_reduction *r = c->reductions[i];
        if (gw_view_rank_of_life(&r->view, &c->peers[a].id, c->peers[a].boot, c->peers[a].nonce) < 0)
            continue;
        if (b >= 0 && (gw_view_rank(&r->view, &c->peers[b].id) < 0 || !sim_chance(c, 0.6))) continue;
        break_reduction(c, r, a, b >= 0 ? (uint32_t)b : SIM_PEERS);
    }
}

static void aborted(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (p->m.reduce_token != op->token) return; /* the reduction failed before the abort arrived */
    sim_reduction *r = find(c, op->x, op->y);
    if (op->z != 0 && r != NULL) { /* the last piece had arrived just before */
        succeed(c, p, r, &r->entry[gw_view_rank(&r->view, &p->id)]);
        return;
    }
    p->m.reduce_token = 0; /* the reduction itself may be freed by now, if all its members have ended */
    gw_event event = {.kind = GW_EV_REDUCED, .token = op->token, .outcome = GW_ABORTED, .text = "aborted"};
    sim_event(c, p, &event);
}

void sim_reduce_abort(sim_cluster *c, sim_peer *p) {
    for (uint32_t i = 0; i < c->reduction_count && p->m.reduce_token != 0; i++) {
        sim_reduction *r = c->reductions[i];
        int rank = gw_view_rank_of_life(&r->view, &p->id, p->boot, p->nonce);
        if (rank < 0 || !r->entry[rank].entered || r->entry[rank].token != p->m.reduce_token) continue;
        sim_op op = sim_op_to(p, aborted);
        op.token = p->m.reduce_token;
        op.x = front_of(&r->view.name);
        op.y = r->step;
        bool complete = r->entered == r->view.count && (!r->broken || r->entry[rank].lucky);
        op.z = complete && sim_chance(c, 0.3);
        uint64_t delay_ns = sim_between(c, 1000, SIM_MS);
        p->m.reduce_told_ns = sim_now(c) + delay_ns;
        sim_later(c, delay_ns, &op);
        r->entry[rank].ended = true;
        break_reduction(c, r, SIM_PEERS, SIM_PEERS);
    }
}

/* Applying. */

/* The flipped bit is found when the state is read. */
static void apply_damaged(sim_cluster *c, sim_peer *p, const sim_op *op) {
    p->m.has_state = false;
    gw_event event = {.kind = GW_EV_APPLIED,
                      .token = op->token,
                      .outcome = GW_FAILED,
                      .applied.damaged = true,
                      .text = "the state has another fingerprint"};
    sim_event(c, p, &event);
}

static void apply_failed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {
        .kind = GW_EV_APPLIED, .token = op->token, .outcome = GW_FAILED, .text = "the device failed"};
    sim_event(c, p, &event);
}

static void applied(sim_cluster *c, sim_peer *p, const sim_op *op) {
    sim_memory *m = &p->m;
    uint64_t parent = m->state;
    m->applying = false;
    if (m->flipped && op->x != 0) {
        apply_damaged(c, p, op);
        return;
    }
    if (c->hazards->refuses(c, p, GW_SIM_FAILED_UPDATE)) {
        apply_failed(c, p, op);
        return;
    }
    m->state = sim_next_state(m->state,
                              op->y ? sim_sum_of_view(c->options, SIM_SKIPPED, m->sum_name) : m->sum.value);
    m->step++;
    c->result->steps_applied++;
    SIM_NOTIFY(c, step_applied, p, parent);
    gw_event event = {.kind = GW_EV_APPLIED,
                      .token = op->token,
                      .outcome = GW_DONE,
                      .applied.fingerprint = sim_fingerprint(m->state),
                      .applied.stop = m->step == sim_own_end(c->options)};
    event.applied.evaluated = sim_evaluates(c->options, m->step - 1, &event.applied.value);
    sim_event(c, p, &event);
}

void sim_apply(sim_cluster *c, sim_peer *p, const gw_action *action) {
    SIM_NOTIFY(c, step_applies, p, action->step, action->apply.skip_update);
    if (c->result->failed) return;
    p->m.applying = true;
    sim_op op = sim_op_to(p, applied);
    op.token = action->token;
    op.x = action->apply.check_state;
    op.y = action->apply.skip_update;
    sim_later(c, sim_between(c, SIM_MS / 5, 2 * SIM_MS), &op);
}
