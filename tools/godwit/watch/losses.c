#include "tools/godwit/watch/losses.h"

static void mark(gw_losses *losses) {
    losses->since_ns = losses->looked_ns;
    losses->since_probes = losses->probes;
    losses->since_failed = losses->failed;
}

bool gw_losses_look(gw_losses *losses, uint64_t now_ns, uint64_t probes, uint64_t failed,
                    gw_losses_news *news) {
    bool first = losses->looked_ns == 0;
    if (!first && now_ns - losses->looked_ns < GW_LOSSES_LOOK_NS) return false;
    uint64_t more_failed = failed - losses->failed, more = probes - losses->probes;
    bool bad = !first && more_failed >= GW_LOSSES_LEAST && more_failed * GW_LOSSES_PART >= more;
    losses->looked_ns = now_ns;
    losses->probes = probes;
    losses->failed = failed;
    if (!bad) {
        losses->row = 0;
        mark(losses);
        return false;
    }
    if (losses->row++ % GW_LOSSES_REPEATED != 0) return false;
    *news = (gw_losses_news){.probes = probes - losses->since_probes,
                             .failed = failed - losses->since_failed,
                             .over_ns = now_ns - losses->since_ns};
    mark(losses);
    return true;
}
