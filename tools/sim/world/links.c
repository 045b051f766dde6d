/* Control links, as the node has them: at most one between two peers, dialled by a peer that wants it.
 * Messages arrive in order and once while the link stands, and those in flight are lost when it breaks. A
 * cut of the network stalls messages (TCP sends them again) until it heals or the link breaks. */
#include "tools/sim/world/inside.h"

#include "core/base/assert.h"
#include "core/brain/message.h"

#include <string.h>

#define STALL_GRID_NS (20 * SIM_MS)   /* stalled messages are tried again at these instants, in order */
#define STALL_MOST_NS (1500 * SIM_MS) /* after this time the link breaks */
#define DIAL_FIRST_NS (10 * SIM_MS)
#define DIAL_MOST_NS  (1000 * SIM_MS)

sim_link *sim_link_of(sim_cluster *c, uint32_t a, uint32_t b) {
    GW_ASSERT(a != b && a < c->count && b < c->count);
    return a < b ? &c->links[a * c->count + b] : &c->links[b * c->count + a];
}

static int side_of(uint32_t peer, uint32_t other) {
    return peer < other ? 0 : 1;
}

bool sim_reaches_both(const sim_cluster *c, uint32_t a, uint32_t b) {
    return gw_sim_network_reaches(&c->network, a, b) && gw_sim_network_reaches(&c->network, b, a);
}

static void dial(sim_cluster *c, sim_peer *p, const sim_op *op);

static void plan_dial(sim_cluster *c, sim_peer *p, uint32_t other) {
    sim_link *link = sim_link_of(c, p->number, other);
    int side = side_of(p->number, other);
    if (link->dialling[side] || link->up || !p->wants[other] || p->brain == NULL) return;
    link->dialling[side] = true;
    uint64_t pause_ns = link->pause_ns[side];
    link->pause_ns[side] = pause_ns == 0                 ? DIAL_FIRST_NS
                           : pause_ns * 2 > DIAL_MOST_NS ? DIAL_MOST_NS
                                                         : pause_ns * 2;
    sim_op op = sim_op_to(p, dial);
    op.from = other;
    sim_later(c, pause_ns + sim_between(c, SIM_MS / 10, SIM_MS), &op);
}

/* Plans an operation on a side of a link, after everything that was planned for that side before. */
static void in_order(sim_cluster *c, sim_link *link, int side, uint64_t delay_ns, const sim_op *op) {
    uint64_t at_ns = sim_now(c) + delay_ns;
    if (at_ns < link->arrival_ns[side]) at_ns = link->arrival_ns[side];
    link->arrival_ns[side] = at_ns;
    sim_later(c, at_ns - sim_now(c), op);
}

static void told_up(sim_cluster *c, sim_peer *p, const sim_op *op) {
    sim_link *link = sim_link_of(c, p->number, op->from);
    if (!link->up || link->session != op->session) return;
    const sim_peer *other = &c->peers[op->from];
    link->told[side_of(p->number, op->from)] = true;
    link->pause_ns[side_of(p->number, op->from)] = 0;
    p->met[op->from] = other->boot;
    p->met_nonce[op->from] = other->nonce;
    gw_event event = {.kind = GW_EV_LINK_UP, .peer = other->id};
    event.link.incarnation = (gw_incarnation){.boot = other->boot, .nonce = other->nonce};
    sim_event(c, p, &event);
    sim_data_tell_anew(c, p, op->from);
}

static void told_down(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_peer *other = &c->peers[op->from];
    sim_work_broken(c, p, op->from);
    gw_event event = {.kind = GW_EV_LINK_DOWN, .peer = other->id, .link.end = (gw_link_end)op->x};
    event.link.incarnation = (gw_incarnation){.boot = p->met[op->from], .nonce = p->met_nonce[op->from]};
    sim_event(c, p, &event);
    plan_dial(c, p, op->from);
}

static void tell_down(sim_cluster *c, sim_peer *p, uint32_t other, gw_link_end end, uint64_t delay_ns) {
    sim_op op = sim_op_to(p, told_down);
    op.from = other;
    op.x = (uint64_t)end;
    in_order(c, sim_link_of(c, p->number, other), side_of(p->number, other), delay_ns, &op);
}

