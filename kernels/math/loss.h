/* Softmax and cross-entropy of a classifier's last layer. */
#ifndef GODWIT_KERNELS_MATH_LOSS_H
#define GODWIT_KERNELS_MATH_LOSS_H

#include <stddef.h>
#include <stdint.h>

typedef struct gw_loss {
    double sum;      /* sum of -ln p(label) over the rows, added in row order */
    int64_t correct; /* rows whose largest logit (the first of equals) is the label's */
} gw_loss;

/* Computes the loss of logits[rows, classes], with a label below `classes` for each row; the gradient
 * (softmax - one-hot) * scale replaces the logits. Nothing is clamped: a row with a logit that is NaN or
 * +infinity has a loss and a gradient that are not finite. A logit of -infinity is a class of probability 0;
 * the loss is infinite where it is the label's, and nothing is finite where all of a row are. With scale 0
 * the logits are undefined afterwards. The sum within a row runs in the order of the classes. Any thread. */
gw_loss gw_loss_softmax(float *logits, const uint8_t *labels, size_t rows, size_t classes, float scale);

#endif
