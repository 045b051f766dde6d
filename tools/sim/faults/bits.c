/* Silent corruption: one peer whose contributions are sometimes wrong, bits that flip in states, parts and
 * sums, and machines that change bits of what they send or receive. Only chosen shards are made wrong, and
 * not while the peer is alone: a wrong shard that no other peer computes again cannot be found. */
#include "tools/sim/faults/inside.h"

#include "core/base/assert.h"

#include <inttypes.h>

enum { DAMAGES_OF_A_STEP = 2 }; /* by design, a third damaged sum of one step stops the job */

uint64_t sim_hazard_computes(sim_cluster *c, const sim_peer *p, uint32_t shard) {
    const sim_memory *m = &p->m;
    uint64_t value = sim_contribution(m->state, m->step, shard);
    if (c->calm || p->number != sim_faulty_machine(c->options) || m->fence.count < 2) return value;
    if (!gw_verify_is_chosen(m->chosen, m->chosen_count, shard)) return value;
    if (!sim_chance(c, c->options->wrong_permille / 1000.0)) return value;
    c->result->faults[GW_SIM_WRONG]++;
    SIM_NOTIFY(c, bits_wrong, &c->peers[p->number], SIM_WRONG_SHARD);
    sim_trace(c, "peer %u computes shard %u of step %" PRIu64 " wrong", p->number, shard, m->step);
    return value ^ UINT64_C(1) << sim_between(c, 0, 63);
}

/* Whether another member holds an intact copy of the state. One that changed in the memory of all members
 * would be lost, and the job with it. */
static bool others_have_it(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *q = &c->peers[i];
        if (q != p && sim_runs(q) && q->m.has_state && !q->m.flipped && q->m.step == p->m.step &&
            gw_view_name_equal(&q->m.fence.name, &p->m.fence.name))
            return true;
    }
    return false;
}

static void flip(sim_cluster *c, sim_peer *p) {
    c->result->faults[GW_SIM_FLIP]++;
    SIM_NOTIFY(c, bits_wrong, p, SIM_WRONG_STATE);
    p->m.flipped = true;
    p->m.unflipped = p->m.state;
    p->m.state ^= UINT64_C(1) << sim_between(c, 0, 63);
    sim_trace(c, "a bit of peer %u's state flips", p->number);
}

/* Effects of the previous step read the state without a look, so they take place before the bit flips. */
void sim_flip(sim_cluster *c) {
    sim_peer *p = &c->peers[sim_between(c, 0, c->count - 1)];
    if (!sim_runs(p) || !p->m.has_state || p->m.flipped || !others_have_it(c, p)) return;
    sim_commit_settle(c, p);
    flip(c, p);
}

/* A part changes only in a step whose sums have not failed so far. It counts as two damaged sums, because
 * it may make two fail: other members may see it first. */
void sim_hazard_touches_part(sim_cluster *c, sim_peer *p) {
    sim_sum *part = &p->m.accumulator;
    uint32_t *damages = &sim_faults_of(c)->damages[part->step];
    if (c->calm || c->options->part_permille == 0 || *damages != 0) return;
    if (!sim_chance(c, c->options->part_permille / 1000.0)) return;
    *damages = DAMAGES_OF_A_STEP;
    c->result->faults[GW_SIM_SPOILT_PART]++;
    SIM_NOTIFY(c, bits_wrong, p, SIM_WRONG_PART);
    part->spoilt = true;
    part->value ^= UINT64_C(1) << sim_between(c, 0, 63);
    sim_trace(c, "a bit of what peer %u has added up to step %" PRIu64 " flips", p->number, part->step);
}

static bool may_damage(sim_cluster *c, uint64_t step, bool *damaged) {
    uint32_t *damages = &sim_faults_of(c)->damages[step];
    if (*damaged) return true;
    if (*damages == DAMAGES_OF_A_STEP) return false;
    ++*damages;
    return *damaged = true;
}

/* The flipped bit would show in the state if the sum were applied. */
bool sim_hazard_damages_sum(sim_cluster *c, sim_peer *p, uint64_t step, sim_sum *sum, bool *damaged) {
    bool flips = !c->calm && sim_chance(c, c->options->corrupt_permille / 1000.0);
    if (!flips || !may_damage(c, step, damaged)) return false;
    c->result->faults[GW_SIM_DAMAGED_SUM]++;
    sum->value ^= UINT64_C(1) << gw_mix64(sum->value) % 64;
    sim_trace(c, "a bit of peer %u's sum of step %" PRIu64 " flips", p->number, step);
    return true;
}

/* Bits that change as they travel. */

static uint32_t draw_times(sim_cluster *c) {
    double lot = gw_rng_unit(&c->rng);
    uint32_t some = (uint32_t)sim_between(c, 3, 6);
    return lot < 0.35 ? 1 : lot < 0.65 ? 2 : lot < 0.85 ? some : SIM_UNTIL_IT_ENDS;
}

void sim_begin_to_change(sim_cluster *c) {
    sim_peer *p = &c->peers[sim_between(c, 0, c->count - 1)];
    bool received = sim_chance(c, 0.5), both = sim_lot(c->options, sim_now(c)) % 3 == 0;
    uint32_t times = draw_times(c);
    if (!sim_runs(p) || p->changes != 0) return;
    c->result->faults[GW_SIM_CHANGING_MACHINE]++;
    p->changes = times;
    p->changes_received = received || both;
    p->changes_sent = !received || both;
    sim_trace(c, "peer %u changes bits of what it %s from now on, %u times", p->number,
              both       ? "sends and receives"
              : received ? "receives"
                         : "sends",
              times);
}

static sim_peer *at_fault(sim_cluster *c, uint32_t from, uint32_t to) {
    sim_peer *sender = &c->peers[from], *receiver = &c->peers[to];
    if (receiver->changes != 0 && receiver->changes_received) return receiver;
    return sender->changes != 0 && sender->changes_sent ? sender : NULL;
}

bool sim_hazard_would_change(sim_cluster *c, uint32_t from, uint32_t to) {
    return !c->calm && at_fault(c, from, to) != NULL;
}

uint32_t sim_hazard_changes(sim_cluster *c, uint32_t from, uint32_t to) {
    sim_peer *whose = at_fault(c, from, to);
    GW_ASSERT(whose != NULL);
    if (whose->changes != SIM_UNTIL_IT_ENDS) whose->changes--;
    SIM_NOTIFY(c, bits_changed, &(sim_changed_bits){from, to, whose->number});
    sim_trace(c, "bits change between peer %u and peer %u, in the memory of %u", from, to, whose->number);
    return sim_faults_of(c)->changes++;
}