static void come_up(sim_cluster *c, sim_link *link, sim_peer *p, sim_peer *q) {
    *link = (sim_link){.up = true,
                       .session = link->session + 1,
                       .dialling = {link->dialling[0], link->dialling[1]},
                       .pause_ns = {link->pause_ns[0], link->pause_ns[1]},
                       .data_told = {link->data_told[0], link->data_told[1]},
                       .data_fault = {link->data_fault[0], link->data_fault[1]},
                       .data_lost_until_ns = link->data_lost_until_ns,
                       .arrival_ns = {link->arrival_ns[0], link->arrival_ns[1]}};
    sim_peer *ends[] = {p, q};
    for (int i = 0; i < 2; i++) {
        sim_op op = sim_op_to(ends[i], told_up);
        op.from = ends[1 - i]->number;
        op.session = link->session;
        in_order(c, link, side_of(ends[i]->number, op.from), gw_sim_network_delay_ns(&c->network), &op);
    }
}

static void dial(sim_cluster *c, sim_peer *p, const sim_op *op) {
    sim_peer *q = &c->peers[op->from];
    sim_link *link = sim_link_of(c, p->number, q->number);
    link->dialling[side_of(p->number, q->number)] = false;
    if (link->up || !p->wants[q->number] || p->finished) return;
    bool answers = sim_reaches_both(c, p->number, q->number) && !q->host_down;
    if (answers && q->brain == NULL) {
        tell_down(c, p, q->number, GW_LINK_REFUSED, gw_sim_network_delay_ns(&c->network));
    } else if (!answers || q->paused_until_ns > sim_now(c) || q->finished) {
        tell_down(c, p, q->number, GW_LINK_CLOSED, sim_between(c, 300 * SIM_MS, 1000 * SIM_MS));
    } else {
        come_up(c, link, p, q);
    }
}

static void dial_lost(sim_cluster *c, sim_peer *p, const sim_op *op);

static void plan_dial_lost(sim_cluster *c, sim_peer *p, uint32_t other, uint32_t disk, uint64_t delay_ns) {
    uint64_t bit = UINT64_C(1) << disk;
    if (p->dials[other] & bit) return;
    p->dials[other] |= bit;
    sim_op op = sim_op_to(p, dial_lost);
    op.from = other;
    op.x = disk;
    sim_later(c, delay_ns, &op);
}

/* Dials a name that was lost with its disk. Another peer answers at the address, which proves as much as a
 * refused connection (net/link/link.h). */
static void dial_lost(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_peer *q = &c->peers[op->from];
    uint64_t bit = UINT64_C(1) << op->x;
    p->dials[op->from] &= ~bit;
    if (p->finished || (p->seeks[op->from] & bit) == 0) return;
    plan_dial_lost(c, p, op->from, (uint32_t)op->x, DIAL_MOST_NS);
    bool silent = q->host_down || (q->brain != NULL && (q->finished || q->paused_until_ns > sim_now(c)));
    if (q != p && (silent || !sim_reaches_both(c, p->number, q->number))) return;
    gw_event event = {.kind = GW_EV_LINK_DOWN,
                      .peer = sim_name_with(op->from, (uint32_t)op->x),
                      .link.end = GW_LINK_REFUSED};
    sim_event(c, p, &event);
}

void sim_want_lost(sim_cluster *c, sim_peer *p, const gw_peer_id *id, bool wanted) {
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t disk = 0; disk < c->peers[i].disks && disk < 64; disk++) {
            const gw_peer_id name = sim_name_with(i, disk);
            uint64_t bit = UINT64_C(1) << disk;
            if (!gw_peer_id_equal(&name, id)) continue;
            p->seeks[i] = wanted ? p->seeks[i] | bit : p->seeks[i] & ~bit;
            if (wanted) plan_dial_lost(c, p, i, disk, DIAL_FIRST_NS);
            return;
        }
}

void sim_want(sim_cluster *c, sim_peer *p, uint32_t other, bool wanted) {
    sim_link *link = sim_link_of(c, p->number, other);
    p->wants[other] = wanted;
    if (wanted) {
        plan_dial(c, p, other);
        return;
    }
    /* A peer that drops a link is not told that it is down, and gets nothing more that was under way. */
    link->told[side_of(p->number, other)] = false;
    link->drains[side_of(p->number, other)] = false;
    sim_work_broken(c, p, other);
    sim_break(c, p->number, other);
}

