#include "core/gossip/inside.h"

#include "core/base/assert.h"

#include <string.h>

/* Anti-entropy. Two peers compare digests: members are sorted into buckets by id, and a bucket's digest is
 * the sum of the hashes of its members' states. Only buckets that differ are sent, in both directions, and
 * a bounded number of datagrams at a time. Dead members are not part of the digest, so that a peer that
 * has forgotten one agrees with a peer that has not; they are among the entries, for peers that hold them
 * alive. */

#define MORE_PAUSE_NS UINT64_C(20000000) /* time in which the other datagrams of an answer arrive */

static uint32_t bucket_of(const gw_peer_id *id, uint32_t buckets) {
    uint64_t word;
    memcpy(&word, id->bytes + 8, sizeof word);
    return (uint32_t)(gw_mix64(word) % buckets);
}

static void digest_of(const gw_gossip *g, uint32_t buckets, uint64_t *digest) {
    memset(digest, 0, buckets * sizeof *digest);
    for (uint32_t i = 0; i < g->count; i++) {
        const gw_gossip_member *member = &g->entries[i]->public;
        if (!gw_gossip_is_live(g->entries[i])) continue;
        uint64_t low, high;
        memcpy(&low, member->id.bytes, sizeof low);
        memcpy(&high, member->id.bytes + 8, sizeof high);
        uint64_t standing = (uint64_t)member->incarnation.refutation << 1 | member->state;
        uint64_t hash = gw_mix64(gw_mix64(gw_mix64(low) ^ high) ^ member->incarnation.boot);
        digest[bucket_of(&member->id, buckets)] += gw_mix64(hash ^ standing);
    }
}

/* Sends this peer's record in the newest version to an address of which nothing is known. A peer of the
 * version before drops it, and is introduced by the digest that follows; any other peer thus knows the
 * name of this one as soon as it knows of it. */
static void introduce(gw_gossip *g, const gw_addr *addr) {
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_RUMOURS);
    gw_gossip_record self = gw_gossip_record_of(g, g->self, true);
    packet.version = g->reads;
    gw_gossip_packet_put(&w, &packet);
    gw_put_u8(&w, 1);
    gw_gossip_record_put(&w, &self, packet.version);
    gw_gossip_transmit(g, addr, &w);
}

void gw_gossip_send_digest(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *to, bool answer) {
    if (to == NULL && g->reads > GW_GOSSIP_OLDEST) introduce(g, addr);
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_DIGEST);
    uint32_t buckets = g->live / 8;
    packet.buckets = (uint8_t)(buckets < 4 ? 4 : buckets > GW_GOSSIP_BUCKETS ? GW_GOSSIP_BUCKETS : buckets);
    packet.flags = answer ? GW_GOSSIP_ANSWER : 0;
    digest_of(g, packet.buckets, packet.digest);
    gw_gossip_record self = gw_gossip_record_of(g, g->self, false);
    /* In the oldest version, in which the record tells which versions this peer reads. */
    gw_gossip_send(g, addr, NULL, &packet, &self);
}

/* A datagram of entries that is being filled. */
typedef struct pieces {
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    uint8_t version;
    gw_writer w;
    uint32_t sent;
    size_t flags_at, count_at;
} pieces;

static void piece_begin(const gw_gossip *g, pieces *p) {
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_ENTRIES);
    p->w = gw_writer_on(p->bytes, sizeof p->bytes);
    packet.version = p->version;
    gw_gossip_packet_put(&p->w, &packet);
    p->flags_at = p->w.length - 1;
    p->count_at = p->w.length;
    gw_put_u8(&p->w, 0);
}

static void piece_send(gw_gossip *g, pieces *p, const gw_addr *addr, bool more) {
    p->bytes[p->flags_at] = more ? GW_GOSSIP_MORE : 0;
    gw_gossip_transmit(g, addr, &p->w);
    p->sent++;
}

/* Sends the entries of one bucket. Returns false when the bound on datagrams is reached. */
static bool send_bucket(gw_gossip *g, pieces *p, const gw_addr *addr, uint32_t bucket, uint32_t buckets) {
    bool with_meta = g->live <= GW_GOSSIP_SYNC_META_MOST;
    for (uint32_t i = 0; i < g->count; i++) {
        if (bucket_of(&g->entries[i]->public.id, buckets) != bucket) continue;
        gw_gossip_record record = gw_gossip_record_of(g, g->entries[i], with_meta);
        if (p->w.capacity - p->w.length < gw_gossip_record_bytes(&record, p->version)) {
            if (p->sent + 1 == GW_GOSSIP_SYNC_PIECES) return false;
            piece_send(g, p, addr, true);
            piece_begin(g, p);
        }
        gw_gossip_record_put(&p->w, &record, p->version);
        p->bytes[p->count_at]++;
    }
    return true;
}

void gw_gossip_on_digest(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from) {
    uint64_t mine[GW_GOSSIP_BUCKETS];
    uint32_t buckets = packet->buckets, differing = 0;
    digest_of(g, buckets, mine);
    for (uint32_t b = 0; b < buckets; b++) differing += mine[b] != packet->digest[b];
    if (differing == 0) {
        g->joining = false;
        return;
    }
    const gw_gossip_entry *sender = gw_gossip_entry_find(g, &packet->sender);
    pieces p = {.version = gw_gossip_version_for(g, sender)};
    piece_begin(g, &p);
    uint32_t first = (uint32_t)gw_rng_below(&g->rng, buckets);
    bool all = true;
    for (uint32_t i = 0; i < buckets && all; i++) {
        uint32_t b = (first + i) % buckets;
        if (mine[b] != packet->digest[b]) all = send_bucket(g, &p, from, b, buckets);
    }
    piece_send(g, &p, from, !all);
    if (!(packet->flags & GW_GOSSIP_ANSWER)) gw_gossip_send_digest(g, from, sender, true);
}

void gw_gossip_on_entries(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from,
                          uint64_t now_ns) {
    if (packet->flags & GW_GOSSIP_MORE) {
        g->sync_with = *from;
        g->sync_due = now_ns + MORE_PAUSE_NS;
        return;
    }
    g->joining = false;
    g->sync_with = (gw_addr){0};
}

void gw_gossip_sync(gw_gossip *g, uint64_t now_ns) {
    gw_addr with = g->sync_with;
    g->sync_with = (gw_addr){0};
    uint64_t pause_ns = g->config.timing.sync_ns * (1 + gw_gossip_log2(g->live));
    g->sync_due = now_ns + pause_ns - pause_ns / 8 + gw_rng_below(&g->rng, pause_ns / 4 + 1);
    gw_gossip_reap(g, now_ns);
    uint32_t number;
    const gw_gossip_entry *to = with.family != 0 ? gw_gossip_entry_at_addr(g, &with) : NULL;
    if (with.family == 0 && gw_gossip_choose(g, NULL, &number, 1) == 1) {
        to = g->entries[number];
        with = *gw_gossip_addr_of(to);
    }
    if (with.family != 0) gw_gossip_send_digest(g, &with, to, false);
}
