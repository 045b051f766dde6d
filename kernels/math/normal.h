/* Normal numbers for first weights. Number i is a pure function of (key, group, i) with the same bits on
 * processors and GPUs. Any thread. */
#ifndef GODWIT_KERNELS_MATH_NORMAL_H
#define GODWIT_KERNELS_MATH_NORMAL_H

#include "core/rng.h"
#include "kernels/math/vmath.h"

typedef struct gw_normals {
    float value[4];
} gw_normals;

/* Returns numbers 4 * block to 4 * block + 3, times `deviation`. Each pair of random words gives two numbers
 * (Box and Muller, 1958). */
GW_ANYWHERE static inline gw_normals gw_normals_at(uint64_t key, uint64_t group, uint64_t block,
                                                   double deviation) {
    const double turn = 0x1.921fb54442d18p2;
    gw_philox bits = gw_philox_at(key, group, block);
    gw_normals normals;
    for (int pair = 0; pair < 4; pair += 2) {
        double u = ((double)bits.words[pair] + 0.5) * 0x1p-32, v = (double)bits.words[pair + 1] * 0x1p-32;
        double radius = deviation * __builtin_sqrt(-2.0 * gw_log(u)), sine, cosine;
        gw_sincos(turn * v, &sine, &cosine);
        normals.value[pair] = (float)(radius * cosine);
        normals.value[pair + 1] = (float)(radius * sine);
    }
    return normals;
}

#endif
