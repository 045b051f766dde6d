/* Gossip packets: which keys open them, which packets are dropped and why, and the pinned bytes of the
 * format. */
#include "core/os/clock.h"
#include "net/link/udp.h"
#include "net/secure/packet.h"
#include "net/secure/replay.h"
#include "tests/net/flock.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct box {
    flock_peer peer;
    gw_packets *packets;
} box;

static void open_box(box *b, uint8_t number, const char *keys) {
    gw_err err;
    flock_hatch(&b->peer, number, keys);
    b->packets = gw_packets_open(&b->peer.identity, &b->peer.keyring, &b->peer.local.cluster, &err);
    flock_need(b->packets != NULL, &err);
}

static void close_box(box *b) {
    gw_packets_close(b->packets);
}

static size_t seal(box *b, const char *text, uint8_t datagram[GW_DATAGRAM_BYTES]) {
    return gw_packet_seal(b->packets, text, strlen(text), datagram);
}

/* Opens a copy, so that a test can open the same datagram again. */
static gw_packet_verdict open_copy(box *b, const uint8_t *datagram, size_t bytes) {
    uint8_t copy[GW_DATAGRAM_BYTES + 1];
    gw_addr from = flock_addr(9);
    gw_peer_id sender;
    const uint8_t *body;
    size_t body_bytes;
    memcpy(copy, datagram, bytes);
    return gw_packet_open(b->packets, &from, copy, bytes, gw_now_ns(), &sender, &body, &body_bytes);
}

static gw_packet_verdict between(const char *sealing_keys, const char *opening_keys) {
    box a, b;
    uint8_t datagram[GW_DATAGRAM_BYTES];
    open_box(&a, 1, sealing_keys);
    open_box(&b, 2, opening_keys);
    size_t bytes = seal(&a, "hello", datagram);
    gw_packet_verdict verdict = open_copy(&b, datagram, bytes);
    close_box(&a);
    close_box(&b);
    return verdict;
}

Test(packet, opens_with_any_key_of_the_ring_and_no_other) {
    cr_assert_eq(between("1", "1"), GW_PACKET_GOOD);
    cr_assert_eq(between("1", "21"), GW_PACKET_GOOD);
    cr_assert_eq(between("1", "321"), GW_PACKET_GOOD);
    cr_assert_eq(between("12", "2"), GW_PACKET_WRONG_KEY);
    cr_assert_eq(between("1", "2"), GW_PACKET_WRONG_KEY);
    cr_assert_eq(between("1", ""), GW_PACKET_SEALED);
    cr_assert_eq(between("", "1"), GW_PACKET_UNSEALED);
    cr_assert_eq(between("", ""), GW_PACKET_GOOD);
}

static void carries(const char *keys) {
    box a, b;
    uint8_t datagram[GW_DATAGRAM_BYTES], body[GW_PACKET_BODY];
    open_box(&a, 1, keys);
    open_box(&b, 2, keys);
    for (size_t bytes = 0; bytes <= GW_PACKET_BODY; bytes += 10) {
        randombytes_buf(body, sizeof body);
        size_t sealed = gw_packet_seal(a.packets, body, bytes, datagram);
        gw_addr from = flock_addr(9);
        gw_peer_id sender;
        const uint8_t *found;
        size_t found_bytes;
        cr_assert_eq(gw_packet_open(b.packets, &from, datagram, sealed, 1, &sender, &found, &found_bytes),
                     GW_PACKET_GOOD);
        cr_assert(gw_peer_id_equal(&sender, &a.peer.identity.id));
        cr_assert_eq(found_bytes, bytes);
        cr_assert_eq(memcmp(found, body, bytes), 0);
    }
    close_box(&a);
    close_box(&b);
}

Test(packet, carries_bodies_of_every_size_sealed_and_plain) {
    cr_assert_eq(GW_PACKET_BODY % 10, 0);
    carries("1");
    carries("");
}

