#include "core/rng.h"

#include "core/base/assert.h"

gw_rng gw_rng_seeded(uint64_t seed) {
    gw_rng rng;
    for (int i = 0; i < 4; i++) rng.state[i] = gw_mix64(seed + (uint64_t)i * 0x9E3779B97F4A7C15u);
    return rng;
}

static uint64_t rotate_left(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

uint64_t gw_rng_next(gw_rng *rng) {
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t gw_rng_below(gw_rng *rng, uint64_t bound) {
    GW_ASSERT(bound > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound, value;
    do value = gw_rng_next(rng);
    while (value >= limit);
    return value % bound;
}

double gw_rng_unit(gw_rng *rng) {
    return (double)(gw_rng_next(rng) >> 11) * 0x1p-53;
}
