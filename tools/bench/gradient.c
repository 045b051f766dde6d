#include "tools/bench/gradient.h"

#include "core/rng.h"

#include <math.h>

/* Binary logarithms of the blocks' roots of the mean square, from the least to the greatest: a sixteenth of the
 * blocks lies between two of them. Those above the last one are left out; one of them has counts and losses, which
 * are no gradients. */
static const double scales[] = {24.60, 26.54, 26.96, 27.17, 27.36, 27.52, 27.67, 27.83,
                                27.98, 28.18, 28.35, 28.57, 28.84, 29.09, 29.56, 31.58};
enum { SCALES = sizeof scales / sizeof scales[0] };

static double block_scale(gw_rng *rng) {
    double at = gw_rng_unit(rng) * (SCALES - 1);
    int below = (int)at;
    return exp2(scales[below] + (at - below) * (scales[below + 1] - scales[below]));
}

void gw_gradient_draw(int64_t *out, uint64_t count, uint64_t seed) {
    gw_rng rng = gw_rng_seeded(seed);
    double scale = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % GW_GRADIENT_BLOCK == 0) scale = block_scale(&rng) / sqrt(2);
        uint64_t bits = gw_rng_next(&rng);
        double size = -log(((double)(bits >> 11) + 1) * 0x1p-53) * scale;
        out[i] = (bits & 1) != 0 ? (int64_t)size : -(int64_t)size;
    }
}

void gw_gradient_draw_full(int64_t *out, uint64_t count, uint64_t seed) {
    gw_rng rng = gw_rng_seeded(seed);
    for (uint64_t i = 0; i < count; i++) out[i] = (int64_t)gw_rng_next(&rng);
}
