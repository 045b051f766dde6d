#include "kernels/math/crossent.h"

#include "core/base/assert.h"
#include "kernels/math/clones.h"
#include "kernels/math/vector.h"
#include "kernels/math/vmath.h"

enum {
    STRETCH = 1024
}; /* number of elements that are summed in float; the sums of stretches are added in double */

GW_CLONES static float largest_of(const float *row, size_t count) {
    return gw_vector_largest(row, count, row[0]);
}

/* Replaces each element x of the row by e^(x - shift), and returns their sum. */
GW_CLONES static double exponentiate(float *restrict row, size_t count, float shift) {
    double total = 0.0;
    for (size_t begin = 0; begin < count; begin += STRETCH) {
        size_t end = count - begin < STRETCH ? count : begin + STRETCH;
        size_t whole = begin + (end - begin) / GW_VECTOR_ELEMENTS * GW_VECTOR_ELEMENTS;
        for (size_t i = begin; i < end; i++) row[i] = gw_expf_quick(row[i] - shift);
        gw_vector sum = {0.0f};
        for (size_t i = begin; i < whole; i += GW_VECTOR_ELEMENTS) sum += *(const gw_vector *)(row + i);
        for (size_t i = whole; i < end; i++) sum[i - whole] += row[i];
        total += (double)gw_vector_sum(&sum);
    }
    return total;
}

GW_CLONES static void multiply(float *row, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) row[i] *= factor;
}

double gw_crossent(size_t rows, size_t classes, size_t stride, float *logits, const uint32_t *targets,
                   float scale) {
    double loss = 0.0;
    for (size_t r = 0; r < rows; r++) {
        GW_ASSERT(targets[r] < classes);
        float *row = logits + r * stride;
        float largest = largest_of(row, classes), target = row[targets[r]];
        double total = exponentiate(row, classes, largest);
        loss += gw_log(total) - ((double)target - (double)largest);
        if (scale == 0.0f) continue;
        multiply(row, classes, (float)((double)scale / total));
        row[targets[r]] -= scale;
    }
    return loss;
}
