/* The arithmetic of the `synthetic` job, for processors and GPUs. */
#ifndef GODWIT_KERNELS_JOBS_SYNTHETIC_NOISE_H
#define GODWIT_KERNELS_JOBS_SYNTHETIC_NOISE_H

#include "core/rng.h"

/* Element i of the noise `key`, uniform in [-1, 1]. */
GW_ANYWHERE static inline float synthetic_noise(uint64_t key, uint64_t i) {
    return (float)(int32_t)(gw_mix64(key + i) >> 32) * 0x1p-31f;
}

/* A shard's contribution to the sum of cell i. */
GW_ANYWHERE static inline float synthetic_push(uint64_t key, uint64_t i, float cell) {
    return synthetic_noise(key, i) + 0.125f * cell;
}

/* A cell after a step. `pushed` is the sum of the pushes, and `scale` makes it their mean. */
GW_ANYWHERE static inline float synthetic_follow(float cell, int64_t pushed, double scale) {
    return 0.75f * cell + (float)((double)pushed * scale);
}

/* The next link of the digest. */
GW_ANYWHERE static inline uint64_t synthetic_chain(uint64_t chain, int64_t pushed) {
    return gw_mix64(chain ^ (uint64_t)pushed);
}

#endif
