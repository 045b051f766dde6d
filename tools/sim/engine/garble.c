#include "tools/sim/engine/garble.h"

#include "core/base/assert.h"
#include "net/secure/packet.h"

#include <stdlib.h>

struct gw_sim_garbler {
    gw_packets *sender, *receiver;
    uint64_t now_ns; /* rises with each datagram */
};

static gw_packets *open_end(uint8_t number) {
    static const gw_keyring plain;
    static const gw_hash cluster = {{'s', 'i', 'm'}};
    const uint8_t seed[32] = {number};
    gw_identity identity;
    gw_err err;
    gw_identity_from_seed(seed, 1, number, &identity);
    gw_packets *packets = gw_packets_open(&identity, &plain, &cluster, &err);
    GW_ASSERT(packets != NULL);
    return packets;
}

gw_sim_garbler *gw_sim_garbler_open(void) {
    gw_sim_garbler *garbler = calloc(1, sizeof *garbler);
    GW_ASSERT_MEMORY(garbler != NULL);
    garbler->sender = open_end(1);
    garbler->receiver = open_end(2);
    return garbler;
}

void gw_sim_garbler_close(gw_sim_garbler *garbler) {
    if (garbler == NULL) return;
    gw_packets_close(garbler->sender);
    gw_packets_close(garbler->receiver);
    free(garbler);
}

bool gw_sim_garbler_passes(gw_sim_garbler *garbler, gw_rng *rng, const uint8_t *body, size_t length) {
    enum { MOST_FLIPS = 4 };
    uint8_t datagram[GW_DATAGRAM_BYTES];
    size_t bytes = gw_packet_seal(garbler->sender, body, length, datagram), flips[MOST_FLIPS], count = 0;
    if (gw_rng_below(rng, 8) == 0) {
        bytes = (size_t)gw_rng_below(rng, bytes);
    } else {
        uint64_t wanted = 1 + gw_rng_below(rng, MOST_FLIPS);
        while (count < wanted) { /* different bits: one that flips twice is unchanged */
            size_t bit = (size_t)gw_rng_below(rng, bytes * 8);
            bool there = false;
            for (size_t i = 0; i < count; i++) there |= flips[i] == bit;
            if (there) continue;
            flips[count++] = bit;
            datagram[bit / 8] = (uint8_t)(datagram[bit / 8] ^ 1U << bit % 8);
        }
    }
    const gw_addr from = {.family = 4, .ip = {10, 0, 0, 1}, .port = 7117};
    gw_peer_id sender;
    const uint8_t *opened;
    size_t opened_bytes;
    garbler->now_ns++;
    return gw_packet_open(garbler->receiver, &from, datagram, bytes, garbler->now_ns, &sender, &opened,
                          &opened_bytes) == GW_PACKET_GOOD;
}
