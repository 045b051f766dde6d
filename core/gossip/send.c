#include "core/gossip/inside.h"

#include "core/base/assert.h"

#include <string.h>

uint8_t gw_gossip_version_for(const gw_gossip *g, const gw_gossip_entry *to) {
    uint8_t theirs = to != NULL && to->reads > GW_GOSSIP_OLDEST ? to->reads : GW_GOSSIP_OLDEST;
    return theirs < g->reads ? theirs : g->reads;
}

gw_gossip_packet gw_gossip_packet_of(const gw_gossip *g, gw_gossip_type type) {
    gw_gossip_packet packet = {.version = GW_GOSSIP_OLDEST, .type = (uint8_t)type};
    memcpy(packet.cluster, g->config.cluster.bytes, sizeof packet.cluster);
    packet.sender = g->self->public.id;
    packet.incarnation = g->self->public.incarnation;
    return packet;
}

gw_gossip_record gw_gossip_record_of(const gw_gossip *g, const gw_gossip_entry *entry, bool with_meta) {
    const gw_gossip_member *member = &entry->public;
    gw_gossip_record record = {.state = member->state,
                               .proven = entry->proven,
                               .reads = entry->reads,
                               .addr_count = member->addr_count,
                               .id = member->id,
                               .incarnation = member->incarnation};
    memcpy(record.addr, member->addr, sizeof record.addr);
    if (member->state == GW_GOSSIP_IS_SUSPECT) {
        GW_ASSERT(entry->suspicion != 0);
        const gw_suspicion *suspicion = &g->suspicions[entry->suspicion - 1];
        record.accuser = suspicion->confirmer[suspicion->count - 1];
    }
    if (with_meta && member->meta_version > 0) {
        record.has_meta = true;
        record.meta_version = member->meta_version;
        record.meta_bytes = member->meta_bytes;
        record.meta = member->meta;
    }
    if (with_meta && member->name != NULL) {
        record.has_name = true;
        record.name_bytes = (uint8_t)strlen(member->name);
        record.name = member->name;
    }
    return record;
}

const gw_addr *gw_gossip_addr_of(const gw_gossip_entry *entry) {
    return entry->public.addr_count > 0 ? &entry->public.addr[0] : NULL;
}

void gw_gossip_transmit(gw_gossip *g, const gw_addr *addr, const gw_writer *w) {
    GW_ASSERT(!w->failed && w->length <= GW_GOSSIP_DATAGRAM);
    g->stats.datagrams_sent++;
    g->stats.bytes_sent += w->length;
    g->config.sink.send(g->config.sink.context, addr, w->bytes, w->length);
}

/* SWIM's lambda log n: if every member sends a rumour this often, it misses a given peer with probability
 * about e^-(3 + 1.5 log2 n), or more if datagrams are lost; anti-entropy repairs these cases. */
static uint32_t telling_limit(const gw_gossip *g) {
    return 3 + gw_gossip_log2(g->live) * 3 / 2;
}

static bool put_record(gw_writer *w, uint8_t version, uint8_t *count, const gw_gossip_record *record) {
    if (w->capacity - w->length < gw_gossip_record_bytes(record, version)) return false;
    gw_gossip_record_put(w, record, version);
    (*count)++;
    GW_ASSERT(*count <= GW_GOSSIP_RECORDS);
    return true;
}

/* The record that a rumour about `entry` carries: its state, and in the queue of metadata its metadata as
 * well. */
static void put_rumours(gw_gossip *g, int queue, const gw_gossip_entry *to, gw_writer *w, uint8_t *count) {
    uint8_t version = gw_gossip_version_for(g, to);
    uint32_t members[GW_GOSSIP_RECORDS];
    uint32_t picked = gw_rumours_pick(&g->rumours[queue], members, GW_GOSSIP_RECORDS);
    for (uint32_t i = 0; i < picked; i++) {
        gw_gossip_entry *entry = gw_gossip_entry_at(g, members[i]);
        if (entry == to) continue;
        bool last_words =
            entry->public.state == GW_GOSSIP_IS_LEFT; /* the last metadata says why the peer left */
        gw_gossip_record record = gw_gossip_record_of(g, entry, queue == GW_METAS || last_words);
        double bytes = (double)gw_gossip_record_bytes(&record, version);
        if (queue == GW_METAS && g->meta_tokens < bytes) break;
        if (!put_record(w, version, count, &record)) break;
        if (queue == GW_METAS) g->meta_tokens -= bytes;
        gw_rumours_told(&g->rumours[queue], &entry->rumour[queue], telling_limit(g));
    }
}