static void no_byte_can_change(const char *keys) {
    box a, b;
    uint8_t datagram[GW_DATAGRAM_BYTES];
    open_box(&a, 1, keys);
    open_box(&b, 2, keys);
    size_t bytes = seal(&a, "some gossip", datagram);
    for (size_t i = 0; i < bytes; i++) {
        datagram[i] ^= 0x40;
        cr_assert_neq(open_copy(&b, datagram, bytes), GW_PACKET_GOOD, "byte %zu", i);
        datagram[i] ^= 0x40;
        cr_assert_neq(open_copy(&b, datagram, i), GW_PACKET_GOOD, "cut at %zu", i);
    }
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_GOOD);
    close_box(&a);
    close_box(&b);
}

Test(packet, changed_or_cut_anywhere_it_is_dropped) {
    no_byte_can_change("1");
    no_byte_can_change("");
}

Test(packet, strangers_are_told_apart) {
    box a, b;
    uint8_t datagram[GW_DATAGRAM_BYTES + 1] = {0};
    open_box(&a, 1, "1");
    open_box(&b, 2, "1");
    gw_hash other;
    gw_cluster_id("other", &other);
    gw_err err;
    gw_packets *foreign = gw_packets_open(&a.peer.identity, &a.peer.keyring, &other, &err);
    size_t bytes = gw_packet_seal(foreign, "x", 1, datagram);
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_FOREIGN);
    bytes = seal(&a, "x", datagram);
    datagram[0] = 9;
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_VERSIONED);
    datagram[0] = GW_PACKET_VERSION;
    datagram[1] = 7;
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_GARBAGE);
    cr_assert_eq(open_copy(&b, datagram, 0), GW_PACKET_GARBAGE);
    cr_assert_eq(open_copy(&b, datagram, sizeof datagram), GW_PACKET_GARBAGE);
    bytes = seal(&b, "x", datagram);
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_OWN);
    cr_assert_eq(gw_packet_counts(b.packets)[GW_PACKET_GARBAGE], 3);
    cr_assert_eq(gw_packet_counts(b.packets)[GW_PACKET_FOREIGN], 1);
    gw_packets_close(foreign);
    close_box(&a);
    close_box(&b);
}

Test(packet, garbage_of_every_length_is_survived) {
    box b;
    uint8_t datagram[GW_DATAGRAM_BYTES + 1];
    open_box(&b, 2, "1");
    for (size_t bytes = 0; bytes <= sizeof datagram; bytes++) {
        randombytes_buf(datagram, sizeof datagram);
        cr_assert_neq(open_copy(&b, datagram, bytes), GW_PACKET_GOOD);
    }
    close_box(&b);
}

Test(packet, a_replay_is_dropped_and_an_earlier_life_too) {
    box a, b, again;
    uint8_t datagram[GW_DATAGRAM_BYTES], fresh[GW_DATAGRAM_BYTES];
    open_box(&a, 1, "1");
    open_box(&b, 2, "1");
    size_t bytes = seal(&a, "first life", datagram);
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_GOOD);
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_REPLAYED);
    flock_revive(&again.peer, 1, "1", 2, 5);
    gw_err err;
    again.packets =
        gw_packets_open(&again.peer.identity, &again.peer.keyring, &again.peer.local.cluster, &err);
    size_t fresh_bytes = seal(&again, "second life", fresh);
    cr_assert_eq(open_copy(&b, fresh, fresh_bytes), GW_PACKET_GOOD);
    bytes = seal(&a, "first life, late", datagram);
    cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_OUTDATED);
    cr_assert_eq(open_copy(&again, datagram, bytes), GW_PACKET_OUTDATED, "its own earlier life");
    close_box(&a);
    close_box(&b);
    close_box(&again);
}