void sim_break(sim_cluster *c, uint32_t a, uint32_t b) {
    sim_link *link = sim_link_of(c, a, b);
    if (!link->up) return;
    link->up = false;
    sim_reduce_hurt(c, a, (int)b);
    const uint32_t ends[] = {a, b};
    for (int i = 0; i < 2; i++) {
        sim_peer *p = &c->peers[ends[i]];
        int side = side_of(ends[i], ends[1 - i]);
        bool knew = link->told[side];
        link->told[side] = false;
        if (p->brain == NULL || p->finished) continue;
        if (knew)
            tell_down(c, p, ends[1 - i], GW_LINK_CLOSED, gw_sim_network_delay_ns(&c->network));
        else {
            sim_work_broken(c, p, ends[1 - i]);
            plan_dial(c, p, ends[1 - i]);
        }
    }
}

static void silent_break(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_link *link = sim_link_of(c, p->number, op->from);
    if (link->up && link->session == op->session) sim_break(c, p->number, op->from);
}

void sim_break_all(sim_cluster *c, sim_peer *p) {
    for (uint32_t other = 0; other < c->count; other++) {
        if (other == p->number) continue;
        sim_link *link = sim_link_of(c, p->number, other);
        link->told[side_of(p->number, other)] = false;
        link->dialling[side_of(p->number, other)] = false;
        link->pause_ns[side_of(p->number, other)] = 0;
        bool heard = !p->host_down && gw_sim_network_reaches(&c->network, p->number, other);
        if (heard || c->peers[other].brain == NULL) {
            bool drains = heard && link->up && !p->abrupt; /* the kernel still sends what the process wrote */
            sim_break(c, p->number, other);
            link->drains[side_of(other, p->number)] = drains;
        } else if (link->up) { /* no reset arrives: the others notice when nothing is acknowledged */
            sim_op op = sim_op_to(&c->peers[other], silent_break);
            op.from = p->number;
            op.session = link->session;
            sim_later(c, STALL_MOST_NS + sim_between(c, 0, 500 * SIM_MS), &op);
        }
    }
}

static void arrives(sim_cluster *c, sim_peer *p, const sim_op *op) {
    sim_link *link = sim_link_of(c, p->number, op->from);
    int side = side_of(p->number, op->from);
    bool stands = (link->up && link->told[side]) || link->drains[side]; /* the link is to this life */
    if (!stands || link->session != op->session || p->finished) return;
    /* The core was drawn from the promises made by then: a peer that is gone must not ask for further
     * promises. */
    if (c->options->majority && c->peers[op->from].gone) return;
    bool passes = gw_sim_network_reaches(&c->network, op->from, p->number) && link->taken[side] == op->x;
    if (!passes) {
        if (link->stalled_ns[side] == 0) link->stalled_ns[side] = sim_now(c);
        if (!link->up) return;
        if (sim_now(c) - link->stalled_ns[side] > STALL_MOST_NS) {
            sim_break(c, p->number, op->from);
            return;
        }
        uint64_t at_ns = (sim_now(c) / STALL_GRID_NS + 1) * STALL_GRID_NS;
        sim_later(c, at_ns - sim_now(c), op);
        return;
    }
    link->stalled_ns[side] = 0;
    link->taken[side]++;
    const sim_peer *from = &c->peers[op->from];
    uint8_t kind = op->length > 1 ? op->bytes[1] : 0;
    SIM_NOTIFY(c, message_arrives, p, from, kind);
    gw_event event = {
        .kind = GW_EV_MESSAGE, .peer = from->id, .message.bytes = op->bytes, .message.length = op->length};
    sim_event(c, p, &event);
}

void sim_message(sim_cluster *c, sim_peer *p, uint32_t to, const uint8_t *bytes, size_t length) {
    sim_link *link = sim_link_of(c, p->number, to);
    bool stands = link->up && link->told[side_of(p->number, to)];
    if (length > 1)
        sim_trace(c, "peer %u -> %u: %s%s", p->number, to, gw_message_name((gw_message_kind)bytes[1]),
                  stands ? "" : ", but there is no link");
    if (!stands) return;
    int side = side_of(to, p->number);
    sim_op op = sim_op_to(&c->peers[to], arrives);
    op.from = p->number;
    op.session = link->session;
    op.x = link->sent[side]++;
    op.bytes = bytes;
    op.length = (uint32_t)length;
    in_order(c, link, side, gw_sim_network_delay_ns(&c->network), &op);
}
