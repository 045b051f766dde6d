/* The bytes of gossip datagrams, pinned; and datagrams that are not what they should be. */
#include "core/gossip/codec.h"

#include <criterion/criterion.h>
#include <string.h>

static const gw_peer_id sender = {"sender0123456789"};

static gw_gossip_packet packet_of(gw_gossip_type type) {
    gw_gossip_packet packet = {.version = 1, .type = (uint8_t)type, .cluster = "cluster!", .sender = sender};
    packet.incarnation = (gw_incarnation){.boot = 2, .nonce = 3, .refutation = 4};
    return packet;
}

/* version, type, cluster, sender id, boot, nonce, refutation */
#define HEADER(type)                                                                                         \
    1, type, 'c', 'l', 'u', 's', 't', 'e', 'r', '!', 's', 'e', 'n', 'd', 'e', 'r', '0', '1', '2', '3', '4',  \
        '5', '6', '7', '8', '9', 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0

static void assert_packet(const gw_gossip_packet *packet, const uint8_t *expected, size_t length) {
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_gossip_packet_put(&w, packet);
    cr_assert(!w.failed);
    cr_assert_eq(w.length, length);
    cr_assert_arr_eq(bytes, expected, length);
    gw_gossip_packet back;
    gw_reader r = gw_reader_on(bytes, length);
    gw_gossip_packet_get(&r, &back);
    cr_assert(gw_reader_done(&r));
    cr_assert_eq(back.type, packet->type);
    cr_assert_eq(back.seq, packet->seq);
    cr_assert_eq(back.known_meta, packet->known_meta);
    cr_assert_eq(back.flags, packet->flags);
    cr_assert_eq(back.buckets, packet->buckets);
    cr_assert(gw_peer_id_equal(&back.target, &packet->target));
    cr_assert(gw_addr_equal(&back.addr, &packet->addr));
    cr_assert_arr_eq(back.digest, packet->digest, sizeof back.digest);
    for (size_t cut = 0; cut < length; cut++) {
        r = gw_reader_on(bytes, cut);
        gw_gossip_packet_get(&r, &back);
        cr_assert(r.failed, "a packet cut to %zu bytes was accepted", cut);
    }
}

Test(gossip_codec, ping) {
    gw_gossip_packet packet = packet_of(GW_GOSSIP_PING);
    packet.seq = 0x01020304;
    packet.target = (gw_peer_id){"target0123456789"};
    packet.known_meta = 7;
    const uint8_t expected[] = {HEADER(1), 4,   3,   2,   1,   't', 'a', 'r', 'g', 'e', 't', '0', '1',
                                '2',       '3', '4', '5', '6', '7', '8', '9', 7,   0,   0,   0};
    assert_packet(&packet, expected, sizeof expected);
}

Test(gossip_codec, ping_req) {
    gw_gossip_packet packet = packet_of(GW_GOSSIP_PING_REQ);
    packet.seq = 5;
    packet.target = (gw_peer_id){"target0123456789"};
    packet.addr = (gw_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = 0x1bcd};
    const uint8_t expected[] = {HEADER(3), 5,   0,   0,   0,   't', 'a', 'r', 'g', 'e', 't',  '0', '1', '2',
                                '3',       '4', '5', '6', '7', '8', '9', 4,   127, 0,   0,    1,   0,   0,
                                0,         0,   0,   0,   0,   0,   0,   0,   0,   0,   0xcd, 0x1b};
    assert_packet(&packet, expected, sizeof expected);
}

Test(gossip_codec, ack_nack_rumours_entries) {
    gw_gossip_packet ack = packet_of(GW_GOSSIP_ACK), nack = packet_of(GW_GOSSIP_NACK);
    ack.seq = nack.seq = 6;
    assert_packet(&ack, (const uint8_t[]){HEADER(2), 6, 0, 0, 0}, 50);
    assert_packet(&nack, (const uint8_t[]){HEADER(4), 6, 0, 0, 0}, 50);
    gw_gossip_packet rumours = packet_of(GW_GOSSIP_RUMOURS), entries = packet_of(GW_GOSSIP_ENTRIES);
    assert_packet(&rumours, (const uint8_t[]){HEADER(5)}, 46);
    entries.flags = GW_GOSSIP_MORE;
    assert_packet(&entries, (const uint8_t[]){HEADER(7), 1}, 47);
}