/* The window (net/secure/packet.h) accepts each counter once, and none of a life that it knows to be over. */
Test(packet, who_has_just_begun_takes_what_was_recorded_once_until_it_has_heard_more) {
    box a, again, b;
    gw_err err;
    uint8_t first[2][GW_DATAGRAM_BYTES], second[GW_DATAGRAM_BYTES];
    size_t first_bytes[2], second_bytes;
    open_box(&a, 1, "1");
    for (int i = 0; i < 2; i++) first_bytes[i] = seal(&a, "first life", first[i]);
    flock_revive(&again.peer, 1, "1", 2, 5);
    again.packets =
        gw_packets_open(&again.peer.identity, &again.peer.keyring, &again.peer.local.cluster, &err);
    flock_need(again.packets != NULL, &err);
    second_bytes = seal(&again, "second life", second);
    open_box(&b, 2, "1");
    cr_assert_eq(open_copy(&b, first[0], first_bytes[0]), GW_PACKET_GOOD);
    cr_assert_eq(open_copy(&b, first[0], first_bytes[0]), GW_PACKET_REPLAYED);
    cr_assert_eq(open_copy(&b, second, second_bytes), GW_PACKET_GOOD);
    cr_assert_eq(open_copy(&b, first[1], first_bytes[1]), GW_PACKET_OUTDATED);
    close_box(&a);
    close_box(&again);
    close_box(&b);
}

Test(packet, two_clones_are_both_heard_so_that_gossip_can_expose_them) {
    box a, b, clone;
    uint8_t datagram[GW_DATAGRAM_BYTES];
    open_box(&a, 1, "1");
    open_box(&b, 2, "1");
    flock_revive(&clone.peer, 1, "1", 1, 5);
    gw_err err;
    clone.packets =
        gw_packets_open(&clone.peer.identity, &clone.peer.keyring, &clone.peer.local.cluster, &err);
    for (int i = 0; i < 3; i++) {
        size_t bytes = seal(&a, "a", datagram);
        cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_GOOD);
        bytes = seal(&clone, "clone", datagram);
        cr_assert_eq(open_copy(&b, datagram, bytes), GW_PACKET_GOOD);
        cr_assert_eq(open_copy(&a, datagram, bytes), GW_PACKET_GOOD, "the twin hears of it too");
    }
    close_box(&a);
    close_box(&b);
    close_box(&clone);
}

static gw_replay_verdict hears(gw_replay *replay, uint8_t who, uint64_t boot, uint64_t nonce,
                               uint64_t counter) {
    gw_peer_id sender = {.bytes = {who}};
    return gw_replay_accept(replay, &sender, boot, nonce, counter);
}

Test(replay, the_window_takes_each_counter_once_and_none_too_old) {
    gw_err err;
    gw_replay *replay = gw_replay_open(4, &err);
    cr_assert_eq(hears(replay, 1, 1, 1, 0), GW_REPLAY_SEEN);
    cr_assert_eq(hears(replay, 1, 1, 1, 5000), GW_REPLAY_FRESH);
    for (uint64_t c = 5000 - 1023; c < 5000; c += 2) cr_assert_eq(hears(replay, 1, 1, 1, c), GW_REPLAY_FRESH);
    for (uint64_t c = 5000 - 1023; c < 5000; c++)
        cr_assert_eq(hears(replay, 1, 1, 1, c),
                     (c - (5000 - 1023)) % 2 == 0 ? GW_REPLAY_SEEN : GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 1, 1, 5000 - 1024), GW_REPLAY_SEEN);
    cr_assert_eq(hears(replay, 1, 1, 1, 5100), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 1, 1, 5000), GW_REPLAY_SEEN);
    cr_assert_eq(hears(replay, 1, 1, 1, 5050), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 1, 1, UINT64_MAX), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 1, 1, UINT64_MAX), GW_REPLAY_SEEN);
    cr_assert_eq(hears(replay, 1, 1, 1, UINT64_MAX - 1023), GW_REPLAY_FRESH);
    gw_replay_close(replay);
}

