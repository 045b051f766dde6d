/* Random numbers, all of them reproducible.
 *
 * Philox4x32-10: a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11): a pure function of key and counter, so a job's random numbers need no state. For results. gw_rng: a
 * small sequential generator (xoshiro256**, Blackman and Vigna 2018) for protocol jitter and simulation. */
#ifndef GODWIT_CORE_RNG_H
#define GODWIT_CORE_RNG_H

#include <stdint.h>

typedef struct gw_philox {
    uint32_t words[4];
} gw_philox;

/* The 128 random bits at `counter` of the stream `key`. */
gw_philox gw_philox_at(uint64_t key, uint64_t counter_high, uint64_t counter_low);

/* A good 64-bit mix (splitmix64's finalizer): equal inputs, equal outputs; neighbours unrelated. */
uint64_t gw_mix64(uint64_t x);

typedef struct gw_rng {
    uint64_t state[4];
} gw_rng;

gw_rng gw_rng_seeded(uint64_t seed);
uint64_t gw_rng_next(gw_rng *rng);
/* Uniform in [0, bound), without bias; bound > 0. */
uint64_t gw_rng_below(gw_rng *rng, uint64_t bound);
/* Uniform in [0, 1). */
double gw_rng_unit(gw_rng *rng);

#endif
