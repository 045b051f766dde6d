#include "core/gossip/inside.h"

#include "core/base/assert.h"

#include <string.h>

#define UNREADABLE_SILENCE_NS (60 * UINT64_C(1000000000))

/* The answer to a ping carries the metadata of the target if the pinger has older metadata. This repairs the
 * loss of a rumour within one round of probes. */
static void answer_ping(gw_gossip *g, const gw_gossip_packet *ping, const gw_addr *from) {
    const gw_gossip_entry *self = g->self;
    if (!gw_peer_id_equal(&ping->target, &self->public.id)) return;
    gw_gossip_packet ack = gw_gossip_packet_of(g, GW_GOSSIP_ACK);
    ack.seq = ping->seq;
    gw_gossip_record record = gw_gossip_record_of(g, self, true);
    const gw_gossip_entry *pinger = gw_gossip_entry_find(g, &ping->sender);
    double bytes = (double)gw_gossip_record_bytes(&record, gw_gossip_version_for(g, pinger));
    bool with_meta = record.has_meta && ping->known_meta < record.meta_version && g->meta_tokens >= bytes;
    if (with_meta) g->meta_tokens -= bytes;
    gw_gossip_send(g, from, pinger, &ack, with_meta ? &record : NULL);
}

static void dispatch(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from, uint64_t now_ns) {
    switch ((gw_gossip_type)packet->type) {
    case GW_GOSSIP_PING:
        answer_ping(g, packet, from);
        break;
    case GW_GOSSIP_ACK:
        gw_gossip_on_ack(g, packet->seq);
        break;
    case GW_GOSSIP_NACK:
        gw_gossip_on_nack(g, packet->seq);
        break;
    case GW_GOSSIP_PING_REQ:
        gw_gossip_on_ping_req(g, packet, from, now_ns);
        break;
    case GW_GOSSIP_RUMOURS:
        break;
    case GW_GOSSIP_DIGEST:
        gw_gossip_on_digest(g, packet, from);
        break;
    case GW_GOSSIP_ENTRIES:
        gw_gossip_on_entries(g, packet, from, now_ns);
        break;
    }
}

/* Applies what the header of a packet proves: this life of the sender is alive, with this refutation
 * number. */
static void hear_sender(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from, uint64_t now_ns) {
    uint32_t number = gw_gossip_number(g, &packet->sender);
    if (number == UINT32_MAX) return; /* an unknown sender is added by its record, which has its addresses */
    gw_gossip_record record = {.state = GW_GOSSIP_IS_ALIVE,
                               .reads = packet->version,
                               .id = packet->sender,
                               .incarnation = packet->incarnation};
    gw_gossip_merge(g, &record, GW_FROM_SUBJECT, from, now_ns);
    if (gw_same_life(&g->entries[number]->public.incarnation, &packet->incarnation))
        g->heard_ns[number] = now_ns;
}

/* Called after the records are merged. Asks an unknown sender for its record. Tells a sender that is
 * suspect or dead in this table, so that it can refute; an answer to a ping tells it anyway. */
static void answer_standing(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from,
                            uint64_t now_ns) {
    const gw_gossip_entry *entry = gw_gossip_entry_find(g, &packet->sender);
    if (entry == NULL) {
        bool asked = packet->type == GW_GOSSIP_DIGEST; /* a digest is answered with a digest */
        if (asked || now_ns - g->introduced_ns < g->config.timing.rumour_ns) return;
        g->introduced_ns = now_ns;
        gw_gossip_send_digest(g, from, NULL, false);
        return;
    }
    bool accused = entry->public.state == GW_GOSSIP_IS_SUSPECT || entry->public.state == GW_GOSSIP_IS_DEAD;
    if (accused && packet->type != GW_GOSSIP_PING &&
        gw_same_life(&entry->public.incarnation, &packet->incarnation))
        gw_gossip_accuse(g, from, entry);
}

