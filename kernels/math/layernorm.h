/* Layer normalisation (Ba, Kiros and Hinton, 2016) of the rows of a matrix, forward and backward.
 *
 * Matrices are row-major [rows, channels]. Sums over a row have the order of kernels/math/vector.h, sums
 * over rows run in row order. Any thread. */
#ifndef GODWIT_KERNELS_MATH_LAYERNORM_H
#define GODWIT_KERNELS_MATH_LAYERNORM_H

#include <stddef.h>

#define GW_LAYERNORM_EPSILON 1e-5f

/* Writes (x - mean) / sqrt(variance + epsilon) * weight + bias to y, where mean and variance are the row's.
 * It also writes each row's mean to mean[rows] and 1 / sqrt(variance + epsilon) to scale[rows], for backward.
 */
void gw_layernorm_forward(size_t rows, size_t channels, const float *x, const float *weight,
                          const float *bias, float *y, float *mean, float *scale);

/* Adds the gradient of x to dx and writes the gradients of weight and bias, [channels] each, from dy, the
 * gradient of y. */
void gw_layernorm_backward(size_t rows, size_t channels, const float *x, const float *weight,
                           const float *mean, const float *scale, const float *dy, float *dx, float *dweight,
                           float *dbias);

#endif
