/* Promise: views for newcomers do not follow one another without end. A few may admit no peer, because the
 * newcomers die or cannot be reached meanwhile; but an endless series would keep all peers from their
 * work. */
#include "tools/sim/judge/judge.h"

#include "core/brain/message.h"

#include <inttypes.h>
#include <string.h>

static void on_sent(void *context, sim_peer *p, const sim_peer *to, const uint8_t *bytes, size_t length) {
    struct sim_admission *own = &((sim_judges *)context)->views.of[p->number];
    if (to != NULL && length > 1 && bytes[1] == GW_MSG_PROPOSE)
        own->proposed_others |= own->viewed[to->number] == 0;
}

/* Counts successive views for newcomers that admitted none. A view counts as admitting where it has a new
 * member, or was first proposed with one. */
static void on_announced(void *context, sim_peer *p, const gw_view *view, const char *cause) {
    enum { MOST = 5 };
    sim_judges *j = context;
    struct sim_admission *own = &j->views.of[p->number];
    bool leads = gw_peer_id_equal(&view->leader, &p->id), in_vain = leads && !own->proposed_others;
    in_vain &= strncmp(cause, "newcomers", strlen("newcomers")) == 0 && own->step == p->m.step;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *q = &j->c->peers[i];
        uint64_t life = gw_view_rank_of_life(view, &q->id, q->boot, q->nonce) >= 0 ? q->boot : 0;
        in_vain &= life == own->viewed[i];
        own->viewed[i] = life;
    }
    own->in_vain = in_vain ? own->in_vain + 1 : 0;
    own->step = p->m.step;
    own->proposed_others = false;
    if (own->in_vain >= MOST)
        sim_violation(j->c, "peer %u leads view %" PRIu64 ", and %d views for newcomers have admitted nobody",
                      p->number, view->epoch, MOST);
}

static void forget(void *context, sim_peer *p) {
    ((sim_judges *)context)->views.of[p->number] = (struct sim_admission){.step = 0};
}

const sim_observer sim_views_observer = {
    .message_sent = on_sent, .view_announced = on_announced, .life_begins = forget, .process_ends = forget};
