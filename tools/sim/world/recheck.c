/* The checks that find silent corruption, as the node has them: chosen shards that are computed twice, a
 * shard that is computed again after a dispute, and looks at the state in memory. */
#include "tools/sim/world/inside.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <string.h>

static bool is_dealt(const gw_action *deal, uint32_t shard) {
    return deal->deal.list == NULL || gw_set_has(deal->deal.list, shard);
}

void sim_recheck_deal(sim_peer *p, const gw_action *deal) {
    sim_memory *m = &p->m;
    uint32_t positions[GW_VERIFY_MOST];
    m->next_first = m->next_again = 0;
    m->part = (gw_verify_part){.first_count = 0};
    m->chosen_count = deal->deal.chosen_count;
    if (deal->deal.chosen_count == 0) return;
    memcpy(m->chosen, deal->deal.chosen, deal->deal.chosen_count * sizeof m->chosen[0]);
    for (uint32_t i = 0; i < deal->deal.chosen_count; i++) {
        positions[i] = is_dealt(deal, m->chosen[i]) ? m->chosen[i] : GW_VERIFY_HELD;
        for (uint32_t at = 0; at < m->listed; at++)
            if (m->list[at] == m->chosen[i]) positions[i] = at;
    }
    gw_verify_divide(m->chosen, positions, m->chosen_count, deal->deal.cuts, deal->deal.members,
                     deal->deal.rank, m->accumulator.step, m->checks, m->check_count, &m->part);
}

void sim_recheck_keep(sim_peer *p, const sim_worker *worker, uint64_t value) {
    sim_memory *m = &p->m;
    if (!gw_verify_is_chosen(m->chosen, m->chosen_count, worker->shard)) return;
    for (uint32_t i = 0; i < m->check_count; i++)
        if (m->checks[i].shard == worker->shard && m->checks[i].again == worker->again) return;
    GW_ASSERT(m->check_count < 2 * GW_VERIFY_MOST);
    m->checks[m->check_count++] =
        (gw_recheck){.shard = worker->shard, .again = worker->again, .fingerprint = value};
}

static void probed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_PROBED,
                      .token = op->token,
                      .outcome = op->y != 0 ? GW_ABORTED : GW_DONE,
                      .probed.fingerprint = op->x};
    if (op->y != 0) event.text = "its payload is gone";
    if (op->z != 0) {
        event.outcome = GW_FAILED;
        event.text = "out of memory";
        SIM_NOTIFY(c, mishap, p, SIM_GAVE_UP_SHARD);
    }
    sim_event(c, p, &event);
    p->m.probing = 0;
}

void sim_probe(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_op op = sim_op_to(p, probed);
    if (p->m.step != action->step)
        sim_violation(c, "peer %u probes step %" PRIu64 " from the state of step %" PRIu64, p->number,
                      action->step, p->m.step);
    c->result->disputes++;
    p->m.probing = action->probe.shard + 1;
    op.token = action->token;
    op.y = c->hazards->loses_payload(c, p, action->probe.shard);
    op.x = op.y != 0 ? 0 : c->hazards->computes(c, p, action->probe.shard);
    op.z = op.y == 0 && c->hazards->fails_probe(c, p, action->step);
    sim_later(c, sim_between(c, SIM_MS, 20 * SIM_MS), &op);
}

static void looked(sim_cluster *c, sim_peer *p, const sim_op *op) {
    bool failed = c->hazards->refuses(c, p, GW_SIM_FAILED_LOOK), damaged = !failed && p->m.flipped;
    gw_event event = {.kind = GW_EV_LOOKED,
                      .token = op->token,
                      .outcome = failed || damaged ? GW_FAILED : GW_DONE,
                      .looked.damaged = damaged,
                      .text = failed    ? "the device failed"
                              : damaged ? "the state has another fingerprint"
                                        : NULL};
    sim_event(c, p, &event);
}

void sim_look(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_op op = sim_op_to(p, looked);
    op.token = action->token;
    sim_later(c, sim_between(c, SIM_MS / 10, 5 * SIM_MS), &op);
}

uint64_t sim_made_state(const sim_peer *p) {
    return p->m.flipped ? p->m.unflipped : p->m.state;
}
