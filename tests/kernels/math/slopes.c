#include "tests/kernels/math/slopes.h"

#include "core/base/id.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>

void slopes_check(slopes_loss *loss, const void *context, double *x, size_t count, size_t stride,
                  const float *gradient, double tolerance, const char *what) {
    const double move = 1e-5;
    for (size_t i = 0; i < count; i += stride) {
        double here = x[i];
        x[i] = here + move;
        double above = loss(context);
        x[i] = here - move;
        double below = loss(context);
        x[i] = here;
        double slope = (above - below) / (2.0 * move);
        cr_assert_float_eq((double)gradient[i], slope, tolerance * (1.0 + fabs(slope)),
                           "%s[%zu]: %g, slope %g", what, i, (double)gradient[i], slope);
    }
}

void slopes_fill(uint64_t seed, size_t count, double size, double *wide, float *narrow) {
    gw_rng rng = gw_rng_seeded(seed);
    for (size_t i = 0; i < count; i++) {
        narrow[i] = (float)((2.0 * gw_rng_unit(&rng) - 1.0) * size);
        wide[i] = (double)narrow[i];
    }
}

const char *slopes_hash(const float *values, size_t count) {
    static char text[GW_HASH_TEXT];
    gw_hash hash;
    gw_blake2b(values, count * sizeof *values, &hash, sizeof hash);
    gw_hex(&hash, sizeof hash, text);
    return text;
}
