/* The peers that are left when all faults are healed: a core, drawn by lot, which must finish the job; the
 * others are gone for good. With a majority rule, the core is as small as the lot and its members' ballots
 * allow: of every view that one of them has installed, or has promised and not seen installed, a majority
 * must be left, by the rule of the ballots themselves (core/record/ballot.h). Some of the others may stay
 * beside the core, whatever they have promised: the core can do without them, and they must not hold it
 * up. A peer's ballots are the record that it asked for last, which may not be durable but has been acted
 * on, and the durable one, from which its next life goes on. If no peer that stays knows of a view, all
 * stay, because they can only found the job again. If an operator is to force a view (operator.c), any
 * peers are left. */
#include "tools/sim/faults/inside.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

typedef struct lot {
    uint32_t order[SIM_PEERS]; /* the order in which peers are asked to stay */
    bool stays[SIM_PEERS];
} lot;

/* Adds peers until a majority of the view stays. Returns whether any had to be added. */
static bool add_majority(sim_cluster *c, lot *l, const gw_view *view) {
    bool added = false;
    for (uint32_t i = 0; i < c->count && !sim_is_majority(c, view, l->stays); i++) {
        bool more = !l->stays[l->order[i]] && gw_view_rank(view, &c->peers[l->order[i]].id) >= 0;
        l->stays[l->order[i]] |= more;
        added |= more;
    }
    return added;
}

static bool add_majorities(sim_cluster *c, lot *l, const sim_record *record) {
    gw_ballot ballot;
    sim_ballot_read(record, &ballot);
    bool added = ballot.installed.epoch > 0 && add_majority(c, l, &ballot.installed);
    for (uint32_t i = 0; i < ballot.later_count; i++) added |= add_majority(c, l, &ballot.later[i]);
    gw_ballot_close(&ballot);
    return added;
}

/* Whether the peer is in a view, or its next life will know of one. */
static bool knows_view(const sim_peer *p) {
    gw_peer_status status = {0};
    if (p->brain != NULL) gw_peer_status_get(p->brain, &status);
    return status.view != NULL || sim_record_has_view(&p->disk.record);
}

static void draw_majority(sim_cluster *c, lot *l) {
    bool added = true;
    for (uint32_t i = 0; i < c->count; i++) l->order[i] = i;
    for (uint32_t i = c->count; i-- > 1;) {
        uint32_t k = (uint32_t)sim_between(c, 0, i), other = l->order[k];
        l->order[k] = l->order[i];
        l->order[i] = other;
    }
    for (uint32_t i = 0; i < c->options->core; i++) l->stays[l->order[i]] = true;
    while (added) {
        added = false;
        for (uint32_t i = 0; i < c->count; i++) {
            const sim_peer *p = &c->peers[i];
            if (!l->stays[i]) continue;
            added |= add_majorities(c, l, &p->asked);
            added |= add_majorities(c, l, &p->disk.record);
        }
    }
    bool known = false;
    for (uint32_t i = 0; i < c->count; i++) known |= l->stays[i] && knows_view(&c->peers[i]);
    for (uint32_t i = 0; i < c->count; i++)
        l->stays[i] |=
            !known || (c->options->stay_permille != 0 && sim_chance(c, c->options->stay_permille / 1000.0));
}

static void draw_any(sim_cluster *c, lot *l) {
    uint32_t most = c->options->core, left = c->count, kept = 0;
    for (uint32_t i = 0; i < c->count; i++, left--) {
        l->stays[i] = sim_between(c, 1, left) <= most - kept;
        kept += l->stays[i];
    }
}

/* No core is drawn when peers are done with the job: they do not come back, and the others may be no
 * majority without them. */
void sim_leave_a_core(sim_cluster *c) {
    lot l = {0};
    if (c->options->core == 0 || (c->options->majority && c->result->done_ns != 0)) return;
    if (c->options->majority && !c->options->force)
        draw_majority(c, &l);
    else
        draw_any(c, &l);
    if (c->options->force) sim_force_later(c);
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        if (l.stays[i]) continue;
        p->gone = true;
        c->result->faults[GW_SIM_GONE]++;
        sim_trace(c, "peer %u is gone for good", i);
        p->host_down = sim_chance(c, 0.5);
        if (p->brain != NULL) sim_crash(c, p);
    }
}
