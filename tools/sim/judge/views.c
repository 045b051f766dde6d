/* Views for newcomers: whether anybody is admitted. */
#include "tools/sim/world/cluster.h"

#include "core/brain/message.h"

#include <inttypes.h>
#include <string.h>

void sim_note_proposal(sim_peer *p, const sim_peer *to, const gw_action *message) {
    if (message->bytes[1] == GW_MSG_PROPOSE) p->m.proposed_others |= p->m.viewed[to->number] == 0;
}

/* A view for newcomers has somebody new in it, or was proposed with somebody first. One may die or be out of
 * reach meanwhile, so not every time; but views that only follow one another keep all others from what they
 * are at. */
void sim_check_admits(sim_cluster *c, sim_peer *p, const gw_view *view, const char *cause) {
    enum { MOST = 5 };
    sim_memory *m = &p->m;
    bool leads = gw_peer_id_equal(&view->leader, &p->id), in_vain = leads && !m->proposed_others;
    in_vain &= strncmp(cause, "newcomers", strlen("newcomers")) == 0 && m->viewed_step == m->step;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *q = &c->peers[i];
        uint64_t life = gw_view_rank_of_life(view, &q->id, q->boot, q->nonce) >= 0 ? q->boot : 0;
        in_vain &= life == m->viewed[i];
        m->viewed[i] = life;
    }
    m->admitted_nobody = in_vain ? m->admitted_nobody + 1 : 0;
    m->viewed_step = m->step;
    m->proposed_others = false;
    if (m->admitted_nobody >= MOST)
        sim_violation(c, "peer %u leads view %" PRIu64 ", and %d views for newcomers have admitted nobody",
                      p->number, view->epoch, MOST);
}