Test(replay, the_window_agrees_with_a_plain_list) {
    gw_err err;
    gw_replay *replay = gw_replay_open(1, &err);
    static bool seen[20000];
    uint64_t newest = 0;
    uint32_t state = 12345;
    for (int i = 0; i < 50000; i++) {
        state = state * 1664525u + 1013904223u;
        uint64_t step = (state >> 16) % 2500, counter = newest + 100 > step ? newest + 100 - step : 1;
        if (counter == 0 || counter >= 20000) continue;
        bool fresh = !seen[counter] && (counter > newest || newest - counter < GW_REPLAY_WINDOW);
        cr_assert_eq(hears(replay, 1, 1, 1, counter), fresh ? GW_REPLAY_FRESH : GW_REPLAY_SEEN);
        seen[counter] = true;
        if (counter > newest) newest = counter;
    }
    cr_assert_gt(newest, 15000);
    gw_replay_close(replay);
}

Test(replay, memory_is_bounded_and_the_longest_silent_is_forgotten) {
    gw_err err;
    gw_replay *replay = gw_replay_open(3, &err);
    for (uint8_t who = 1; who <= 3; who++) cr_assert_eq(hears(replay, who, 1, 1, 1), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 1, 1, 2), GW_REPLAY_FRESH); /* life 2 has not been heard for longest now */
    cr_assert_eq(hears(replay, 4, 1, 1, 1), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 1, 1, 2), GW_REPLAY_SEEN);
    cr_assert_eq(hears(replay, 3, 1, 1, 1), GW_REPLAY_SEEN);
    cr_assert_eq(hears(replay, 2, 1, 1, 1), GW_REPLAY_FRESH);
    gw_replay_close(replay);
}

Test(replay, a_newer_boot_takes_the_place_of_the_older) {
    gw_err err;
    gw_replay *replay = gw_replay_open(2, &err);
    cr_assert_eq(hears(replay, 2, 1, 1, 1), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 5, 1, 9), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 1, 6, 2, 1), GW_REPLAY_FRESH);
    cr_assert_eq(hears(replay, 2, 1, 1, 1), GW_REPLAY_SEEN, "there was room for it all the time");
    cr_assert_eq(hears(replay, 1, 5, 1, 10), GW_REPLAY_OUTDATED);
    cr_assert_eq(hears(replay, 1, 6, 3, 1), GW_REPLAY_FRESH, "a clone");
    gw_replay_close(replay);
}

static void unhex(const char *text, uint8_t *bytes, size_t capacity, size_t *count) {
    cr_assert_eq(sodium_hex2bin(bytes, capacity, text, strlen(text), " ", count, NULL), 0);
}

/* version 1, plain, cluster hint, sender, boot 1, nonce 1001, counter 1, "hi", tag */
static const char pinned_plain[] =
    "0100150e767ccd564c70e6808f33fbec87975122804ac9ceda8e0100000000000000e903000000000000010000000000"
    "000068697843f61dd3079ea25ac5796217d9a307";
/* the same with a random nonce, sealed under key 1 */
static const char pinned_sealed[] =
    "0101150e767ccd564c70e6808f33fbec87975122804ac9ceda8e0100000000000000e903000000000000010000000000"
    "0000d4119fe3443c04668b64b8b95e2f40b166571737265939bdc5620533b348cde5053db8ad717a39fdccdc";

Test(packet, the_plain_bytes_are_pinned) {
    box a;
    uint8_t datagram[GW_DATAGRAM_BYTES], pinned[GW_DATAGRAM_BYTES];
    size_t pinned_bytes;
    open_box(&a, 1, "");
    unhex(pinned_plain, pinned, sizeof pinned, &pinned_bytes);
    cr_assert_eq(seal(&a, "hi", datagram), pinned_bytes);
    cr_assert_arr_eq(datagram, pinned, pinned_bytes);
    close_box(&a);
}

Test(packet, a_pinned_sealed_packet_still_opens) {
    box b;
    uint8_t pinned[GW_DATAGRAM_BYTES];
    size_t pinned_bytes;
    open_box(&b, 2, "1");
    unhex(pinned_sealed, pinned, sizeof pinned, &pinned_bytes);
    cr_assert_eq(pinned_bytes, GW_PACKET_OVERHEAD + 2);
    cr_assert_eq(open_copy(&b, pinned, pinned_bytes), GW_PACKET_GOOD);
    close_box(&b);
}

