/* The arithmetic of the `synthetic` job, for processors and GPUs. */
#ifndef GODWIT_KERNELS_JOBS_SYNTHETIC_NOISE_H
#define GODWIT_KERNELS_JOBS_SYNTHETIC_NOISE_H

#include "core/rng.h"

/* Uniform in [-1, 1], element i of the noise `key`. */
GW_ANYWHERE static inline float synthetic_noise(uint64_t key, uint64_t i) {
    return (float)(int32_t)(gw_mix64(key + i) >> 32) * 0x1p-31f;
}

/* What a shard pushes at a cell. */
GW_ANYWHERE static inline float synthetic_push(uint64_t key, uint64_t i, float cell) {
    return synthetic_noise(key, i) + 0.125f * cell;
}

/* A cell after a step: `pushed` is the sum of what was pushed at it, `scale` makes it the mean. */
GW_ANYWHERE static inline float synthetic_follow(float cell, int64_t pushed, double scale) {
    return 0.75f * cell + (float)((double)pushed * scale);
}

/* The digest's next link. */
GW_ANYWHERE static inline uint64_t synthetic_chain(uint64_t chain, int64_t pushed) {
    return gw_mix64(chain ^ (uint64_t)pushed);
}

#endif
