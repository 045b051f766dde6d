#include "core/brain/self.h"

#include "core/brain/state.h"

uint64_t gw_peer_ms(const gw_peer *p, uint64_t milliseconds) {
    return milliseconds * GW_MS * p->config.time_scale_percent / 100;
}

int gw_peer_own_rank(const gw_peer *p) {
    return gw_view_rank(&p->view.current, &p->config.id);
}

bool gw_peer_is_leader(const gw_peer *p) {
    return p->view.current.epoch > 0 && gw_peer_id_equal(&p->view.current.leader, &p->config.id);
}

bool gw_peer_awaits_view(const gw_peer *p, const gw_peer_id *proposer, const gw_view_name *view) {
    return p->phase == GW_AT_FROZEN && gw_peer_id_equal(&p->view.voted.leader, proposer) &&
           gw_view_name_equal(&p->view.voted.name, view);
}
