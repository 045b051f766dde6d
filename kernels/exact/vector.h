/* The parts of kernels/exact/exact.h that are alike for all vector widths. A file for one instruction set
 * includes this header after it has defined
 *
 * - TARGET, the attribute that selects the instruction set;
 * - vector, the type of a vector of 64-bit integers, and VECTOR, the number of its elements;
 * - OP(name), the intrinsic of that name, such as add_epi64, and XOR and OR, the bitwise ones;
 * - fill, which sets all elements to a value, load_vector and store_vector, for unaligned memory;
 * - weyl_at(i), the Weyl values of VECTOR consecutive elements from element i on, in the low halves of the
 *   vector's elements. */
#ifndef GODWIT_KERNELS_EXACT_VECTOR_H
#define GODWIT_KERNELS_EXACT_VECTOR_H

#include "kernels/exact/inside.h"

enum { BLOCK = 2 * VECTOR, LINE_WORDS = 8 /* words of a cache line */ };

/* The keys of consecutive elements from their Weyl values. (A 32x32 multiplication does not read the high
 * halves of the vector's elements.) */
TARGET static inline vector keys_of(vector weyl) {
    vector mixed = XOR(weyl, OP(srli_epi32)(weyl, 15));
    return OR(mixed, fill(1));
}

/* The distance of Weyl values that lie VECTOR elements apart. */
TARGET static inline vector weyl_step(void) {
    return fill((int64_t)(uint32_t)(VECTOR * GW_EXACT_WEYL));
}

/* A fingerprint in two parts, the sums of the key times the low and the high word of q. The fingerprint is
 * low + 2^32 * high. */
typedef struct halves {
    vector low, high;
} halves;

TARGET static inline halves no_halves(void) {
    return (halves){fill(0), fill(0)};
}

TARGET static inline void multiply_in(halves *sum, vector q, vector key) {
    sum->low = OP(add_epi64)(sum->low, OP(mul_epu32)(q, key));
    sum->high = OP(add_epi64)(sum->high, OP(mul_epu32)(OP(srli_epi64)(q, 32), key));
}

/* The fingerprint. Its sum must wrap; the intrinsics that reduce a vector end in a signed addition. */
TARGET static inline uint64_t total(const halves *sum) {
    uint64_t element[VECTOR], whole = 0;
    store_vector((int64_t *)element, OP(add_epi64)(sum->low, OP(slli_epi64)(sum->high, 32)));
    for (int i = 0; i < VECTOR; i++) whole += element[i];
    return whole;
}

TARGET static inline vector load(const int64_t *from, bool spread) {
    vector words = load_vector(from);
    return spread ? XOR(words, OP(srli_epi64)(words, GW_EXACT_SPREAD)) : words;
}

/* The fingerprint of whole blocks. */
TARGET static inline __attribute__((always_inline)) uint64_t print_blocks(uint64_t first, uint64_t count,
                                                                          const int64_t *data, bool spread) {
    halves print[2] = {no_halves(), no_halves()};
    vector weyl = weyl_at(first);
    for (uint64_t i = 0; i < count; i += BLOCK) {
        for (int word = 0; word < BLOCK; word += LINE_WORDS) gw_exact_fetch_ahead(data + i + word);
        vector upper = OP(add_epi32)(weyl, weyl_step());
        multiply_in(&print[0], load(data + i, spread), keys_of(weyl));
        multiply_in(&print[1], load(data + i + VECTOR, spread), keys_of(upper));
        weyl = OP(add_epi32)(upper, weyl_step());
    }
    return total(&print[0]) + total(&print[1]);
}

TARGET static uint64_t fingerprint(uint64_t first, uint64_t count, const int64_t *data) {
    uint64_t rest = count % BLOCK, whole = count - rest;
    return print_blocks(first, whole, data, false) + gw_exact_fingerprint(first + whole, rest, data + whole);
}

TARGET static uint64_t state_fingerprint(uint64_t first, uint64_t count, const int64_t *words) {
    uint64_t rest = count % BLOCK, whole = count - rest;
    return print_blocks(first, whole, words, true) +
           gw_exact_state_fingerprint(first + whole, 8 * rest, words + whole);
}

#endif
