#include "net/rdma/pause.h"

#include "core/base/log.h"

#include <stdbool.h>

uint64_t gw_rdma_pause_begin(gw_rdma_pause *pause, const gw_peer_id *peer, const gw_err *why,
                             const char *meanwhile) {
    char id[GW_SHORT_TEXT];
    bool news = pause->ns == 0;
    pause->ns = news ? GW_RDMA_PAUSE_NS : 2 * pause->ns;
    if (pause->ns > GW_RDMA_LONGEST_PAUSE_NS) pause->ns = GW_RDMA_LONGEST_PAUSE_NS;
    gw_log(news ? GW_WARN : GW_DEBUG, "net/rdma", "%s: with peer %s %s; the next try is in %llu s", why->text,
           gw_peer_id_short(peer, id), meanwhile, (unsigned long long)(pause->ns / 1000000000u));
    return pause->ns;
}

void gw_rdma_pause_end(gw_rdma_pause *pause, const gw_peer_id *peer, const char *again) {
    char id[GW_SHORT_TEXT];
    if (pause->ns == 0) return;
    pause->ns = 0;
    gw_log(GW_INFO, "net/rdma", "with peer %s %s", gw_peer_id_short(peer, id), again);
}
