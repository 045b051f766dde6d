/* The last layer of a language model: softmax and cross-entropy in one pass over each row, without a matrix
 * of probabilities. Any thread. */
#ifndef GODWIT_KERNELS_MATH_CROSSENT_H
#define GODWIT_KERNELS_MATH_CROSSENT_H

#include <stddef.h>
#include <stdint.h>

/* Takes `rows` rows of `classes` logits, which lie `stride` floats apart, and a target below `classes` for
 * each row. Returns the sum of -ln p(target), added in row order. The gradient (softmax - one-hot) * scale
 * replaces the logits; with scale 0 they are undefined afterwards. A logit that is NaN or +infinity makes the
 * loss not finite. A logit of -infinity is a class of probability 0; it makes the loss not finite where it is
 * the target's, or where all of a row are -infinity. */
double gw_crossent(size_t rows, size_t classes, size_t stride, float *logits, const uint32_t *targets,
                   float scale);

#endif