/* Whether a ping carries news. A ping tells its target of the accusation against it. If a peer has the
 * address that a dead member had and receives a ping meant for that member, the record is no news:
 * otherwise the death would spread again at every start of a peer at that address, forever. */
static gw_gossip_source source_of(const gw_gossip_packet *packet, const gw_gossip_record *record) {
    bool own = gw_peer_id_equal(&record->id, &packet->sender) &&
               gw_same_life(&record->incarnation, &packet->incarnation);
    if (own) return GW_FROM_SUBJECT;
    bool of_target = packet->type == GW_GOSSIP_PING && gw_peer_id_equal(&record->id, &packet->target);
    return packet->type == GW_GOSSIP_ENTRIES || of_target ? GW_FROM_SYNC : GW_FROM_RUMOUR;
}

static void take(gw_gossip *g, const gw_gossip_packet *packet, const gw_gossip_record *records,
                 uint32_t count, const gw_addr *from, uint64_t now_ns) {
    hear_sender(g, packet, from, now_ns);
    for (uint32_t i = 0; i < count; i++)
        gw_gossip_merge(g, &records[i], source_of(packet, &records[i]), from, now_ns);
    bool self = gw_peer_id_equal(&packet->sender, &g->self->public.id);
    if (!self) answer_standing(g, packet, from, now_ns);
    dispatch(g, packet, from, now_ns);
    gw_gossip_wake_rumours(g, now_ns);
}

/* The part of a datagram that is the same in every version. */
typedef struct front {
    uint8_t version, type, cluster[GW_GOSSIP_CLUSTER_BYTES];
} front;

static void report_unreadable(gw_gossip *g, uint8_t version, const gw_addr *from, uint64_t now_ns) {
    bool again = g->unreadable_ns != 0 && g->unreadable_version == version &&
                 now_ns - g->unreadable_ns < UNREADABLE_SILENCE_NS;
    g->stats.unreadable++;
    if (again) return;
    g->unreadable_version = version;
    g->unreadable_ns = now_ns;
    gw_gossip_event event = {.kind = GW_GOSSIP_UNREADABLE,
                             .member = &g->self->public,
                             .other_addr = *from,
                             .version = version,
                             .oldest = GW_GOSSIP_OLDEST,
                             .newest = g->reads};
    g->config.sink.event(g->config.sink.context, &event);
}

void gw_gossip_datagram(gw_gossip *g, const gw_addr *from, const void *bytes, size_t length,
                        uint64_t now_ns) {
    g->stats.datagrams_received++;
    g->stats.bytes_received += length;
    front head = {0};
    gw_reader r = gw_reader_on(bytes, length);
    gw_get_bytes(&r, &head, sizeof head);
    bool addressed = from->family != 0 && from->port != 0;
    if (!r.failed && memcmp(head.cluster, g->config.cluster.bytes, sizeof head.cluster) != 0) {
        g->stats.foreign++;
        return;
    }
    if (!r.failed && addressed && (head.version < GW_GOSSIP_OLDEST || head.version > g->reads)) {
        report_unreadable(g, head.version, from, now_ns);
        return;
    }
    gw_gossip_packet packet;
    gw_gossip_record records[GW_GOSSIP_RECORDS];
    r = gw_reader_on(bytes, length);
    gw_gossip_packet_get(&r, &packet);
    uint32_t count = gw_get_u8(&r);
    if (count > GW_GOSSIP_RECORDS) r.failed = true;
    for (uint32_t i = 0; i < count && !r.failed; i++) gw_gossip_record_get(&r, &records[i], packet.version);
    if (!gw_reader_done(&r) || !addressed) {
        g->stats.malformed++;
        return;
    }
    const gw_gossip_member *self = &g->self->public;
    bool echo =
        gw_peer_id_equal(&packet.sender, &self->id) && gw_same_life(&packet.incarnation, &self->incarnation);
    gw_gossip_notice_gap(g, now_ns);
    if (!echo) take(g, &packet, records, count, from, now_ns);
}
