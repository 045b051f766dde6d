/* Softmax and cross-entropy of a classifier's last layer. */
#ifndef GODWIT_KERNELS_LOSS_H
#define GODWIT_KERNELS_LOSS_H

#include <stddef.h>
#include <stdint.h>

typedef struct gw_loss {
    double sum;      /* of -ln p(label) over the rows, added in row order */
    int64_t correct; /* rows whose largest logit (the first of equals) is the label's */
} gw_loss;

/* For `rows` x `classes` logits (row-major) and one label a row (each < classes): the loss, and in place of
 * the logits its gradient (softmax - one-hot) * scale. A row with a logit that is not finite yields values
 * that are not finite: nothing is clamped. With scale 0 the logits are left holding nothing of use. The sum
 * within a row is taken in the order of the classes. Any thread. */
gw_loss gw_loss_softmax(float *logits, const uint8_t *labels, size_t rows, size_t classes, float scale);

#endif
