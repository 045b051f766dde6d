/* Target of packed vectors (core/vector/pack.h): two bytes with the number of elements, and then the vector. */
#include "core/rng.h"
#include "core/vector/pack.h"
#include "tests/fuzz/target.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 2, MOST = 3 * GW_PACK_BLOCK, PACKED = GW_PACK_LINE + 8 * (MOST + 8) };

static void packed_examples(fuzz_add *add, void *context) {
    static const uint32_t counts[] = {0, 1, 8, 9, 100, GW_PACK_BLOCK, GW_PACK_BLOCK + 1, MOST};
    static int64_t elements[MOST];
    static uint8_t bytes[HEAD + PACKED];
    gw_rng rng = gw_rng_seeded(6);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        for (uint32_t bits = 1; bits <= 64; bits += 9) {
            for (uint32_t i = 0; i < counts[k]; i++)
                elements[i] = i / GW_PACK_BLOCK == 1 ? 0 : (int64_t)gw_rng_next(&rng) >> (64 - bits);
            bytes[0] = (uint8_t)counts[k];
            bytes[1] = (uint8_t)(counts[k] >> 8);
            add(context, bytes,
                HEAD + gw_pack(gw_vector_path_best(), elements, counts[k], bytes + HEAD, NULL));
        }
}

static uint64_t checksum_of(const int64_t *elements, uint32_t count) {
    gw_checksum checksum = {.values = 0};
    gw_checksum_add(&checksum, elements, count * sizeof *elements);
    return gw_checksum_end(&checksum);
}

/* Checks that all paths read the same elements, and that the bytes are those of the elements if they are the least. */
static void take_elements(const uint8_t *packed, uint64_t bytes, uint32_t count, const int64_t *elements) {
    static int64_t found[MOST], ours[MOST];
    static uint8_t again[PACKED];
    uint64_t checksum = checksum_of(elements, count);
    uint32_t paths;
    const gw_vector_path *const *path = gw_vector_paths(&paths);
    const uint8_t *blocks = packed + gw_pack_head(count);
    for (uint32_t p = 0; p < paths; p++) {
        gw_checksum unpacked = {.values = 0}, before = {.values = 0}, after = {.values = 0},
                    packing = {.values = 0};
        GW_ASSERT(gw_unpack_blocks(path[p], packed, blocks, count, found, &unpacked) ==
                  bytes - gw_pack_head(count));
        GW_ASSERT(memcmp(found, elements, count * sizeof *found) == 0);
        for (uint32_t i = 0; i < count; i++) ours[i] = (int64_t)(UINT64_C(1) << 63 | i);
        gw_unpack_add(path[p], packed, blocks, count, ours, ours, &before, &after);
        for (uint32_t i = 0; i < count; i++)
            GW_ASSERT((uint64_t)ours[i] == (UINT64_C(1) << 63 | i) + (uint64_t)elements[i]);
        uint64_t length = gw_pack(path[p], elements, count, again, &packing);
        bool same = length == bytes && memcmp(again, packed, bytes) == 0;
        GW_ASSERT(length <= bytes && same == gw_packed_is_least(path[p], packed, count));
        GW_ASSERT(gw_checksum_end(&unpacked) == checksum && gw_checksum_end(&before) == checksum);
        GW_ASSERT(gw_checksum_end(&packing) == checksum &&
                  gw_checksum_end(&after) == checksum_of(ours, count));
    }
}

static bool take_packed(const uint8_t *bytes, size_t count) {
    gw_err err;
    if (count < HEAD) return false;
    uint32_t elements = ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8) % (MOST + 1);
    uint64_t length = count - HEAD;
    uint8_t *packed =
        malloc(length > 0 ? length : 1); /* so long, that the sanitizer sees what is read behind it */
    int64_t *unpacked = malloc((elements + 1) * sizeof *unpacked);
    GW_ASSERT_MEMORY(packed != NULL && unpacked != NULL);
    memcpy(packed, bytes + HEAD, length);
    bool good = gw_packed_check(packed, length, elements, &err);
    if (good) {
        gw_unpack_blocks(gw_vector_path_best(), packed, packed + gw_pack_head(elements), elements, unpacked,
                         NULL);
        take_elements(packed, length, elements, unpacked);
    }
    free(packed);
    free(unpacked);
    return good;
}

const fuzz_target fuzz_packed = {"packed", 200000, HEAD + PACKED, packed_examples, NULL, take_packed};
