#include "core/gossip/inside.h"

#include "core/base/assert.h"

#include <string.h>

/* Members are ordered on a ring by the hash of their ids. Besides the round of probes, each member is
 * watched by the two members before it. If members were probed by chance alone, some deaths would be
 * detected late, in a large flock by more than a second. There are two watchers because one may be slow. */

/* The distance on the ring from this peer. */
static uint64_t distance_to(const gw_gossip *g, const gw_peer_id *id) {
    uint64_t from, to;
    memcpy(&from, g->self->public.id.bytes, sizeof from);
    memcpy(&to, id->bytes, sizeof to);
    return gw_mix64(to) - gw_mix64(from);
}

/* Inserts a live member, which is not watched yet, into the watched members if it is one of the next on
 * the ring. */
static void consider(gw_gossip *g, const gw_peer_id *id) {
    uint32_t place = g->watched_count;
    while (place > 0 && distance_to(g, id) < distance_to(g, &g->watched[place - 1])) place--;
    if (place == GW_GOSSIP_WATCHED) return;
    if (g->watched_count < GW_GOSSIP_WATCHED) g->watched_count++;
    for (uint32_t i = g->watched_count - 1; i > place; i--) g->watched[i] = g->watched[i - 1];
    g->watched[place] = *id;
}

void gw_gossip_ring_changed(gw_gossip *g, const gw_gossip_entry *entry) {
    if (entry == g->self || !g->ring_known) return;
    if (gw_gossip_is_live(entry)) {
        consider(g, &entry->public.id);
        return;
    }
    for (uint32_t i = 0; i < g->watched_count; i++)
        if (gw_peer_id_equal(&g->watched[i], &entry->public.id)) g->ring_known = false;
}

static void look_around(gw_gossip *g) {
    g->ring_known = true;
    g->watched_count = 0;
    for (uint32_t i = 1; i < g->count; i++)
        if (gw_gossip_is_live(g->entries[i])) consider(g, &g->entries[i]->public.id);
}

const gw_gossip_entry *gw_gossip_watched(gw_gossip *g, uint32_t period) {
    if (!g->ring_known) look_around(g);
    if (g->watched_count == 0) return NULL;
    const gw_gossip_entry *entry = gw_gossip_entry_find(g, &g->watched[period % g->watched_count]);
    GW_ASSERT(entry != NULL && gw_gossip_is_live(entry));
    return entry->public.addr_count > 0 ? entry : NULL;
}
