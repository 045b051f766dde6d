#include "core/gossip/codec.h"

#include "core/base/assert.h"

/* The first byte of a record: state in bits 0-1, number of addresses in bits 2-3, then the flags. Bit 5 of
 * a dead member's record tells that its death is proven, and of any other that the member reads version 2.
 * Bit 7 exists from version 2 on, and tells that the member reads the version after that of the packet,
 * whatever that is. */
enum {
    RECORD_STATE = 3,
    RECORD_ADDRS_SHIFT = 2,
    RECORD_META = 16,
    RECORD_PROVEN = 32,
    RECORD_READS_2 = 32,
    RECORD_NAME = 64, /* from version 2 on */
    RECORD_READS_NEXT = 128,
    VERSION_2 = 2,
};

_Static_assert(GW_GOSSIP_ADDRS <= 3, "the number of addresses has two bits");
_Static_assert(GW_GOSSIP_META_BYTES <= UINT8_MAX, "the length of metadata has one byte");

static bool is_known(uint8_t version) {
    return version >= GW_GOSSIP_OLDEST && version <= GW_GOSSIP_VERSION;
}

void gw_gossip_packet_put(gw_writer *w, const gw_gossip_packet *packet) {
    GW_ASSERT(is_known(packet->version));
    gw_put_u8(w, packet->version);
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
    packet->version = gw_get_u8(r);
    if (!is_known(packet->version)) r->failed = true;
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

static bool carries_name(const gw_gossip_record *record, uint8_t version) {
    return record->has_name && version >= VERSION_2;
}

size_t gw_gossip_record_bytes(const gw_gossip_record *record, uint8_t version) {
    size_t bytes = 1 + 16 + 20 + 19u * record->addr_count;
    if (record->state == GW_GOSSIP_IS_SUSPECT) bytes += 16;
    if (record->has_meta) bytes += 5u + record->meta_bytes;
    if (carries_name(record, version)) bytes += 1u + record->name_bytes;
    return bytes;
}

static unsigned flags_of(const gw_gossip_record *record, uint8_t version) {
    unsigned flags = record->has_meta ? RECORD_META : 0;
    if (carries_name(record, version)) flags |= RECORD_NAME;
    if (record->state == GW_GOSSIP_IS_DEAD) return record->proven ? flags | RECORD_PROVEN : flags;
    if (record->reads >= VERSION_2) flags |= RECORD_READS_2;
    return version >= VERSION_2 && record->reads > version ? flags | RECORD_READS_NEXT : flags;
}

void gw_gossip_record_put(gw_writer *w, const gw_gossip_record *record, uint8_t version) {
    GW_ASSERT(record->state <= GW_GOSSIP_IS_LEFT && record->addr_count <= GW_GOSSIP_ADDRS);
    GW_ASSERT(record->meta_bytes <= GW_GOSSIP_META_BYTES && record->name_bytes <= GW_GOSSIP_NAME_BYTES);
    unsigned head = record->state | (unsigned)record->addr_count << RECORD_ADDRS_SHIFT;
    gw_put_u8(w, (uint8_t)(head | flags_of(record, version)));
    gw_put_peer_id(w, &record->id);
    gw_put_incarnation(w, &record->incarnation);
    if (record->state == GW_GOSSIP_IS_SUSPECT) gw_put_peer_id(w, &record->accuser);
    for (unsigned i = 0; i < record->addr_count; i++) gw_put_addr(w, &record->addr[i]);
    if (record->has_meta) {
        gw_put_u32(w, record->meta_version);
        gw_put_u8(w, record->meta_bytes);
        gw_put_bytes(w, record->meta, record->meta_bytes);
    }
    if (carries_name(record, version)) {
        gw_put_u8(w, record->name_bytes);
        gw_put_bytes(w, record->name, record->name_bytes);
    }
}

static void get_meta(gw_reader *r, gw_gossip_record *record) {
    record->meta_version = gw_get_u32(r);
    record->meta_bytes = gw_get_u8(r);
    if (record->meta_bytes > GW_GOSSIP_META_BYTES || record->meta_version == 0) r->failed = true;
    record->meta = gw_get_view(r, record->meta_bytes);
}

static void get_name(gw_reader *r, gw_gossip_record *record) {
    record->name_bytes = gw_get_u8(r);
    if (record->name_bytes > GW_GOSSIP_NAME_BYTES) r->failed = true;
    record->name = (const char *)gw_get_view(r, record->name_bytes);
}

void gw_gossip_record_get(gw_reader *r, gw_gossip_record *record, uint8_t version) {
    *record = (gw_gossip_record){0};
    unsigned head = gw_get_u8(r);
    record->state = head & RECORD_STATE;
    record->addr_count = head >> RECORD_ADDRS_SHIFT & 3;
    record->has_meta = (head & RECORD_META) != 0;
    record->has_name = (head & RECORD_NAME) != 0;
    record->proven = record->state == GW_GOSSIP_IS_DEAD && (head & RECORD_PROVEN) != 0;
    if (record->has_name || (record->state != GW_GOSSIP_IS_DEAD && (head & RECORD_READS_2) != 0))
        record->reads = VERSION_2;
    if (head & RECORD_READS_NEXT) record->reads = (uint8_t)(version + 1);
    gw_get_peer_id(r, &record->id);
    gw_get_incarnation(r, &record->incarnation);
    bool too_new = version < VERSION_2 && head >= RECORD_NAME;
    if (too_new || record->addr_count > GW_GOSSIP_ADDRS || gw_peer_id_is_none(&record->id)) r->failed = true;
    if (r->failed) return;
    if (record->state == GW_GOSSIP_IS_SUSPECT) gw_get_peer_id(r, &record->accuser);
    for (unsigned i = 0; i < record->addr_count; i++) {
        gw_get_addr(r, &record->addr[i]);
        if (record->addr[i].family == 0 || record->addr[i].port == 0) r->failed = true;
    }
    if (record->has_meta) get_meta(r, record);
    if (record->has_name) get_name(r, record);
}
