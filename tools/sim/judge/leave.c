/* Whoever is asked to leave, and what it must not take with it. */
#include "tools/sim/world/cluster.h"

#define LEAVE_NS (10000 * SIM_MS) /* it waits for so long at least (core/brain/save/leave.c) */
#define NEWS_NS  (20000 * SIM_MS) /* who dies is taken for alive for so long at most */

/* In some runs those who all leave wait for longer than who leaves others behind. */
uint64_t sim_save_timeout_ns(const gw_sim_options *options) {
    bool patient = options->leave_ms != 0 && sim_lot(options, 0x1eaf) % 2 == 0;
    return (patient ? 40000 : 2000) * SIM_MS;
}

void sim_asked_to_leave(const sim_cluster *c, sim_peer *p) {
    gw_peer_status status;
    if (p->asked_to_leave) return;
    gw_peer_status_get(p->brain, &status);
    p->asked_to_leave = true;
    p->leave_ns = sim_now(c);
    p->leave_step = status.step;
}

/* Another member goes on from there, or did a moment ago. */
static bool others_have(const sim_cluster *c, const sim_peer *p, const gw_view *view, uint64_t step) {
    bool any = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *q = &c->peers[i];
        if (q == p) continue;
        any |= sim_runs(q) && q->m.has_state && q->m.step >= step;
        bool lately = q->ended_ns != 0 && sim_now(c) < q->ended_ns + NEWS_NS;
        any |= gw_view_rank(view, &q->id) >= 0 && (lately || q->m.found_wrong > 0);
    }
    return any;
}

/* Before its time is up nobody leaves whose work is lost with it: it is saved, or others have it. Of those
 * who all leave the state of the step in which they were told to is, and of the last one what it has made at
 * last. */
bool sim_leaves_rightly(const sim_cluster *c, const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    if (!p->asked_to_leave) return false;
    uint64_t patience_ns = sim_save_timeout_ns(c->options);
    if (patience_ns < LEAVE_NS) patience_ns = LEAVE_NS;
    bool late = sim_now(c) >= p->leave_ns + patience_ns / 10 * 8; /* clocks differ */
    bool worthless = !p->m.has_state || p->m.flipped;
    if (status.view == NULL || worthless || late || c->options->jump_ms != 0) return true;
    uint64_t step = status.view->count == 1 ? status.step : p->leave_step;
    bool saved = status.checkpoint_step != UINT64_MAX && status.checkpoint_step >= step;
    return saved || others_have(c, p, status.view, step);
}
