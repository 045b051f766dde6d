/* Softmax and cross-entropy of a classifier's last layer. */
#ifndef GODWIT_KERNELS_MATH_LOSS_H
#define GODWIT_KERNELS_MATH_LOSS_H

#include <stddef.h>
#include <stdint.h>

typedef struct gw_loss {
    double sum;      /* of -ln p(label) over the rows, added in row order */
    int64_t correct; /* rows whose largest logit (the first of equals) is the label's */
} gw_loss;

/* For `rows` x `classes` logits (row-major) and one label a row (each < classes): the loss, and in place of
 * the logits its gradient (softmax - one-hot) * scale. A row with a logit that is NaN or +infinity yields a
 * loss and a gradient that are not finite: nothing is clamped. One of -infinity is a class of probability 0,
 * and the loss is infinite where it is the label's; where all of a row are, nothing is finite. With scale 0
 * the logits are left holding nothing of use. The sum within a row is taken in the order of the classes. Any
 * thread. */
gw_loss gw_loss_softmax(float *logits, const uint8_t *labels, size_t rows, size_t classes, float scale);

#endif
