#include "tools/godwit/show/lives.h"

#include <stdio.h>
#include <string.h>

static gw_lived *find(gw_lives *lives, const gw_peer_id *id) {
    for (uint32_t i = 0; i < lives->count; i++)
        if (gw_peer_id_equal(&lives->list[i].id, id)) return &lives->list[i];
    return NULL;
}

void gw_lives_left(gw_lives *lives, const gw_peer_id *id, uint64_t boot) {
    gw_lived *one = find(lives, id);
    if (one != NULL && one->boot == boot) one->left = true;
}

/* A view that is still in force names the peer, whichever of its lives runs: only a later view tells that a life takes
 * part. */
static void take_part(gw_lives *lives, const gw_snapshot_peer *peer, uint64_t view) {
    gw_lived *one = find(lives, &peer->id);
    if (one == NULL) {
        if (lives->count == GW_SNAPSHOT_PEERS) return;
        one = &lives->list[lives->count++];
        *one = (gw_lived){.id = peer->id};
    }
    if (view <= one->view) return;
    if (peer->boot != one->boot) {
        one->left = false;
        one->gone = 0;
    }
    one->view = view;
    one->boot = peer->boot;
}

void gw_lives_look(gw_lives *lives, gw_snapshot_peer *peer, uint64_t view) {
    bool left = strcmp(peer->state, "left") == 0;
    bool gone = left || strcmp(peer->state, "dead") == 0 || strcmp(peer->state, "unreachable") == 0;
    if (peer->member && !gone) take_part(lives, peer, view);
    gw_lived *one = find(lives, &peer->id);
    if (one == NULL) return;
    if (!gone) {
        if (peer->boot == one->boot) one->gone = 0;
        return;
    }
    if (peer->boot == one->boot) {
        one->left |= left;
        if (one->gone <= 0) one->gone = peer->gone;
        return;
    }
    if (one->left) return;
    peer->in_vain = true;
    snprintf(peer->state, sizeof peer->state, "dead");
    peer->gone = one->gone;
    peer->speed = 0; /* which the new life cannot have had */
}
