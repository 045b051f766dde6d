/* Gradients against finite differences of a loss that is computed in double. */
#ifndef GODWIT_TESTS_KERNELS_MATH_SLOPES_H
#define GODWIT_TESTS_KERNELS_MATH_SLOPES_H

#include <stddef.h>
#include <stdint.h>

typedef double slopes_loss(const void *context);

/* Moves every `stride`-th of x[0 .. count) a little up and down and compares the central difference of `loss`
 * with `gradient`, relative to 1 + its size. x is what `loss` computes from, and is as before afterwards. */
void slopes_check(slopes_loss *loss, const void *context, double *x, size_t count, size_t stride,
                  const float *gradient, double tolerance, const char *what);

/* Uniform in [-size, size], and the same rounded to float and back: what both sides of a comparison see. */
void slopes_fill(uint64_t seed, size_t count, double size, double *wide, float *narrow);

/* The hash of floats, as hexadecimal text, for pinned bits. Valid until the next call. */
const char *slopes_hash(const float *values, size_t count);

#endif
