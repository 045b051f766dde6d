#include "kernels/math/layernorm.h"

#include "kernels/math/clones.h"
#include "kernels/math/vector.h"

#include <string.h>

GW_CLONES void gw_layernorm_forward(size_t rows, size_t channels, const float *restrict x,
                                    const float *restrict weight, const float *restrict bias,
                                    float *restrict y, float *restrict mean, float *restrict scale) {
    size_t whole = channels / GW_VECTOR_ELEMENTS * GW_VECTOR_ELEMENTS;
    for (size_t r = 0; r < rows; r++, x += channels, y += channels) {
        gw_vector sum = {0.0f};
        for (size_t i = 0; i < whole; i += GW_VECTOR_ELEMENTS) sum += *(const gw_vector *)(x + i);
        for (size_t i = whole; i < channels; i++) sum[i - whole] += x[i];
        float m = gw_vector_sum(&sum) / (float)channels;
        gw_vector squares = {0.0f};
        for (size_t i = 0; i < whole; i += GW_VECTOR_ELEMENTS) {
            gw_vector d = *(const gw_vector *)(x + i) - m;
            squares += d * d;
        }
        for (size_t i = whole; i < channels; i++) squares[i - whole] += (x[i] - m) * (x[i] - m);
        float s = 1.0f / __builtin_sqrtf(gw_vector_sum(&squares) / (float)channels + GW_LAYERNORM_EPSILON);
        for (size_t i = 0; i < channels; i++) y[i] = (x[i] - m) * s * weight[i] + bias[i];
        mean[r] = m;
        scale[r] = s;
    }
}

GW_CLONES void gw_layernorm_backward(size_t rows, size_t channels, const float *restrict x,
                                     const float *restrict weight, const float *restrict mean,
                                     const float *restrict scale, const float *restrict dy,
                                     float *restrict dx, float *restrict dweight, float *restrict dbias) {
    size_t whole = channels / GW_VECTOR_ELEMENTS * GW_VECTOR_ELEMENTS;
    memset(dweight, 0, channels * sizeof *dweight);
    memset(dbias, 0, channels * sizeof *dbias);
    for (size_t r = 0; r < rows; r++, x += channels, dy += channels, dx += channels) {
        float m = mean[r], s = scale[r];
        /* sums of dy weight, alone and times the normalised x */
        gw_vector sum = {0.0f}, product = {0.0f};
        for (size_t i = 0; i < whole; i += GW_VECTOR_ELEMENTS) {
            gw_vector d = *(const gw_vector *)(dy + i), n = (*(const gw_vector *)(x + i) - m) * s;
            gw_vector g = d * *(const gw_vector *)(weight + i);
            sum += g;
            product += g * n;
            *(gw_vector *)(dweight + i) += d * n;
            *(gw_vector *)(dbias + i) += d;
        }
        for (size_t i = whole; i < channels; i++) {
            float n = (x[i] - m) * s, g = dy[i] * weight[i];
            sum[i - whole] += g;
            product[i - whole] += g * n;
            dweight[i] += dy[i] * n;
            dbias[i] += dy[i];
        }
        float a = gw_vector_sum(&sum) / (float)channels, b = gw_vector_sum(&product) / (float)channels;
        for (size_t i = 0; i < channels; i++) dx[i] += (dy[i] * weight[i] - a - (x[i] - m) * s * b) * s;
    }
}
