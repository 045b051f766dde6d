#include "core/rng.h"

#include "core/check.h"

gw_philox gw_philox_at(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c[4] = {(uint32_t)counter_low, (uint32_t)(counter_low >> 32), (uint32_t)counter_high,
                     (uint32_t)(counter_high >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next0 = (uint32_t)(b >> 32) ^ c[1] ^ k0, next2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)b;
        c[3] = (uint32_t)a;
        c[0] = next0;
        c[2] = next2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (gw_philox){{c[0], c[1], c[2], c[3]}};
}

uint64_t gw_mix64(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

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
    GW_CHECK(bound > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound, value;
    do value = gw_rng_next(rng);
    while (value >= limit);
    return value % bound;
}

double gw_rng_unit(gw_rng *rng) {
    return (double)(gw_rng_next(rng) >> 11) * 0x1p-53;
}
