#include "kernels/math/dropout.h"

#include "core/rng.h"
#include "kernels/math/clones.h"

enum { WORDS = 4, STRETCH = 256 };

/* Computes gw_philox_at for `blocks` consecutive counters, side by side. */
GW_CLONES static void draw(uint64_t key, uint64_t stream, uint64_t counter, size_t blocks, uint32_t *words) {
    uint32_t c0[STRETCH / WORDS + 1], c1[STRETCH / WORDS + 1], c2[STRETCH / WORDS + 1],
        c3[STRETCH / WORDS + 1];
    for (size_t i = 0; i < blocks; i++) {
        c0[i] = (uint32_t)(counter + i);
        c1[i] = (uint32_t)((counter + i) >> 32);
        c2[i] = (uint32_t)stream;
        c3[i] = (uint32_t)(stream >> 32);
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        for (size_t i = 0; i < blocks; i++) {
            uint64_t a = (uint64_t)0xD2511F53u * c0[i], b = (uint64_t)0xCD9E8D57u * c2[i];
            uint32_t next0 = (uint32_t)(b >> 32) ^ c1[i] ^ k0, next2 = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)b;
            c3[i] = (uint32_t)a;
            c0[i] = next0;
            c2[i] = next2;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (size_t i = 0; i < blocks; i++) {
        words[WORDS * i] = c0[i];
        words[WORDS * i + 1] = c1[i];
        words[WORDS * i + 2] = c2[i];
        words[WORDS * i + 3] = c3[i];
    }
}

GW_CLONES static void mask(const uint32_t *restrict words, uint32_t threshold, float scale, size_t count,
                           float *restrict values) {
    for (size_t i = 0; i < count; i++) values[i] = words[i] < threshold ? 0.0f : values[i] * scale;
}

void gw_dropout_apply(const gw_dropout *dropout, uint64_t first, size_t count, float *values) {
    if (dropout->rate <= 0.0f) return;
    uint32_t threshold = gw_dropout_threshold(dropout->rate);
    float scale = gw_dropout_scale(dropout->rate);
    uint32_t words[STRETCH + WORDS];
    while (count > 0) {
        size_t skip = first % WORDS, n = count < STRETCH - skip ? count : STRETCH - skip;
        draw(dropout->key, dropout->stream, first / WORDS, (skip + n + WORDS - 1) / WORDS, words);
        mask(words + skip, threshold, scale, n, values);
        first += n;
        values += n;
        count -= n;
    }
}
