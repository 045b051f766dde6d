#include "kernels/math/embedding.h"

#include "core/rng.h"
#include "tests/kernels/catcher.h"
#include "tests/kernels/math/slopes.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { GAP = 3 };

static void check(gw_embedding shape, uint32_t pieces) {
    size_t rows = shape.sequences * shape.positions, c = shape.channels, v = shape.vocabulary,
           stride = v + GAP;
    double *dx_wide = malloc(rows * c * sizeof(double)),
           *wide = malloc((v + shape.positions) * c * sizeof(double));
    double *hidden_wide = malloc(rows * c * sizeof(double)),
           *dlogits_wide = malloc(rows * stride * sizeof(double));
    float *dx = malloc(rows * c * sizeof(float)), *words = malloc((v + shape.positions) * c * sizeof(float));
    float *hidden = malloc(rows * c * sizeof(float)), *dlogits = malloc(rows * stride * sizeof(float));
    float *x = malloc(rows * c * sizeof(float)), *piece = malloc(gw_embedding_piece(&shape) * sizeof(float));
    uint32_t *tokens = malloc(rows * sizeof *tokens);
    uint64_t *order = malloc(rows * sizeof *order);
    const float *places = words + v * c;
    slopes_fill(1, rows * c, 1.0, dx_wide, dx);
    slopes_fill(2, (v + shape.positions) * c, 1.0, wide, words);
    slopes_fill(3, rows * c, 1.0, hidden_wide, hidden);
    slopes_fill(4, rows * stride, 1.0, dlogits_wide, dlogits);
    gw_rng rng = gw_rng_seeded(5);
    for (size_t r = 0; r < rows; r++) tokens[r] = (uint32_t)(r % 3 == 0 ? v - 1 : gw_rng_below(&rng, v));

    gw_embedding_forward(&shape, tokens, words, places, x);
    for (size_t i = 0; i < rows * c; i++)
        cr_assert_eq(x[i], words[tokens[i / c] * c + i % c] + places[i / c % shape.positions * c + i % c]);

    catcher *k = catcher_make(2, (const uint64_t[]){v * c, shape.positions * c});
    gw_embedding_emit_positions(&shape, dx, 1, piece, &k->emitter);
    gw_embedding_emit_tokens(&shape, tokens, dx, dlogits, stride, hidden, 0, piece, order, &k->emitter);
    catcher_whole(k);
    cr_assert_eq(k->pieces[0], pieces);
    for (size_t i = 0; i < v * c; i++) {
        double sum = 0.0;
        for (size_t r = 0; r < rows; r++)
            sum += dlogits_wide[r * stride + i / c] * hidden_wide[r * c + i % c] +
                   (tokens[r] == i / c ? dx_wide[r * c + i % c] : 0.0);
        cr_assert_float_eq((double)k->values[0][i], sum, 1e-5, "dwords[%zu]", i);
    }
    for (size_t i = 0; i < shape.positions * c; i++) {
        double sum = 0.0;
        for (size_t s = 0; s < shape.sequences; s++) sum += dx_wide[s * shape.positions * c + i];
        cr_assert_float_eq((double)k->values[1][i], sum, 1e-5, "dplaces[%zu]", i);
    }
    catcher_free(k);
    void *all[] = {dx_wide, wide,    hidden_wide, dlogits_wide, dx,     words,
                   hidden,  dlogits, x,           piece,        tokens, order};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

Test(embedding, both_uses_of_the_words_are_summed) {
    check((gw_embedding){.sequences = 3, .positions = 7, .channels = 10, .vocabulary = 23}, 1);
    check((gw_embedding){.sequences = 1, .positions = 1, .channels = 1, .vocabulary = 1}, 1);
}

Test(embedding, a_large_vocabulary_is_emitted_in_pieces) {
    check((gw_embedding){.sequences = 2, .positions = 5, .channels = 100, .vocabulary = 6001}, 3);
}

Test(embedding, rows_are_grouped_by_token) {
    const uint32_t tokens[] = {7, 2, 7, 7, 50256, 2, 0}, order[] = {6, 1, 5, 0, 2, 3, 4},
                   starts[] = {0, 1, 3, 6, 7, 7, 7, 7};
    enum { ROWS = sizeof tokens / sizeof tokens[0] };
    uint64_t sorted[ROWS];
    uint32_t found[ROWS], begins[ROWS + 1];
    gw_embedding_group(ROWS, tokens, sorted, found, begins);
    for (int i = 0; i < ROWS; i++) cr_assert_eq(found[i], order[i], "order[%d]", i);
    for (int i = 0; i <= ROWS; i++) cr_assert_eq(begins[i], starts[i], "starts[%d]", i);
}
