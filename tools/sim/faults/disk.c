/* Who loses its disk, and with it the key that it is named by: it comes back as a peer that nobody knows.
 * Where a majority rules, its name stands for ever for one who does not answer, and what it promised is
 * forgotten; so it may be lost if all have seen it die, if the others are a majority of every view that it or
 * one of them has installed or promised, by the rule of the ballots themselves, and if those who have no
 * record of any view are too few to begin the job anew (README, --quorum majority). */
#include "tools/sim/world/cluster.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

void sim_lose_disk(sim_cluster *c, sim_peer *p) {
    sim_trace(c, "peer %u has lost its disk", p->number);
    GW_ASSERT(p->brain == NULL);
    free(p->asked.bytes);
    p->asked = (sim_record){.bytes = NULL};
    sim_disk_free(&p->disk);
    sim_disks_lost(c);
    const gw_peer_id lost = p->id;
    p->disks++;
    p->name_stopped |= p->stopped_ns != 0;
    p->name_unsaved |= p->unsaved_ns != 0;
    sim_name(p);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->peers[i].wants[p->number]) sim_want_lost(c, &c->peers[i], &lost, true);
        c->peers[i].wants[p->number] = false;
        c->peers[i].met[p->number] = c->peers[i].met_nonce[p->number] = c->peers[i].greeted_by[p->number] = 0;
    }
}

typedef struct ballots {
    bool keeps[SIM_PEERS]; /* its disk */
    bool lost;             /* some view has no majority of these left */
    bool any;              /* some view is known */
} ballots;

/* Whether it knows of a view: a founding that was proposed, and may have come to nothing, is none. */
static bool add_record(sim_cluster *c, ballots *b, const sim_record *record) {
    gw_ballot ballot;
    sim_ballot_read(record, &ballot);
    bool knows = ballot.installed.epoch > 0;
    for (uint32_t i = 0; i < ballot.later_count; i++) knows |= !gw_view_name_is_none(&ballot.later[i].parent);
    b->any |= knows;
    b->lost |= ballot.installed.epoch > 0 && !sim_is_majority(c, &ballot.installed, b->keeps);
    for (uint32_t i = 0; i < ballot.later_count; i++)
        b->lost |= !sim_is_majority(c, &ballot.later[i], b->keeps);
    gw_ballot_close(&ballot);
    return knows;
}

/* Somebody who runs takes it for living still, and so may propose a view with it, and promise that to itself:
 * should that one die next, its later lives would wait for ever for who has only now lost what it knew. A
 * disk that is replaced takes longer than that. */
static bool is_believed_alive(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->count; i++) {
        gw_peer_contact_info info;
        for (uint32_t k = 0; c->peers[i].brain != NULL && gw_peer_contact_at(c->peers[i].brain, k, &info);
             k++) {
            bool lives = strcmp(info.state, "alive") == 0 || strcmp(info.state, "suspect") == 0;
            if (lives && gw_peer_id_equal(&info.id, &p->id)) return true;
        }
    }
    return false;
}

bool sim_can_lose_disk(sim_cluster *c, const sim_peer *p) {
    enum { MOST_DISKS = 64 }; /* names that sim_want_lost tells apart */
    uint32_t ignorant = 1;
    ballots b = {.any = false};
    if (!c->options->majority) return true;
    if (c->result->done_ns != 0 || p->disks == MOST_DISKS) return false; /* who is done does not come back */
    if (is_believed_alive(c, p)) return false;
    for (uint32_t i = 0; i < c->count; i++) b.keeps[i] = i != p->number && !c->peers[i].gone;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *one = &c->peers[i];
        if (one->gone) continue;
        add_record(c, &b, &one->asked);
        bool knows = add_record(c, &b, &one->disk.record);
        if (one->disk.unflushed) knows &= add_record(c, &b, &one->disk.flushed); /* after a power loss */
        ignorant += one != p && !knows;
    }
    return !b.lost && (!b.any || ignorant < c->options->founders);
}
