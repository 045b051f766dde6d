/* Reproducible random numbers.
 *
 * Philox4x32-10 is for results: a counter-based generator (Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3", SC'11), which is a pure function of key and counter, so that a job's random numbers need no
 * state. gw_rng is for protocol jitter and simulation: a small sequential generator, xoshiro256** (Blackman
 * and Vigna, "Scrambled linear pseudorandom number generators", 2018). */
#ifndef GODWIT_CORE_RNG_H
#define GODWIT_CORE_RNG_H

#include "core/base/anywhere.h"
#include "core/base/mix.h"

#include <stdint.h>

typedef struct gw_philox {
    uint32_t words[4];
} gw_philox;

/* The 128 random bits at the counter (counter_high, counter_low) of stream `key`. Any thread. */
GW_ANYWHERE static inline gw_philox gw_philox_at(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    gw_philox c = {{(uint32_t)counter_low, (uint32_t)(counter_low >> 32), (uint32_t)counter_high,
                    (uint32_t)(counter_high >> 32)}};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c.words[0], b = (uint64_t)0xCD9E8D57u * c.words[2];
        uint32_t next0 = (uint32_t)(b >> 32) ^ c.words[1] ^ k0;
        uint32_t next2 = (uint32_t)(a >> 32) ^ c.words[3] ^ k1;
        c.words[1] = (uint32_t)b;
        c.words[3] = (uint32_t)a;
        c.words[0] = next0;
        c.words[2] = next2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

typedef struct gw_rng {
    uint64_t state[4];
} gw_rng;

gw_rng gw_rng_seeded(uint64_t seed);
uint64_t gw_rng_next(gw_rng *rng);
/* A number uniform in [0, bound), without bias. `bound` must not be 0. */
uint64_t gw_rng_below(gw_rng *rng, uint64_t bound);
/* A number uniform in [0, 1). */
double gw_rng_unit(gw_rng *rng);

#endif
