/* Sixteen floats that are computed side by side, in vectors of the processor's width. A sum over an array
 * adds element i to lane i mod 16 and adds the lanes as a tree at the end. The order of additions, and so the
 * result, is the same for every instruction set (kernels/math/clones.h). */
#ifndef GODWIT_KERNELS_MATH_LANES_H
#define GODWIT_KERNELS_MATH_LANES_H

#include <stddef.h>
#include <string.h>

enum { GW_LANES = 16 };

/* Loads and stores through a pointer to gw_lanes need only a float's alignment. */
typedef float gw_lanes __attribute__((vector_size(64), aligned(4), may_alias));

/* A function with GW_LANES_INLINE is built for each instruction set of the GW_CLONES function that calls it.
 */
#define GW_LANES_INLINE static inline __attribute__((always_inline))

/* Adds the lanes as a tree: 0 with 8, then 4, 2, 1. */
GW_LANES_INLINE float gw_lanes_sum(const gw_lanes *lanes) {
    float lane[GW_LANES];
    memcpy(lane, lanes, sizeof lane);
    for (size_t width = GW_LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

/* The largest of `least` and values[0 .. count); a NaN is never the largest. */
GW_LANES_INLINE float gw_lanes_largest(const float *values, size_t count, float least) {
    float lane[GW_LANES];
    for (size_t l = 0; l < GW_LANES; l++) lane[l] = least;
    size_t i = 0;
    for (; i + GW_LANES <= count; i += GW_LANES)
        for (size_t l = 0; l < GW_LANES; l++) lane[l] = values[i + l] > lane[l] ? values[i + l] : lane[l];
    for (size_t l = 0; i + l < count; l++) lane[l] = values[i + l] > lane[l] ? values[i + l] : lane[l];
    for (size_t width = GW_LANES / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++) lane[l] = lane[l + width] > lane[l] ? lane[l + width] : lane[l];
    return lane[0];
}

#endif
