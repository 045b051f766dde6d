#include "tools/godwit/watch/pace.h"

#include <stdlib.h>

#define SLOW 0.5
#define WELL 0.7

bool gw_pace_is_due(const gw_pace *pace, uint64_t now_ns) {
    return pace->looked_ns == 0 || now_ns - pace->looked_ns >= GW_PACE_LOOK_NS;
}

static const gw_pace_speed *find(const gw_pace_speed *speeds, uint32_t count, const gw_peer_id *id) {
    for (uint32_t i = 0; i < count; i++)
        if (gw_peer_id_equal(&speeds[i].id, id)) return &speeds[i];
    return NULL;
}

/* Forgets the peers that are gone, and notes the speeds of the others. */
static void take(gw_pace *pace, const gw_pace_speed *speeds, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pace->count; i++) {
        const gw_pace_speed *now = find(speeds, count, &pace->peers[i].id);
        if (now == NULL) continue;
        pace->peers[kept] = pace->peers[i];
        pace->peers[kept++].speed = now->speed;
    }
    pace->count = kept;
    for (uint32_t i = 0; i < count && pace->count < GW_MAX_MEMBERS; i++) {
        bool known = false;
        for (uint32_t k = 0; k < kept && !known; k++)
            known = gw_peer_id_equal(&pace->peers[k].id, &speeds[i].id);
        if (!known) pace->peers[pace->count++] = (gw_pace_peer){.id = speeds[i].id, .speed = speeds[i].speed};
    }
}

static bool is_known(const gw_pace_peer *peer) {
    return peer->looks >= GW_PACE_KNOWN && peer->speed > 0;
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* How fast the peers are, as a part of what is usual for each: the median. The faster one of two counts. One peer
 * alone tells nothing, and the part is 1. */
static double flock_part(const gw_pace *pace) {
    double part[GW_MAX_MEMBERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < pace->count; i++) {
        const gw_pace_peer *peer = &pace->peers[i];
        if (is_known(peer)) part[count++] = peer->speed / peer->usual;
    }
    if (count < 2) return 1;
    qsort(part, count, sizeof *part, by_size);
    return part[count / 2];
}

/* Returns whether the verdict changes. */
static bool judge(gw_pace_peer *peer, double flock) {
    double part = peer->speed / peer->usual / (flock < 1 ? flock : 1);
    bool against = peer->slow ? part >= WELL : part < SLOW;
    peer->row = against ? peer->row + 1 : 0;
    if (peer->row < GW_PACE_ROW) return false;
    peer->slow = !peer->slow;
    peer->row = 0;
    return true;
}

static void remember(gw_pace_peer *peer) {
    if (peer->speed <= 0) return;
    if (peer->slow || peer->row > 0) return; /* what may be slow is not what is usual */
    if (peer->looks < GW_PACE_LONGEST) peer->looks++;
    peer->usual += (peer->speed - peer->usual) / peer->looks;
}

void gw_pace_look(gw_pace *pace, uint64_t now_ns, const gw_pace_speed *speeds, uint32_t count,
                  gw_pace_news *news, void *context) {
    pace->looked_ns = now_ns;
    take(pace, speeds, count);
    double flock = flock_part(pace);
    for (uint32_t i = 0; i < pace->count; i++) {
        gw_pace_peer *peer = &pace->peers[i];
        if (is_known(peer) && judge(peer, flock)) news(context, peer);
        remember(peer);
    }
}
