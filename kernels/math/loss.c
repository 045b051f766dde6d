#include "kernels/math/loss.h"

#include "core/base/assert.h"
#include "kernels/math/clones.h"
#include "kernels/math/vmath.h"

/* Subtracts each row's largest logit from the row and returns its position; a NaN is never the largest. */
static size_t shift_row(float *row, size_t classes) {
    size_t best = 0;
    for (size_t i = 1; i < classes; i++)
        if (row[i] > row[best]) best = i;
    float largest = row[best];
    for (size_t i = 0; i < classes; i++) row[i] -= largest;
    return best;
}

/* Takes the exponentials of all rows at once, since one row of ten logits would not fill a vector. */
GW_CLONES static void exponentiate(float *values, size_t count) {
    for (size_t i = 0; i < count; i++) values[i] = gw_expf(values[i]);
}

gw_loss gw_loss_softmax(float *logits, const uint8_t *labels, size_t rows, size_t classes, float scale) {
    GW_ASSERT(rows > 0 && classes > 0);
    gw_loss loss = {0.0, 0};
    for (size_t r = 0; r < rows; r++) {
        GW_ASSERT(labels[r] < classes);
        float *row = logits + r * classes;
        loss.correct += shift_row(row, classes) == labels[r];
        loss.sum -= (double)row[labels[r]];
    }
    exponentiate(logits, rows * classes);
    for (size_t r = 0; r < rows; r++) {
        float *row = logits + r * classes;
        double total = 0.0;
        for (size_t i = 0; i < classes; i++) total += (double)row[i];
        loss.sum += gw_log(total);
        float factor = (float)((double)scale / total);
        for (size_t i = 0; i < classes; i++) row[i] *= factor;
        row[labels[r]] -= scale;
    }
    return loss;
}
