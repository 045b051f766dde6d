/* Faults of shards, and of other operations of machines. */
#include "tools/sim/faults/inside.h"

#include "core/base/assert.h"

bool sim_hazard_loses_payload(sim_cluster *c, sim_peer *p, uint32_t shard) {
    enum { MOST_LOSSES = 2 }; /* losses in a step: a peer would not survive more */
    struct sim_payloads *own = &sim_faults_of(c)->payloads[p->number];
    uint64_t step = p->m.accumulator.step;
    if (c->calm || c->options->lose_permille == 0) return false;
    if (own->step != step) own->lost = 0;
    if (own->lost == MOST_LOSSES || !sim_chance(c, c->options->lose_permille / 1000.0)) return false;
    own->step = step;
    own->lost++;
    c->result->faults[GW_SIM_LOST_CLAIM]++;
    sim_trace(c, "peer %u cannot have what shard %u needs", p->number, shard);
    return true;
}

static void give_up(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_worker *worker = &p->m.workers[op->x];
    if (!worker->busy || worker->turn != op->y) return; /* cancelled */
    gw_event event = {
        .kind = GW_EV_SHARD_FAILED, .shard_failed.shard = worker->shard, .text = "out of memory"};
    SIM_NOTIFY(c, mishap, p, SIM_GAVE_UP_SHARD);
    sim_event(c, p, &event);
}

/* The worker has added a part of its shard. */
static void tear(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_worker *worker = &p->m.workers[op->x];
    if (!worker->busy || worker->turn != op->y) return; /* cancelled */
    c->result->faults[GW_SIM_TORN_SHARD]++;
    sim_trace(c, "peer %u has added shard %u in part", p->number, worker->shard);
    p->m.accumulator.torn = true;
    p->m.accumulator.value ^= gw_mix64(op->y);
}

/* A worker that fails may have added a part of its shard, and may take long before it reports the failure,
 * but not so long that its peer would end in calm. Returns when it reports. */
static uint64_t maybe_tear(sim_cluster *c, sim_peer *p, const sim_op *fails, uint64_t in_ns) {
    enum { MOST_MS = 2000 };
    uint32_t permille = c->options->torn_permille;
    if (sim_now(c) + in_ns + MOST_MS * SIM_MS > sim_heal_ns(c)) return in_ns;
    if (permille == 0 || p->m.workers[fails->x].again || !sim_chance(c, permille / 1000.0)) return in_ns;
    sim_op op = *fails;
    op.handle = tear;
    sim_later(c, in_ns, &op);
    return in_ns + sim_between(c, 1, MOST_MS) * SIM_MS;
}

/* The worker reports after a while that it cannot compute its shard. By chance, fewer peers give up shards
 * of a step than would make one count as poison. */
bool sim_hazard_gives_up(sim_cluster *c, sim_peer *p, uint32_t w) {
    uint64_t step = p->m.accumulator.step;
    if (c->calm || c->options->fail_permille == 0 || sim_faults_of(c)->gave_up[step] == GW_POISON_DEATHS - 1)
        return false;
    if (!sim_chance(c, c->options->fail_permille / 1000.0)) return false;
    sim_faults_of(c)->gave_up[step]++;
    c->result->faults[GW_SIM_FAILED_SHARD]++;
    sim_trace(c, "peer %u cannot compute shard %u", p->number, p->m.workers[w].shard);
    sim_op op = sim_op_to(p, give_up);
    op.x = w;
    op.y = p->m.workers[w].turn;
    uint64_t in_ns = sim_between(c, 1000, 2 * (uint64_t)c->options->shard_us * 1000);
    sim_later(c, maybe_tear(c, p, &op, in_ns), &op);
    return true;
}

bool sim_hazard_refuses(sim_cluster *c, sim_peer *p, gw_sim_fault kind) {
    uint32_t permille = c->options->refuse_permille;
    if (c->calm || permille == 0 || !sim_chance(c, permille / 1000.0)) return false;
    c->result->faults[kind]++;
    sim_trace(c, "peer %u is refused something: %s", p->number, gw_sim_fault_name(kind));
    SIM_NOTIFY(c, mishap, p, SIM_WAS_REFUSED);
    return true;
}

/* By chance, fewer probes of a step fail than would make a shard of it count as poison. */
bool sim_hazard_fails_probe(sim_cluster *c, sim_peer *p, uint64_t step) {
    uint32_t *gave_up = &sim_faults_of(c)->gave_up[step];
    if (*gave_up == GW_POISON_DEATHS - 1 || !sim_hazard_refuses(c, p, GW_SIM_FAILED_PROBE)) return false;
    ++*gave_up;
    return true;
}

/* Whether a shard is the last one of the step whose last shard is poison. */
static bool is_poison(const sim_cluster *c, uint64_t step, uint32_t shard) {
    uint32_t poison = c->options->poison_step;
    return poison != 0 && step == poison && shard == sim_shards(c->options, step) - 1;
}

/* By chance, fewer worker processes end at the shards of a step, by something that may be the shard's fault,
 * than would make a shard poison, and all at one shard. */
static bool crashes_by_chance(sim_cluster *c, uint64_t step, uint32_t shard) {
    enum { MOST = GW_POISON_DEATHS - 1 };
    sim_worker_losses *crashed = &sim_faults_of(c)->crashed[step];
    double odds = c->options->worker_permille / 1000.0;
    bool again = crashed->count > 0 && crashed->shard == shard;
    if (crashed->count == MOST || (crashed->count > 0 && !again) || !sim_chance(c, again ? 0.5 : odds))
        return false;
    *crashed = (sim_worker_losses){shard, crashed->count + 1};
    return true;
}

bool sim_hazard_loses_worker(sim_cluster *c, sim_peer *p, uint32_t worker, gw_worker_loss *kind) {
    uint64_t step = p->m.accumulator.step;
    uint32_t shard = p->m.workers[worker].shard;
    if (c->options->worker_permille == 0) return false;
    bool poison = is_poison(c, step, shard);
    if (poison || (!c->calm && crashes_by_chance(c, step, shard)))
        *kind = sim_chance(c, 0.5) ? GW_WORKER_CRASHED : GW_WORKER_STARVED;
    else if (!c->calm && sim_chance(c, c->options->worker_permille / 1000.0))
        *kind = GW_WORKER_KILLED;
    else
        return false;
    c->result->faults[poison ? GW_SIM_POISON_DEATH : GW_SIM_LOST_WORKER]++;
    sim_trace(c, "peer %u loses a worker process at shard %u", p->number, shard);
    return true;
}

bool sim_hazard_drops_worker(sim_cluster *c, sim_peer *p) {
    (void)p;
    return c->options->worker_permille != 0 && sim_chance(c, 0.2);
}

/* A poison shard kills every peer that computes it, unless worker processes compute it. */
bool sim_hazard_dies_of(sim_cluster *c, sim_peer *p, uint32_t shard) {
    if (c->options->worker_permille != 0 || !is_poison(c, p->m.accumulator.step, shard)) return false;
    c->result->faults[GW_SIM_POISON_DEATH]++;
    sim_crash_and_restart(c, p);
    return true;
}

bool sim_hazard_loses_answer(sim_cluster *c, uint32_t thief, uint32_t victim) {
    if (c->calm || !sim_chance(c, c->options->unanswered_permille / 1000.0)) return false;
    c->result->faults[GW_SIM_LOST_ANSWER]++;
    sim_trace(c, "peer %u never hears what came of its steal from peer %u", thief, victim);
    return true;
}
