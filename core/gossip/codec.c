#include "core/gossip/codec.h"

#include "core/base/assert.h"

/* The first byte of a record: state in bits 0-1, number of addresses in bits 2-3, then the two flags. */
enum { RECORD_STATE = 3, RECORD_ADDRS_SHIFT = 2, RECORD_META = 16, RECORD_PROVEN = 32, RECORD_ALL = 63 };

_Static_assert(GW_GOSSIP_ADDRS <= 3, "the number of addresses has two bits");
_Static_assert(GW_GOSSIP_META_BYTES <= UINT8_MAX, "the length of metadata has one byte");

void gw_gossip_packet_put(gw_writer *w, const gw_gossip_packet *packet) {
    gw_put_u8(w, GW_GOSSIP_VERSION);
    gw_put_u8(w, packet->type);
    gw_put_bytes(w, packet->cluster, sizeof packet->cluster);
    gw_put_peer_id(w, &packet->sender);
    gw_put_incarnation(w, &packet->incarnation);
    switch ((gw_gossip_type)packet->type) {
    case GW_GOSSIP_PING:
        gw_put_u32(w, packet->seq);
        gw_put_peer_id(w, &packet->target);
        gw_put_u32(w, packet->known_meta);
        break;
    case GW_GOSSIP_PING_REQ:
        gw_put_u32(w, packet->seq);
        gw_put_peer_id(w, &packet->target);
        gw_put_addr(w, &packet->addr);
        break;
    case GW_GOSSIP_ACK:
    case GW_GOSSIP_NACK:
        gw_put_u32(w, packet->seq);
        break;
    case GW_GOSSIP_RUMOURS:
        break;
    case GW_GOSSIP_DIGEST:
        GW_ASSERT(packet->buckets >= 1 && packet->buckets <= GW_GOSSIP_BUCKETS);
        gw_put_u8(w, packet->flags);
        gw_put_u8(w, packet->buckets);
        for (unsigned i = 0; i < packet->buckets; i++) gw_put_u64(w, packet->digest[i]);
        break;
    case GW_GOSSIP_ENTRIES:
        gw_put_u8(w, packet->flags);
        break;
    }
}

static void get_digest(gw_reader *r, gw_gossip_packet *packet) {
    packet->flags = gw_get_u8(r);
    packet->buckets = gw_get_u8(r);
    if (packet->buckets < 1 || packet->buckets > GW_GOSSIP_BUCKETS || packet->flags > GW_GOSSIP_ANSWER) {
        r->failed = true;
        return;
    }
    for (unsigned i = 0; i < packet->buckets; i++) packet->digest[i] = gw_get_u64(r);
}

void gw_gossip_packet_get(gw_reader *r, gw_gossip_packet *packet) {
    *packet = (gw_gossip_packet){0};
    if (gw_get_u8(r) != GW_GOSSIP_VERSION) r->failed = true;
    packet->type = gw_get_u8(r);
    gw_get_bytes(r, packet->cluster, sizeof packet->cluster);
    gw_get_peer_id(r, &packet->sender);
    gw_get_incarnation(r, &packet->incarnation);
    if (gw_peer_id_is_none(&packet->sender)) r->failed = true;
    switch ((gw_gossip_type)packet->type) {
    case GW_GOSSIP_PING:
        packet->seq = gw_get_u32(r);
        gw_get_peer_id(r, &packet->target);
        packet->known_meta = gw_get_u32(r);
        break;
    case GW_GOSSIP_PING_REQ:
        packet->seq = gw_get_u32(r);
        gw_get_peer_id(r, &packet->target);
        gw_get_addr(r, &packet->addr);
        break;
    case GW_GOSSIP_ACK:
    case GW_GOSSIP_NACK:
        packet->seq = gw_get_u32(r);
        break;
    case GW_GOSSIP_RUMOURS:
        break;
    case GW_GOSSIP_DIGEST:
        get_digest(r, packet);
        break;
    case GW_GOSSIP_ENTRIES:
        packet->flags = gw_get_u8(r);
        if (packet->flags > GW_GOSSIP_MORE) r->failed = true;
        break;
    default:
        r->failed = true;
    }
}

size_t gw_gossip_record_bytes(const gw_gossip_record *record) {
    size_t bytes = 1 + 16 + 20 + 19u * record->addr_count;
    if (record->state == GW_GOSSIP_IS_SUSPECT) bytes += 16;
    if (record->has_meta) bytes += 5u + record->meta_bytes;
    return bytes;
}

void gw_gossip_record_put(gw_writer *w, const gw_gossip_record *record) {
    GW_ASSERT(record->state <= GW_GOSSIP_IS_LEFT && record->addr_count <= GW_GOSSIP_ADDRS);
    GW_ASSERT(record->meta_bytes <= GW_GOSSIP_META_BYTES);
    unsigned head = record->state | (unsigned)record->addr_count << RECORD_ADDRS_SHIFT |
                    (record->has_meta ? RECORD_META : 0u) | (record->proven ? RECORD_PROVEN : 0u);
    gw_put_u8(w, (uint8_t)head);
    gw_put_peer_id(w, &record->id);
    gw_put_incarnation(w, &record->incarnation);
    if (record->state == GW_GOSSIP_IS_SUSPECT) gw_put_peer_id(w, &record->accuser);
    for (unsigned i = 0; i < record->addr_count; i++) gw_put_addr(w, &record->addr[i]);
    if (!record->has_meta) return;
    gw_put_u32(w, record->meta_version);
    gw_put_u8(w, record->meta_bytes);
    gw_put_bytes(w, record->meta, record->meta_bytes);
}

void gw_gossip_record_get(gw_reader *r, gw_gossip_record *record) {
    *record = (gw_gossip_record){0};
    unsigned head = gw_get_u8(r);
    record->state = head & RECORD_STATE;
    record->addr_count = head >> RECORD_ADDRS_SHIFT & 3;
    record->has_meta = (head & RECORD_META) != 0;
    record->proven = (head & RECORD_PROVEN) != 0;
    gw_get_peer_id(r, &record->id);
    gw_get_incarnation(r, &record->incarnation);
    if (head > RECORD_ALL || record->addr_count > GW_GOSSIP_ADDRS || gw_peer_id_is_none(&record->id))
        r->failed = true;
    if (r->failed) return;
    if (record->state == GW_GOSSIP_IS_SUSPECT) gw_get_peer_id(r, &record->accuser);
    for (unsigned i = 0; i < record->addr_count; i++) {
        gw_get_addr(r, &record->addr[i]);
        if (record->addr[i].family == 0 || record->addr[i].port == 0) r->failed = true;
    }
    if (!record->has_meta) return;
    record->meta_version = gw_get_u32(r);
    record->meta_bytes = gw_get_u8(r);
    if (record->meta_bytes > GW_GOSSIP_META_BYTES || record->meta_version == 0) r->failed = true;
    record->meta = gw_get_view(r, record->meta_bytes);
}
