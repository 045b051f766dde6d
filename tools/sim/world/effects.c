/* The job's effects of each step. They are carried out in order with reductions, applies and loads, and
 * are lost if a crash comes first. */
#include "tools/sim/world/inside.h"

#include <inttypes.h>

static void committed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_COMMITTED,
                      .token = op->token,
                      .outcome = op->x != 0 ? GW_FAILED : GW_DONE,
                      .text = op->x != 0 ? "no space left on device" : NULL};
    sim_event(c, p, &event);
}

static void carry_out(sim_cluster *c, sim_peer *p) {
    sim_memory *m = &p->m;
    sim_op op = sim_op_to(p, committed);
    op.token = m->commit_token;
    uint64_t step = m->commit_step;
    m->commit_token = 0;
    if (!m->has_state || m->step != step + 1) {
        sim_violation(c, "peer %u has effects of step %" PRIu64 " but is at step %" PRIu64, p->number, step,
                      m->step);
        return;
    }
    m->commit_failed = c->hazards->refuses(c, p, GW_SIM_FAILED_EFFECT);
    op.x = m->commit_failed;
    SIM_NOTIFY(c, effects_done, p, step, m->commit_failed);
    sim_later(c, 1000, &op);
}

static void when_due(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (p->m.commit_token == op->token) carry_out(c, p);
}

void sim_commit(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_commit_settle(c, p);
    p->m.commit_token = action->token;
    p->m.commit_step = action->step;
    sim_op op = sim_op_to(p, when_due);
    op.token = action->token;
    sim_later(c, sim_between(c, 1000, 20 * SIM_MS), &op);
}

void sim_commit_settle(sim_cluster *c, sim_peer *p) {
    if (p->m.commit_token != 0) carry_out(c, p);
}
