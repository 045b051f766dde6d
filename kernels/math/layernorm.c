#include "kernels/math/layernorm.h"

#include "kernels/math/clones.h"
#include "kernels/math/lanes.h"

#include <string.h>

GW_CLONES void gw_layernorm_forward(size_t rows, size_t channels, const float *restrict x,
                                    const float *restrict weight, const float *restrict bias,
                                    float *restrict y, float *restrict mean, float *restrict scale) {
    size_t whole = channels / GW_LANES * GW_LANES;
    for (size_t r = 0; r < rows; r++, x += channels, y += channels) {
        gw_lanes sum = {0.0f};
        for (size_t i = 0; i < whole; i += GW_LANES) sum += *(const gw_lanes *)(x + i);
        for (size_t i = whole; i < channels; i++) sum[i - whole] += x[i];
        float m = gw_lanes_sum(&sum) / (float)channels;
        gw_lanes squares = {0.0f};
        for (size_t i = 0; i < whole; i += GW_LANES) {
            gw_lanes d = *(const gw_lanes *)(x + i) - m;
            squares += d * d;
        }
        for (size_t i = whole; i < channels; i++) squares[i - whole] += (x[i] - m) * (x[i] - m);
        float s = 1.0f / __builtin_sqrtf(gw_lanes_sum(&squares) / (float)channels + GW_LAYERNORM_EPSILON);
        for (size_t i = 0; i < channels; i++) y[i] = (x[i] - m) * s * weight[i] + bias[i];
        mean[r] = m;
        scale[r] = s;
    }
}

GW_CLONES void gw_layernorm_backward(size_t rows, size_t channels, const float *restrict x,
                                     const float *restrict weight, const float *restrict mean,
                                     const float *restrict scale, const float *restrict dy,
                                     float *restrict dx, float *restrict dweight, float *restrict dbias) {
    size_t whole = channels / GW_LANES * GW_LANES;
    memset(dweight, 0, channels * sizeof *dweight);
    memset(dbias, 0, channels * sizeof *dbias);
    for (size_t r = 0; r < rows; r++, x += channels, dy += channels, dx += channels) {
        float m = mean[r], s = scale[r];
        /* sums of dy weight, alone and times the normalised x */
        gw_lanes sum = {0.0f}, product = {0.0f};
        for (size_t i = 0; i < whole; i += GW_LANES) {
            gw_lanes d = *(const gw_lanes *)(dy + i), n = (*(const gw_lanes *)(x + i) - m) * s;
            gw_lanes g = d * *(const gw_lanes *)(weight + i);
            sum += g;
            product += g * n;
            *(gw_lanes *)(dweight + i) += d * n;
            *(gw_lanes *)(dbias + i) += d;
        }
        for (size_t i = whole; i < channels; i++) {
            float n = (x[i] - m) * s, g = dy[i] * weight[i];
            sum[i - whole] += g;
            product[i - whole] += g * n;
            dweight[i] += dy[i] * n;
            dbias[i] += dy[i];
        }
        float a = gw_lanes_sum(&sum) / (float)channels, b = gw_lanes_sum(&product) / (float)channels;
        for (size_t i = 0; i < channels; i++) dx[i] += (dy[i] * weight[i] - a - (x[i] - m) * s * b) * s;
    }
}
