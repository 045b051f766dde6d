/* The Gaussian error linear unit in its tanh form, as in GPT-2 (Hendrycks and Gimpel, 2016): y = x/2 (1 +
 * tanh(sqrt(2/pi) (x + 0.044715 x^3))). Any thread. */
#ifndef GODWIT_KERNELS_MATH_GELU_H
#define GODWIT_KERNELS_MATH_GELU_H

#include <stddef.h>

/* Replaces x by y and writes dy/dx to `slope`, which is all that the backward pass needs. */
void gw_gelu_forward(size_t count, float *x, float *slope);

/* Multiplies the gradient of y by `slope`, element by element, which makes it the gradient of x. */
void gw_gelu_backward(size_t count, const float *slope, float *gradient);

#endif
