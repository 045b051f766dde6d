/* Exact sums as training has them, for measurements.
 *
 * What gw_gradient_draw draws follows accumulators that were recorded in November 2026: the sums of one of two peers,
 * with 40 bits behind the point. For each block of 512 elements the root of the mean square was noted; a model's table
 * has sixteen steps through them, in order, by their binary logarithm. A drawn block takes its root from that table,
 * and its elements are Laplace-distributed, whose kurtosis (6) is near what was recorded: half of the blocks were
 * between 3.5 and 7 (gpt-nano), 2.7 and 6 (gpt-124m) and 5.2 and 8 (digits). When packed (core/vector/pack.h) they take
 * as many bytes as the recorded ones, within a fortieth:
 *
 *  - gpt-nano: 3.99. gpt, model nano, on the works of Shakespeare, step 50: 834,392 elements;
 *  - gpt-124m: 3.04. gpt, model gpt2, on the words of the same works as 15,057 of 50,257 tokens: 18 steps at a rate of
 *    6e-4, and then one of 24 shards of 64 tokens: 123,702,680 elements;
 *  - digits: 4.04. digits, on MNIST, step 400: 101,840 elements.
 *
 * The first step of gpt-124m took 3.77: its gradient was 16 times as long. */
#ifndef GODWIT_TOOLS_BENCH_GRADIENT_H
#define GODWIT_TOOLS_BENCH_GRADIENT_H

#include <argp.h>
#include <stdint.h>

enum { GW_GRADIENT_BLOCK = 512, GW_GRADIENT_MODELS = 3 };

/* A model whose sums were recorded. */
typedef struct gw_gradient {
    const char *name;  /* on command lines */
    const char *run;   /* what was recorded, in words */
    double bytes;      /* of an element, packed, as recorded */
    double scales[16]; /* binary logarithms of the blocks' roots of the mean square */
} gw_gradient;

#define GW_GRADIENT_HELP "Draw elements like the gradients of gpt-nano, gpt-124m or digits (gpt-nano)"

/* The first one is the default. */
extern const gw_gradient gw_gradients[GW_GRADIENT_MODELS];
/* The value of an option --gradients. It ends the process with argp_err_exit_status if there is no model of that name. */
const gw_gradient *gw_gradient_of_option(const struct argp_state *state, const char *name);

/* Draws `count` elements; the same ones for the same seed. */
void gw_gradient_draw(const gw_gradient *model, int64_t *out, uint64_t count, uint64_t seed);
/* Draws elements whose 64 bits are all random: no sum takes more bytes. */
void gw_gradient_draw_full(int64_t *out, uint64_t count, uint64_t seed);

#endif
