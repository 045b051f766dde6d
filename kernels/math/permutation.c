#include "kernels/math/permutation.h"

#include "core/base/assert.h"
#include "core/rng.h"

gw_permutation gw_permutation_of(uint64_t seed, uint64_t epoch, uint64_t count) {
    GW_ASSERT(count >= 1 && count <= UINT64_C(1) << 62);
    gw_permutation permutation = {.count = count, .half_bits = 1};
    while (UINT64_C(1) << (2 * permutation.half_bits) < count) permutation.half_bits++;
    for (uint64_t i = 0; i < GW_PERMUTATION_ROUNDS; i += 2) {
        gw_philox bits = gw_philox_at(seed, epoch, i);
        permutation.round_key[i] = (uint64_t)bits.words[0] << 32 | bits.words[1];
        permutation.round_key[i + 1] = (uint64_t)bits.words[2] << 32 | bits.words[3];
    }
    return permutation;
}

uint64_t gw_permutation_at(const gw_permutation *permutation, uint64_t position) {
    GW_ASSERT(position < permutation->count);
    uint32_t bits = permutation->half_bits;
    uint64_t mask = (UINT64_C(1) << bits) - 1, value = position;
    do {
        uint64_t left = value >> bits, right = value & mask;
        for (int i = 0; i < GW_PERMUTATION_ROUNDS; i++) {
            uint64_t next = left ^ (gw_mix64(right ^ permutation->round_key[i]) & mask);
            left = right;
            right = next;
        }
        value = left << bits | right;
    } while (value >= permutation->count);
    return value;
}
