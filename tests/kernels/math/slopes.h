/* Compares gradients with finite differences of a loss that is computed in double. */
#ifndef GODWIT_TESTS_KERNELS_MATH_SLOPES_H
#define GODWIT_TESTS_KERNELS_MATH_SLOPES_H

#include <stddef.h>
#include <stdint.h>

typedef double slopes_loss(const void *context);

/* Moves every `stride`-th element of x[0 .. count) a little up and down, and compares the central difference
 * of `loss`, which computes from x, with `gradient`, relative to 1 + its size. x is restored afterwards. */
void slopes_check(slopes_loss *loss, const void *context, double *x, size_t count, size_t stride,
                  const float *gradient, double tolerance, const char *what);

/* Random numbers uniform in [-size, size] that are exact in float, so that both sides of a comparison use the
 * same. */
void slopes_fill(uint64_t seed, size_t count, double size, double *wide, float *narrow);

/* Returns the hash of floats as hexadecimal text, to compare with pinned bits; valid until the next call. */
const char *slopes_hash(const float *values, size_t count);

#endif
