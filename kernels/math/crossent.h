/* The last layer of a language model: softmax and cross-entropy in one pass over each row, without a second
 * matrix for the probabilities. Any thread. */
#ifndef GODWIT_KERNELS_MATH_CROSSENT_H
#define GODWIT_KERNELS_MATH_CROSSENT_H

#include <stddef.h>
#include <stdint.h>

/* For `rows` rows of `classes` logits, `stride` floats from row to row, and one target a row (< classes):
 * returns the sum of -ln p(target), added in row order. Puts the gradient (softmax - one-hot) * scale in
 * place of the logits; with scale 0 they are left holding nothing of use. A logit that is NaN or +infinity
 * makes the loss not finite, and so does one of -infinity where it is the target's, or where all of a row
 * are: any other one of -infinity is a class of probability 0. */
double gw_crossent(size_t rows, size_t classes, size_t stride, float *logits, const uint32_t *targets,
                   float scale);

#endif