static void send_with(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *to,
                      const gw_gossip_packet *unversioned, const gw_gossip_record *first, bool metas) {
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_gossip_packet packet = *unversioned;
    packet.version = gw_gossip_version_for(g, to);
    gw_gossip_packet_put(&w, &packet);
    size_t count_at = w.length;
    uint8_t count = 0;
    gw_put_u8(&w, 0);
    GW_ASSERT(!w.failed);
    if (first != NULL) put_record(&w, packet.version, &count, first);
    if (to != NULL && to->public.state != GW_GOSSIP_IS_ALIVE) { /* Lifeguard's buddy system */
        gw_gossip_record accusation = gw_gossip_record_of(g, to, false);
        put_record(&w, packet.version, &count, &accusation);
    }
    put_rumours(g, GW_NEWS, to, &w, &count);
    if (metas) put_rumours(g, GW_METAS, to, &w, &count);
    bytes[count_at] = count;
    if (packet.type == GW_GOSSIP_RUMOURS && count == 0) return;
    gw_gossip_transmit(g, addr, &w);
}

void gw_gossip_send(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *to,
                    const gw_gossip_packet *packet, const gw_gossip_record *first) {
    send_with(g, addr, to, packet, first, false);
}

void gw_gossip_accuse(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *entry) {
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_RUMOURS);
    gw_gossip_record record = gw_gossip_record_of(g, entry, false);
    send_with(g, addr, NULL, &packet, &record, false);
}

/* Metadata shares a budget that shrinks as the flock grows: the metadata of all peers reaches all peers, so
 * what each may send is a share of what each can receive. */
static double meta_rate(const gw_gossip *g) {
    double rate = g->config.timing.meta_bytes_per_s;
    return g->live <= GW_GOSSIP_META_PEERS ? rate : rate * GW_GOSSIP_META_PEERS / g->live;
}

static void refill_meta_tokens(gw_gossip *g, uint64_t now_ns) {
    double rate = meta_rate(g), most = rate < 4096 ? 4096 : rate;
    g->meta_tokens += rate * 1e-9 * (double)(now_ns - g->meta_tokens_ns);
    if (g->meta_tokens > most) g->meta_tokens = most;
    g->meta_tokens_ns = now_ns;
}

static void plan_rumours(gw_gossip *g, uint64_t now_ns) {
    uint64_t due = UINT64_MAX, next = now_ns + g->config.timing.rumour_ns;
    if (g->live > (g->leaving ? 0u : 1u)) {
        if (g->rumours[GW_METAS].count > 0) {
            double missing = GW_GOSSIP_META_BYTES + GW_GOSSIP_NAME_BYTES + 64 - g->meta_tokens;
            uint64_t wait_ns = missing <= 0 ? 0 : (uint64_t)(missing / meta_rate(g) * 1e9) + 1;
            due = wait_ns > g->config.timing.rumour_ns ? now_ns + wait_ns : next;
        }
        if (g->rumours[GW_NEWS].count > 0) due = next;
    }
    g->rumour_due = due;
}

void gw_gossip_rumour_round(gw_gossip *g, uint64_t now_ns) {
    uint32_t numbers[16];
    uint32_t most = g->config.timing.fanout < 16 ? g->config.timing.fanout : 16;
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_RUMOURS);
    refill_meta_tokens(g, now_ns);
    uint32_t count = gw_gossip_choose(g, NULL, numbers, most);
    for (uint32_t i = 0; i < count; i++) {
        const gw_gossip_entry *to = g->entries[numbers[i]];
        send_with(g, gw_gossip_addr_of(to), to, &packet, NULL, true);
    }
    plan_rumours(g, now_ns);
}

void gw_gossip_wake_rumours(gw_gossip *g, uint64_t now_ns) {
    if (g->rumour_due == UINT64_MAX) plan_rumours(g, now_ns);
}

void gw_gossip_spread(gw_gossip *g, gw_gossip_entry *entry, int queue, uint64_t now_ns) {
    gw_rumours_put(&g->rumours[queue], &entry->rumour[queue], entry->number);
    /* The first rumour after a silence goes out at once, a little scattered; the next rounds keep the pace.
     */
    if (g->rumour_due == UINT64_MAX ||
        (queue == GW_NEWS && g->rumour_due > now_ns + g->config.timing.rumour_ns))
        g->rumour_due = now_ns + gw_rng_below(&g->rng, g->config.timing.rumour_ns / 8 + 1);
}

void gw_gossip_publish_meta(gw_gossip *g, uint64_t now_ns) {
    gw_gossip_entry *self = g->self;
    /* 20 ms a member: up to five at full pace, then every member's share of the common budget. */
    uint64_t pause_ns = (uint64_t)g->live * 20000000;
    if (pause_ns < g->config.timing.meta_ns) pause_ns = g->config.timing.meta_ns;
    g->meta_due = now_ns + pause_ns;
    if (!g->meta_waits) {
        g->meta_due = UINT64_MAX;
        return;
    }
    if (!gw_gossip_entry_set_meta(self, g->meta, g->meta_bytes)) return; /* tried again later */
    g->meta_waits = false;
    self->public.meta_version++;
    gw_gossip_spread(g, self, GW_METAS, now_ns);
}
