#include "net/rdma/packing.h"

#include "core/os/clock.h"
#include "core/rng.h"
#include "core/vector/pack.h"

#include <stddef.h>
#include <stdlib.h>

enum {
    CHUNK = 1 << 14,  /* elements that a ring packs at a time */
    CHUNKS = 16,      /* which differ, as the input of a sum comes from memory */
    BITS = 32,        /* of an element; sums of gradients have some more or less */
    MEASUREMENTS = 3, /* the best counts: the core may have other work at the time */
};

uint32_t gw_rdma_port_mbits(uint32_t speed, uint32_t width) {
    static const struct {
        uint32_t code, is;
    } lane_mbits[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                      {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}},
      lanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    uint32_t mbits = 0, count = 0;
    for (size_t i = 0; i < sizeof lane_mbits / sizeof lane_mbits[0]; i++)
        if (lane_mbits[i].code == speed) mbits = lane_mbits[i].is;
    for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++)
        if (lanes[i].code == width) count = lanes[i].is;
    return mbits * count;
}

/* Packs all chunks, and adds to each what was packed of it. Returns the nanoseconds that it took. */
static uint64_t time_once(int64_t *elements, uint8_t *packed) {
    const gw_vector_path *path = gw_vector_path_best();
    uint64_t since = gw_now_ns();
    for (int i = 0; i < CHUNKS; i++) {
        int64_t *chunk = elements + (size_t)i * CHUNK;
        gw_checksum packing = {.values = 0}, theirs = {.values = 0}, added = {.values = 0};
        gw_pack(path, chunk, CHUNK, packed, &packing);
        gw_unpack_add(path, packed, packed + gw_pack_head(CHUNK), CHUNK, chunk, chunk, &theirs, &added);
    }
    return gw_now_ns() - since;
}

uint32_t gw_rdma_packing_mbits(void) {
    enum { ELEMENTS = CHUNKS * CHUNK };
    int64_t *elements = malloc(ELEMENTS * sizeof *elements);
    uint8_t *packed = malloc(gw_pack_most(CHUNK));
    uint64_t best_ns = UINT64_MAX;
    gw_rng rng = gw_rng_seeded(1);
    for (int m = 0; m < MEASUREMENTS && elements != NULL && packed != NULL; m++) {
        for (int i = 0; i < ELEMENTS; i++) elements[i] = (int64_t)gw_rng_next(&rng) >> (64 - BITS);
        uint64_t ns = time_once(elements, packed);
        if (ns < best_ns) best_ns = ns;
    }
    free(elements);
    free(packed);
    uint64_t bits = (uint64_t)ELEMENTS * 64, mbits = best_ns == UINT64_MAX ? 0 : bits * 1000 / (best_ns + 1);
    return mbits < UINT32_MAX ? (uint32_t)mbits : UINT32_MAX;
}

bool gw_rdma_packs(uint32_t link, uint32_t packing, uint32_t rails) {
    return link > 0 && (uint64_t)packing * rails > link;
}
