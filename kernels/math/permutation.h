/* A keyed permutation of 0 .. count-1 that needs neither memory nor state, for the order of an epoch's
 * samples.
 *
 * It is a balanced Feistel network over the smallest even number of bits that holds `count`, with cycle
 * walking: a value outside the domain is enciphered again until it falls inside (Black and Rogaway, "Ciphers
 * with arbitrary finite domains", CT-RSA 2002). Fewer than four passes are expected. It shuffles; it keeps no
 * secrets. */
#ifndef GODWIT_KERNELS_MATH_PERMUTATION_H
#define GODWIT_KERNELS_MATH_PERMUTATION_H

#include <stdint.h>

enum { GW_PERMUTATION_ROUNDS = 8 };

typedef struct gw_permutation {
    uint64_t count;
    uint32_t half_bits;
    uint64_t round_key[GW_PERMUTATION_ROUNDS];
} gw_permutation;

/* The permutation of 0 .. count-1 for (seed, epoch); `count` is 1 to 2^62. Pure. */
gw_permutation gw_permutation_of(uint64_t seed, uint64_t epoch, uint64_t count);

/* The image of `position`, which is below `count`. Pure; any thread. */
uint64_t gw_permutation_at(const gw_permutation *permutation, uint64_t position);

#endif