typedef struct inbox {
    gw_udp *udp;
    int count;
    size_t bytes[100];
    gw_addr from;
    bool close_on_first;
} inbox;

static void received(void *context, const gw_addr *from, uint8_t *bytes, size_t count) {
    inbox *in = context;
    in->from = *from;
    if (count > 0) cr_assert_eq(bytes[count - 1], bytes[0]);
    in->bytes[in->count++] = count;
    if (!in->close_on_first) return;
    gw_udp_close(in->udp);
    in->udp = NULL;
}

static bool has_fifty(void *context) {
    return ((inbox *)context)->count == 50;
}

Test(udp, datagrams_come_whole_in_batches_and_oversized_ones_are_cut_short) {
    gw_err err;
    gw_loop *loop = gw_loop_open(&err);
    inbox a = {0}, b = {0};
    gw_addr a_addr, b_addr;
    int a_tcp, b_tcp, a_udp, b_udp;
    flock_bind(&a_addr, &a_tcp, &a_udp);
    flock_bind(&b_addr, &b_tcp, &b_udp);
    a.udp = gw_udp_open(loop, a_udp, received, &a, &err);
    b.udp = gw_udp_open(loop, b_udp, received, &b, &err);
    static uint8_t bytes[3000];
    for (size_t i = 0; i < 49; i++) gw_udp_send(a.udp, &b_addr, bytes, i * 20);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(b_addr.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(sendto(a_udp, bytes, sizeof bytes, 0, (struct sockaddr *)&to, sizeof to), 3000);
    flock_turn_until(loop, has_fifty, &b);
    for (size_t i = 0; i < 49; i++) cr_assert_eq(b.bytes[i], i * 20);
    cr_assert_eq(b.bytes[49], GW_DATAGRAM_BYTES + 1);
    cr_assert(gw_addr_equal(&b.from, &a_addr));
    gw_udp_close(a.udp);
    gw_udp_close(b.udp);
    close(a_tcp);
    close(b_tcp);
    gw_loop_close(loop);
}

static bool has_one(void *context) {
    return ((inbox *)context)->count > 0;
}

/* The port is taken long before it is served: the peers whose datagrams arrived meanwhile may be dead. */
Test(udp, what_came_before_it_was_opened_is_dropped) {
    gw_err err;
    gw_loop *loop = gw_loop_open(&err);
    inbox a = {0}, b = {0};
    gw_addr a_addr, b_addr;
    int a_tcp, b_tcp, a_udp, b_udp;
    flock_bind(&a_addr, &a_tcp, &a_udp);
    flock_bind(&b_addr, &b_tcp, &b_udp);
    a.udp = gw_udp_open(loop, a_udp, received, &a, &err);
    for (int i = 0; i < 5; i++) gw_udp_send(a.udp, &b_addr, (const uint8_t *)"early", 5);
    b.udp = gw_udp_open(loop, b_udp, received, &b, &err);
    gw_udp_send(a.udp, &b_addr, (const uint8_t *)"x", 1);
    flock_turn_until(loop, has_one, &b);
    cr_assert_eq(b.bytes[0], 1);
    cr_assert_eq(b.count, 1);
    gw_udp_close(a.udp);
    gw_udp_close(b.udp);
    close(a_tcp);
    close(b_tcp);
    gw_loop_close(loop);
}

Test(udp, may_be_closed_from_its_own_callback) {
    gw_err err;
    gw_loop *loop = gw_loop_open(&err);
    inbox a = {.close_on_first = true};
    gw_addr addr;
    int tcp, udp;
    flock_bind(&addr, &tcp, &udp);
    a.udp = gw_udp_open(loop, udp, received, &a, &err);
    for (int i = 0; i < 5; i++) gw_udp_send(a.udp, &addr, (const uint8_t *)"x", 1);
    flock_turn_until(loop, has_one, &a);
    flock_turn(loop, 3);
    cr_assert_eq(a.count, 1);
    close(tcp);
    gw_loop_close(loop);
}
