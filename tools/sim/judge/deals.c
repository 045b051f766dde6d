/* Promise: all members of a view deal a step alike, from the speeds and costs of the last sum. */
#include "tools/sim/judge/judge.h"

#include "core/base/mix.h"

#include <inttypes.h>
#include <string.h>

static uint64_t hash_of(const uint32_t *cuts, uint32_t count) {
    uint64_t hash = count;
    for (uint32_t i = 0; i <= count; i++) hash = gw_mix64(hash ^ cuts[i]);
    return hash;
}

static void on_dealt(void *context, sim_peer *p, const gw_action *deal) {
    sim_judges *j = context;
    sim_deals *d = &j->deals;
    const gw_view *view = &p->m.fence;
    uint64_t cuts = hash_of(deal->deal.cuts, view->count);
    if (view->epoch == 0) {
        sim_violation(j->c, "peer %u deals step %" PRIu64 " without a view", p->number, deal->step);
        return;
    }
    for (uint32_t i = 0; i < SIM_DEALS; i++) {
        const sim_deal *known = &d->list[i];
        if (known->step != deal->step || memcmp(&known->view, &view->name, sizeof view->name) != 0) continue;
        if (known->cuts != cuts)
            sim_violation(
                j->c, "peer %u deals step %" PRIu64 " of view %" PRIu64 " otherwise than a member before it",
                p->number, deal->step, view->epoch);
        return;
    }
    d->list[d->next++ % SIM_DEALS] = (sim_deal){.view = view->name, .step = deal->step, .cuts = cuts};
}

const sim_observer sim_deals_observer = {.dealt = on_dealt};
