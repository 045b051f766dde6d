/* Promise: a life of which people are told that it is proven to have ended does not run. */
#include "tools/sim/judge/judge.h"

#include <inttypes.h>

static bool runs(const sim_peer *peer, const gw_incarnation *life) {
    return peer != NULL && peer->brain != NULL && !peer->finished && peer->boot == life->boot &&
           peer->nonce == life->nonce;
}

static void on_told(void *context, sim_peer *p, const gw_action *notice) {
    const sim_judges *j = context;
    const sim_peer *of = sim_by_id(j->c, &notice->peer);
    const gw_incarnation *life = &notice->notice.death.life;
    if (notice->notice.death.proven && runs(of, life))
        sim_violation(j->c,
                      "peer %u tells that life %" PRIu64 " of peer %u is proven to have ended, and it runs",
                      p->number, life->boot, of->number);
}

const sim_observer sim_told_deaths_observer = {.death_told = on_told};
