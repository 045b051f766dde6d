/* Data links, which may be gone while control links stand: their ends cannot read each other's range
 * words, fetch from each other, or sum together, and their brains are told so. The path of sums may be
 * lost even while the data link stands: a peer that sums then hears that the sum failed, and with which
 * member. */
#include "tools/sim/world/inside.h"

static int side_of(uint32_t peer, uint32_t other) {
    return peer < other ? 0 : 1;
}

bool sim_data_lost(sim_cluster *c, uint32_t a, uint32_t b) {
    return a != b && sim_now(c) < sim_link_of(c, a, b)->data_lost_until_ns;
}

bool sim_path_lost(sim_cluster *c, uint32_t a, uint32_t b) {
    return a != b && sim_now(c) < sim_link_of(c, a, b)->path_lost_until_ns;
}

uint32_t sim_parted_from(sim_cluster *c, const gw_view *view, uint32_t a) {
    for (uint32_t i = 0; i < view->count; i++) {
        const sim_peer *other = sim_by_id(c, &view->members[i].id);
        if (other == NULL) continue;
        if (sim_data_lost(c, a, other->number) || sim_path_lost(c, a, other->number)) return other->number;
    }
    return SIM_PEERS;
}

/* Tells the peer's brain the state of the data link, unless it knows. */
static void tell(sim_cluster *c, sim_peer *p, uint32_t other) {
    sim_link *link = sim_link_of(c, p->number, other);
    int side = side_of(p->number, other);
    bool lost = sim_data_lost(c, p->number, other);
    if (!link->up || !link->told[side] || p->brain == NULL || p->finished || link->data_told[side] == lost)
        return;
    link->data_told[side] = lost;
    gw_event event = {.kind = lost ? GW_EV_DATA_DOWN : GW_EV_DATA_UP,
                      .peer = c->peers[other].id,
                      .data_down.own_fault = lost && link->data_fault[side],
                      .text = "it is gone"};
    sim_event(c, p, &event);
}

/* The brain on this side may belong to a new life, which knows nothing yet. */
void sim_data_tell_anew(sim_cluster *c, sim_peer *p, uint32_t other) {
    sim_link *link = sim_link_of(c, p->number, other);
    bool *told = &link->data_told[side_of(p->number, other)], lost = sim_data_lost(c, p->number, other);
    if (!lost && !*told) return;
    *told = !lost;
    tell(c, p, other);
}

static void tell_both(sim_cluster *c, uint32_t a, uint32_t b) {
    tell(c, &c->peers[a], b);
    tell(c, &c->peers[b], a);
}

static void come_back(void *context, const gw_sim_event *event) {
    sim_cluster *c = context;
    uint32_t a = (uint32_t)event->a, b = (uint32_t)event->b;
    if (!sim_data_lost(c, a, b)) tell_both(c, a, b);
}

void sim_data_lose(sim_cluster *c, uint32_t a, uint32_t b, uint64_t for_ns, bool fault_of_a) {
    sim_link *link = sim_link_of(c, a, b);
    sim_trace(c, "the data link of %u and %u is gone", a, b);
    link->data_lost_until_ns = sim_now(c) + for_ns;
    link->data_fault[side_of(a, b)] = fault_of_a;
    link->data_fault[side_of(b, a)] = false;
    sim_reduce_hurt(c, a, (int)b);
    sim_work_broken(c, &c->peers[a], b);
    sim_work_broken(c, &c->peers[b], a);
    tell_both(c, a, b);
    gw_sim_event event = {.run = come_back, .context = c, .a = a, .b = b};
    gw_sim_schedule(c->engine, link->data_lost_until_ns + 1, &event);
}

void sim_path_lose(sim_cluster *c, uint32_t a, uint32_t b, uint64_t for_ns) {
    sim_trace(c, "no sums pass between %u and %u", a, b);
    sim_link_of(c, a, b)->path_lost_until_ns = sim_now(c) + for_ns;
    sim_reduce_hurt(c, a, (int)b);
}

void sim_data_mend(sim_cluster *c) {
    for (uint32_t a = 0; a < c->count; a++)
        for (uint32_t b = a + 1; b < c->count; b++) {
            sim_link_of(c, a, b)->path_lost_until_ns = 0;
            if (!sim_data_lost(c, a, b)) continue;
            sim_link_of(c, a, b)->data_lost_until_ns = 0;
            tell_both(c, a, b);
        }
}
