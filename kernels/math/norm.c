#include "kernels/math/norm.h"

#include "kernels/math/clones.h"
#include "kernels/math/vmath.h"

enum { PARTIALS = 16 };

/* The sum of the squares of one block: element i is added to partial sum i mod 16, and the partial sums are
 * added as a tree. */
GW_CLONES static double square_block(size_t count, const int64_t *restrict sum, double scale) {
    double partial[PARTIALS] = {0.0};
    size_t whole = count / PARTIALS * PARTIALS;
    for (size_t i = 0; i < whole; i += PARTIALS)
        for (size_t l = 0; l < PARTIALS; l++) {
            double x = gw_int_to_double(sum[i + l]) * scale;
            partial[l] += x * x;
        }
    for (size_t i = whole; i < count; i++) {
        double x = gw_int_to_double(sum[i]) * scale;
        partial[i - whole] += x * x;
    }
    for (size_t width = PARTIALS / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++) partial[l] += partial[l + width];
    return partial[0];
}

void gw_norm_add(gw_norm *norm, size_t count, const int64_t *sum, double scale) {
    for (size_t first = 0; first < count; first += GW_NORM_BLOCK) {
        size_t n = count - first < GW_NORM_BLOCK ? count - first : GW_NORM_BLOCK;
        gw_norm_term term = gw_norm_cut(square_block(n, sum + first, scale));
        *norm += ((gw_norm)term.high << 54) + term.low;
    }
}

gw_norm gw_norm_of_words(const int64_t words[GW_NORM_WORDS]) {
    gw_norm norm = 0;
    for (int i = 0; i < GW_NORM_WORDS; i++) norm += (gw_norm)(uint64_t)words[i] << 32 * i;
    return norm;
}

double gw_norm_value(gw_norm norm) {
    double high = (double)(uint64_t)(norm >> 64), low = (double)(uint64_t)norm;
    return __builtin_sqrt((high * 0x1p64 + low) * 0x1p-48);
}
