/* Vectors of sixteen floats, which the compiler computes in registers of the processor's width. A sum over an
 * array adds array element i to vector element i mod 16, and adds the vector's elements as a tree at the end.
 * The order of additions, and so the result, is the same for every instruction set (kernels/math/clones.h).
 */
#ifndef GODWIT_KERNELS_MATH_VECTOR_H
#define GODWIT_KERNELS_MATH_VECTOR_H

#include <stddef.h>
#include <string.h>

enum { GW_VECTOR_ELEMENTS = 16 };

/* Loads and stores through a pointer to gw_vector need only a float's alignment. */
typedef float gw_vector __attribute__((vector_size(64), aligned(4), may_alias));

/* A function with GW_VECTOR_INLINE is built for each instruction set of the GW_CLONES function that calls it.
 */
#define GW_VECTOR_INLINE static inline __attribute__((always_inline))

/* Adds the elements as a tree: i and i + 8, then i and i + 4, i + 2, i + 1. */
GW_VECTOR_INLINE float gw_vector_sum(const gw_vector *vector) {
    float element[GW_VECTOR_ELEMENTS];
    memcpy(element, vector, sizeof element);
    for (size_t width = GW_VECTOR_ELEMENTS / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++) element[i] += element[i + width];
    return element[0];
}

/* The largest of `least` and values[0 .. count); a NaN is never the largest. */
GW_VECTOR_INLINE float gw_vector_largest(const float *values, size_t count, float least) {
    float element[GW_VECTOR_ELEMENTS];
    for (size_t l = 0; l < GW_VECTOR_ELEMENTS; l++) element[l] = least;
    size_t i = 0;
    for (; i + GW_VECTOR_ELEMENTS <= count; i += GW_VECTOR_ELEMENTS)
        for (size_t l = 0; l < GW_VECTOR_ELEMENTS; l++)
            element[l] = values[i + l] > element[l] ? values[i + l] : element[l];
    for (size_t l = 0; i + l < count; l++)
        element[l] = values[i + l] > element[l] ? values[i + l] : element[l];
    for (size_t width = GW_VECTOR_ELEMENTS / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            element[l] = element[l + width] > element[l] ? element[l + width] : element[l];
    return element[0];
}

#endif
