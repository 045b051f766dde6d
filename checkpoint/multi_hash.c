#include "checkpoint/multi_hash.h"

#include "core/base/assert.h"

#include <string.h>

enum { WAYS = 4, BLOCK_BYTES = 128, WORDS = 16 };

static void hash_one(const gw_hash_input *input) {
    gw_blake2b(input->bytes, input->length, input->hash->bytes, sizeof input->hash->bytes);
}

#if defined(__x86_64__)

typedef uint64_t words __attribute__((vector_size(32))); /* the same word of each of the four messages */
typedef uint8_t octets __attribute__((vector_size(32)));

#define AVX2   __attribute__((target("avx2")))
#define INLINE AVX2 __attribute__((always_inline)) static inline

static const uint64_t initial[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t schedule[12][WORDS] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

/* Rotations to the right. A rotation by whole bytes is one shuffle. */
INLINE words rotate_32(words x) {
    return (words)__builtin_shufflevector((octets)x, (octets)x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9,
                                          10, 11, 20, 21, 22, 23, 16, 17, 18, 19, 28, 29, 30, 31, 24, 25, 26,
                                          27);
}
INLINE words rotate_24(words x) {
    return (words)__builtin_shufflevector((octets)x, (octets)x, 3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8,
                                          9, 10, 19, 20, 21, 22, 23, 16, 17, 18, 27, 28, 29, 30, 31, 24, 25,
                                          26);
}
INLINE words rotate_16(words x) {
    return (words)__builtin_shufflevector((octets)x, (octets)x, 2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14,
                                          15, 8, 9, 18, 19, 20, 21, 22, 23, 16, 17, 26, 27, 28, 29, 30, 31,
                                          24, 25);
}
INLINE words rotate_63(words x) {
    return (x + x) | (x >> 63);
}

INLINE void mix(words *v, int a, int b, int c, int d, words x, words y) {
    v[a] += v[b] + x;
    v[d] = rotate_32(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_24(v[b] ^ v[c]);
    v[a] += v[b] + y;
    v[d] = rotate_16(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_63(v[b] ^ v[c]);
}

/* Loads one block of each message and transposes them: m[i] becomes word i of all four messages. */
INLINE void load_block(const uint8_t *const bytes[WAYS], size_t offset, words *m) {
    for (int i = 0; i < WORDS; i += WAYS) {
        words row[WAYS];
        for (int way = 0; way < WAYS; way++) memcpy(&row[way], bytes[way] + offset + 8 * i, sizeof *row);
        words even01 = __builtin_shufflevector(row[0], row[1], 0, 4, 2, 6);
        words odd01 = __builtin_shufflevector(row[0], row[1], 1, 5, 3, 7);
        words even23 = __builtin_shufflevector(row[2], row[3], 0, 4, 2, 6);
        words odd23 = __builtin_shufflevector(row[2], row[3], 1, 5, 3, 7);
        m[i + 0] = __builtin_shufflevector(even01, even23, 0, 1, 4, 5);
        m[i + 1] = __builtin_shufflevector(odd01, odd23, 0, 1, 4, 5);
        m[i + 2] = __builtin_shufflevector(even01, even23, 2, 3, 6, 7);
        m[i + 3] = __builtin_shufflevector(odd01, odd23, 2, 3, 6, 7);
    }
}

INLINE void compress(words *h, const words *m, uint64_t count, bool last) {
    words v[WORDS];
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = (words){0} + initial[i];
    }
    v[12] ^= count; /* the upper word of the byte counter stays 0, as messages are below 2^64 bytes */
    if (last) v[14] = ~v[14];
#pragma GCC unroll 12
    for (int round = 0; round < 12; round++) {
        const uint8_t *s = schedule[round];
        mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
}

/* Hashes four messages of one length, which is a multiple of the block. */
AVX2 static void hash_four(const gw_hash_input *inputs) {
    const uint8_t *const bytes[WAYS] = {inputs[0].bytes, inputs[1].bytes, inputs[2].bytes, inputs[3].bytes};
    size_t length = inputs[0].length;
    GW_ASSERT(length > 0 && length % BLOCK_BYTES == 0);
    words h[8], m[WORDS];
    for (int i = 0; i < 8; i++) h[i] = (words){0} + initial[i];
    h[0] ^= 0x01010000u ^ sizeof(gw_hash); /* parameter block: no key, fan-out 1, depth 1, digest length */
    for (size_t offset = 0; offset < length; offset += BLOCK_BYTES) {
        load_block(bytes, offset, m);
        compress(h, m, offset + BLOCK_BYTES, offset + BLOCK_BYTES == length);
    }
    for (int way = 0; way < WAYS; way++)
        for (size_t i = 0; i < sizeof(gw_hash) / 8; i++) {
            uint64_t word = h[i][way];
            memcpy(inputs[way].hash->bytes + 8 * i, &word, 8);
        }
}

static bool can_go_together(const gw_hash_input *inputs) {
    size_t length = inputs[0].length;
    for (int i = 1; i < WAYS; i++)
        if (inputs[i].length != length) return false;
    return length > 0 && length % BLOCK_BYTES == 0 && __builtin_cpu_supports("avx2");
}

#else

static bool can_go_together(const gw_hash_input *inputs) {
    (void)inputs;
    return false;
}
static void hash_four(const gw_hash_input *inputs) {
    for (int i = 0; i < WAYS; i++) hash_one(&inputs[i]);
}

#endif

void gw_multi_hash(const gw_hash_input *inputs, size_t count) {
    size_t i = 0;
    while (i < count) {
        bool four = count - i >= WAYS && can_go_together(inputs + i);
        if (four)
            hash_four(inputs + i);
        else
            hash_one(inputs + i);
        i += four ? WAYS : 1;
    }
}