Test(gossip_codec, digest) {
    gw_gossip_packet packet = packet_of(GW_GOSSIP_DIGEST);
    packet.flags = GW_GOSSIP_ANSWER;
    packet.buckets = 2;
    packet.digest[0] = 1;
    packet.digest[1] = UINT64_C(0x0807060504030201);
    const uint8_t expected[] = {HEADER(6), 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    assert_packet(&packet, expected, sizeof expected);
}

static gw_gossip_record full_record(gw_gossip_state state) {
    gw_gossip_record record = {.state = (uint8_t)state, .id = {"member0123456789"}};
    record.incarnation = (gw_incarnation){.boot = 1, .nonce = 2, .refutation = 3};
    return record;
}

#define RECORD(head)                                                                                         \
    head, 'm', 'e', 'm', 'b', 'e', 'r', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 1, 0, 0, 0, 0, 0,  \
        0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0

static void assert_record_in(uint8_t version, const gw_gossip_record *record, const uint8_t *expected,
                             size_t length) {
    uint8_t bytes[GW_GOSSIP_DATAGRAM];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_gossip_record_put(&w, record, version);
    cr_assert_eq(w.length, length);
    cr_assert_eq(gw_gossip_record_bytes(record, version), length);
    cr_assert_arr_eq(bytes, expected, length);
    gw_gossip_record back;
    for (size_t cut = 0; cut < length; cut++) {
        gw_reader r = gw_reader_on(bytes, cut);
        gw_gossip_record_get(&r, &back, version);
        cr_assert(r.failed, "a record cut to %zu bytes was accepted", cut);
    }
    gw_reader r = gw_reader_on(bytes, length);
    gw_gossip_record_get(&r, &back, version);
    cr_assert(gw_reader_done(&r));
    cr_assert_eq(back.state, record->state);
    cr_assert_eq(back.proven, record->proven);
    cr_assert_eq(back.meta_version, record->meta_version);
    cr_assert_eq(back.addr_count, record->addr_count);
    cr_assert(gw_peer_id_equal(&back.accuser, &record->accuser));
    bool named = record->has_name && version >= 2;
    cr_assert_eq(back.has_name, named);
    cr_assert_eq(back.name_bytes, named ? record->name_bytes : 0);
    if (named) cr_assert_arr_eq(back.name, record->name, record->name_bytes);
    cr_assert_eq(back.reads, record->reads);
}

static void assert_record(const gw_gossip_record *record, const uint8_t *expected, size_t length) {
    assert_record_in(1, record, expected, length);
}

/* A build of version 1 has no names and ignores bit 5 of a record whose member is not dead. */
Test(gossip_codec, version_2_adds_names_and_version_1_leaves_them_out) {
    gw_gossip_record alive = full_record(GW_GOSSIP_IS_ALIVE);
    alive.reads = 2;
    assert_record_in(1, &alive, (const uint8_t[]){RECORD(32)}, 37);
    alive.has_name = true;
    alive.name = "node7";
    alive.name_bytes = 5;
    assert_record_in(1, &alive, (const uint8_t[]){RECORD(32)}, 37);
    assert_record_in(2, &alive, (const uint8_t[]){RECORD(32 | 64), 5, 'n', 'o', 'd', 'e', '7'}, 43);
    alive.name_bytes = 0; /* a peer without a name tells that */
    assert_record_in(2, &alive, (const uint8_t[]){RECORD(32 | 64), 0}, 38);
    gw_gossip_record dead = full_record(GW_GOSSIP_IS_DEAD);
    dead.has_name = true;
    dead.reads = 2;
    dead.name = "n";
    dead.name_bytes = 1;
    assert_record_in(2, &dead, (const uint8_t[]){RECORD(2 | 64), 1, 'n'}, 39);
    gw_gossip_record later = full_record(GW_GOSSIP_IS_ALIVE);
    later.reads = 3; /* what a build of the next version tells this one */
    assert_record_in(2, &later, (const uint8_t[]){RECORD(32 | 128)}, 37);
}

Test(gossip_codec, records) {
    gw_gossip_record dead = full_record(GW_GOSSIP_IS_DEAD);
    dead.proven = true;
    assert_record(&dead, (const uint8_t[]){RECORD(2 | 32)}, 37);
    gw_gossip_record suspect = full_record(GW_GOSSIP_IS_SUSPECT);
    suspect.accuser = sender;
    const uint8_t expected_suspect[] = {RECORD(1), 's', 'e', 'n', 'd', 'e', 'r', '0', '1',
                                        '2',       '3', '4', '5', '6', '7', '8', '9'};
    assert_record(&suspect, expected_suspect, sizeof expected_suspect);
    gw_gossip_record alive = full_record(GW_GOSSIP_IS_ALIVE);
    alive.addr_count = 1;
    alive.addr[0] = (gw_addr){.family = 4, .ip = {10, 0, 0, 9}, .port = 258};
    alive.has_meta = true;
    alive.meta_version = 8;
    alive.meta_bytes = 2;
    alive.meta = (const uint8_t *)"hi";
    const uint8_t expected_alive[] = {RECORD(0 | 1 << 2 | 16),
                                      4,
                                      10,
                                      0,
                                      0,
                                      9,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      0,
                                      2,
                                      1,
                                      8,
                                      0,
                                      0,
                                      0,
                                      2,
                                      'h',
                                      'i'};
    assert_record(&alive, expected_alive, sizeof expected_alive);
}

static bool packet_accepted(const uint8_t *bytes, size_t length) {
    gw_gossip_packet packet;
    gw_reader r = gw_reader_on(bytes, length);
    gw_gossip_packet_get(&r, &packet);
    return !r.failed;
}

Test(gossip_codec, refuses_what_it_does_not_know) {
    uint8_t rumours[] = {HEADER(5)};
    cr_assert(packet_accepted(rumours, sizeof rumours));
    rumours[0] = 2;
    cr_assert(packet_accepted(rumours, sizeof rumours));
    rumours[0] = 3; /* other versions */
    cr_assert(!packet_accepted(rumours, sizeof rumours));
    rumours[0] = 0;
    cr_assert(!packet_accepted(rumours, sizeof rumours));
    rumours[0] = 1;
    rumours[1] = 8; /* no such type */
    cr_assert(!packet_accepted(rumours, sizeof rumours));
    rumours[1] = 0;
    cr_assert(!packet_accepted(rumours, sizeof rumours));
    uint8_t nobody[] = {HEADER(5)};
    memset(nobody + 10, 0, 16);
    cr_assert(!packet_accepted(nobody, sizeof nobody));
    uint8_t flags[] = {HEADER(7), 2};
    cr_assert(!packet_accepted(flags, sizeof flags));
    uint8_t buckets[2000] = {HEADER(6), 0, 200};
    cr_assert(!packet_accepted(buckets, sizeof buckets));
    buckets[47] = 0;
    cr_assert(!packet_accepted(buckets, sizeof buckets));
}

static bool record_accepted_in(uint8_t version, const uint8_t *bytes, size_t length) {
    gw_gossip_record record;
    gw_reader r = gw_reader_on(bytes, length);
    gw_gossip_record_get(&r, &record, version);
    return !r.failed;
}

static bool record_accepted(const uint8_t *bytes, size_t length) {
    return record_accepted_in(1, bytes, length);
}

Test(gossip_codec, refuses_records_out_of_range) {
    uint8_t many_addresses[200] = {RECORD(3 << 2)};
    cr_assert(!record_accepted(many_addresses, sizeof many_addresses));
    uint8_t unknown_bit[] = {RECORD(64)};
    cr_assert(!record_accepted(unknown_bit, sizeof unknown_bit));
    uint8_t next[] = {RECORD(128)};
    cr_assert(!record_accepted(next, sizeof next));
    cr_assert(record_accepted_in(2, next, sizeof next));
    uint8_t long_name[200] = {RECORD(64), 64};
    cr_assert(!record_accepted_in(2, long_name, sizeof long_name));
    long_name[37] = 63;
    cr_assert(record_accepted_in(2, long_name, sizeof long_name));
    uint8_t no_port[200] = {RECORD(1 << 2), 4, 10, 0, 0, 9};
    cr_assert(!record_accepted(no_port, sizeof no_port));
    uint8_t long_meta[400] = {RECORD(16), 1, 0, 0, 0, 161};
    cr_assert(!record_accepted(long_meta, sizeof long_meta));
    uint8_t no_version[400] = {RECORD(16), 0, 0, 0, 0, 1};
    cr_assert(!record_accepted(no_version, sizeof no_version));
}
