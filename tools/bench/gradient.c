#include "tools/bench/gradient.h"

#include "core/rng.h"
#include "tools/godwit/text/suggest.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* A fifteenth of a model's blocks lies between two scales, from the least to the greatest. Blocks above the last one
 * are left out; they have counts and losses, which are no gradients. */
const gw_gradient gw_gradients[GW_GRADIENT_MODELS] = {
    {.name = "gpt-nano",
     .run = "a gpt (nano, step 50)",
     .bytes = 3.99,
     .scales = {24.60, 26.54, 26.96, 27.17, 27.36, 27.52, 27.67, 27.83, 27.98, 28.18, 28.35, 28.57, 28.84,
                29.09, 29.56, 31.58}},
    {.name = "gpt-124m",
     .run = "a gpt (124M, step 18)",
     .bytes = 3.04,
     .scales = {-3.71, 15.73, 19.79, 20.25, 20.54, 20.81, 21.07, 21.34, 21.63, 21.93, 22.19, 22.44, 22.91,
                23.65, 24.78, 34.78}},
    {.name = "digits",
     .run = "digits (MNIST, step 400)",
     .bytes = 4.04,
     .scales = {27.31, 27.42, 27.43, 27.43, 27.43, 27.43, 27.43, 27.56, 27.97, 28.45, 28.60, 28.81, 29.07,
                29.31, 29.52, 32.67}},
};

const gw_gradient *gw_gradient_of_option(const struct argp_state *state, const char *name) {
    for (size_t i = 0; i < GW_GRADIENT_MODELS; i++)
        if (strcmp(gw_gradients[i].name, name) == 0) return &gw_gradients[i];
    gw_argp_error(state, "--gradients: '%s' is none of gpt-nano, gpt-124m and digits", name);
}

static double block_scale(const gw_gradient *model, gw_rng *rng) {
    enum { STEPS = sizeof model->scales / sizeof model->scales[0] - 1 };
    double at = gw_rng_unit(rng) * STEPS;
    int below = (int)at;
    return exp2(model->scales[below] + (at - below) * (model->scales[below + 1] - model->scales[below]));
}

void gw_gradient_draw(const gw_gradient *model, int64_t *out, uint64_t count, uint64_t seed) {
    gw_rng rng = gw_rng_seeded(seed);
    double scale = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % GW_GRADIENT_BLOCK == 0) scale = block_scale(model, &rng) / sqrt(2);
        uint64_t bits = gw_rng_next(&rng);
        double size = -log(((double)(bits >> 11) + 1) * 0x1p-53) * scale;
        out[i] = (bits & 1) != 0 ? (int64_t)size : -(int64_t)size;
    }
}

void gw_gradient_draw_full(int64_t *out, uint64_t count, uint64_t seed) {
    gw_rng rng = gw_rng_seeded(seed);
    for (uint64_t i = 0; i < count; i++) out[i] = (int64_t)gw_rng_next(&rng);
}
