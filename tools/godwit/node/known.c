#include "tools/godwit/node/known.h"

enum { VERSION = 1, DAY_S = 86400 };

static gw_known_peer *find(gw_known *known, const gw_peer_id *id) {
    for (uint32_t i = 0; i < known->count; i++)
        if (gw_peer_id_equal(&known->peers[i].id, id)) return &known->peers[i];
    return NULL;
}

/* A place for one more peer: the one that was seen longest ago makes room. */
static gw_known_peer *make_room(gw_known *known) {
    if (known->count < GW_KNOWN_PEERS) return &known->peers[known->count++];
    gw_known_peer *oldest = &known->peers[0];
    for (uint32_t i = 1; i < known->count; i++)
        if (known->peers[i].seen_s < oldest->seen_s) oldest = &known->peers[i];
    return oldest;
}

bool gw_known_note(gw_known *known, const gw_peer_id *id, const gw_addr *addr, uint64_t now_s) {
    gw_known_peer *peer = find(known, id);
    bool fresh = peer != NULL && gw_addr_equal(&peer->addr, addr) && now_s < peer->seen_s + DAY_S;
    if (fresh) return false;
    if (peer == NULL) peer = make_room(known);
    *peer = (gw_known_peer){.id = *id, .addr = *addr, .seen_s = now_s};
    return true;
}

uint64_t gw_known_newest(const gw_known *known) {
    uint64_t newest = 0;
    for (uint32_t i = 0; i < known->count; i++)
        if (known->peers[i].seen_s > newest) newest = known->peers[i].seen_s;
    return newest;
}

void gw_known_put(gw_writer *w, const gw_known *known) {
    gw_put_u8(w, VERSION);
    gw_put_hash(w, &known->cluster);
    gw_put_hash(w, &known->job);
    gw_put_u32(w, known->count);
    for (uint32_t i = 0; i < known->count; i++) {
        gw_put_peer_id(w, &known->peers[i].id);
        gw_put_addr(w, &known->peers[i].addr);
        gw_put_u64(w, known->peers[i].seen_s);
    }
}

static void forget_old(gw_known *known) {
    uint64_t newest = gw_known_newest(known);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < known->count; i++)
        if (newest - known->peers[i].seen_s <= (uint64_t)GW_KNOWN_DAYS * DAY_S)
            known->peers[kept++] = known->peers[i];
    known->count = kept;
}

void gw_known_look(gw_reader *r, gw_known *known) {
    if (gw_get_u8(r) != VERSION) r->failed = true;
    gw_get_hash(r, &known->cluster);
    gw_get_hash(r, &known->job);
    uint32_t count = gw_get_u32(r);
    if (count > GW_KNOWN_PEERS) r->failed = true;
    known->count = 0;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_known_peer peer;
        gw_get_peer_id(r, &peer.id);
        gw_get_addr(r, &peer.addr);
        peer.seen_s = gw_get_u64(r);
        if (find(known, &peer.id) == NULL) known->peers[known->count++] = peer;
    }
    if (!gw_reader_done(r)) {
        r->failed = true;
        known->count = 0;
    }
    forget_old(known);
}

void gw_known_get(gw_reader *r, gw_known *known) {
    const gw_hash cluster = known->cluster, job = known->job;
    gw_known_look(r, known);
    bool ours = gw_hash_equal(&cluster, &known->cluster) && gw_hash_equal(&job, &known->job);
    if (!ours) known->count = 0;
    known->cluster = cluster;
    known->job = job;
}
