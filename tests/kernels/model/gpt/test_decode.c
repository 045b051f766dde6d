#include "kernels/model/gpt/decode.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 150, VOCABULARY = 37 };

static const gw_gpt gpt = {
    .layers = 3, .heads = 2, .channels = 20, .context = CONTEXT, .vocabulary = VOCABULARY};
static float *parameters[GW_GPT_PARAMETERS];
static uint32_t tokens[CONTEXT + 1];

static void enter(void) {
    gw_rng rng = gw_rng_seeded(1);
    for (uint32_t i = 0; i < gw_gpt_parameters(&gpt); i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(&gpt, i);
        uint64_t elements = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
        parameters[i] = malloc(elements * sizeof(float));
        for (uint64_t k = 0; k < elements; k++)
            parameters[i][k] = p.constant + (float)(gw_rng_unit(&rng) - 0.5) * 0.6f;
    }
    for (int i = 0; i <= CONTEXT; i++) tokens[i] = (uint32_t)gw_rng_below(&rng, VOCABULARY);
}

static void leave(void) {
    for (uint32_t i = 0; i < gw_gpt_parameters(&gpt); i++) free(parameters[i]);
}

TestSuite(gpt_decode, .init = enter, .fini = leave);

static double loss_of(const float *logits, uint32_t target) {
    double total = 0.0;
    for (int i = 0; i < VOCABULARY; i++) total += exp((double)logits[i]);
    return log(total) - (double)logits[target];
}

/* Fed one by one, all tokens together are as likely as in the forward pass of training. */
Test(gpt_decode, agrees_with_the_forward_pass_of_training) {
    gw_gpt_lane lane;
    gw_gpt_decoder decoder;
    gw_err err;
    cr_assert(gw_gpt_lane_open(&gpt, 1, false, &lane, &err), "%s", err.text);
    memcpy(lane.tokens, tokens, CONTEXT * sizeof *tokens);
    memcpy(lane.targets, tokens + 1, CONTEXT * sizeof *tokens);
    const gw_gpt_pass pass = {
        .gpt = &gpt, .parameters = (const float *const *)parameters, .lane = &lane, .sequences = 1};
    double expected = gw_gpt_forward(&pass, 0.0f), sum = 0.0;
    cr_assert(gw_gpt_decoder_open(&gpt, (const float *const *)parameters, &decoder, &err), "%s", err.text);
    for (int i = 0; i < CONTEXT; i++)
        sum += loss_of(gw_gpt_decoder_feed(&decoder, &tokens[i], 1), tokens[i + 1]);
    cr_assert_float_eq(sum, expected, 1e-5 * expected, "%g, not %g", sum, expected);
    gw_gpt_decoder_close(&decoder);
    gw_gpt_lane_close(&lane);
}

Test(gpt_decode, tokens_may_come_in_any_portions) {
    gw_gpt_decoder decoder;
    gw_err err;
    float expected[VOCABULARY];
    cr_assert(gw_gpt_decoder_open(&gpt, (const float *const *)parameters, &decoder, &err), "%s", err.text);
    for (int portion = 1; portion <= GW_GPT_FEED; portion += 21) {
        const float *logits = NULL;
        decoder.position = 0; /* the decoder starts again */
        for (int i = 0; i < CONTEXT; i += portion)
            logits = gw_gpt_decoder_feed(&decoder, tokens + i,
                                         (uint32_t)(CONTEXT - i < portion ? CONTEXT - i : portion));
        cr_assert_eq(decoder.position, CONTEXT);
        if (portion == 1) memcpy(expected, logits, sizeof expected);
        for (int i = 0; i < VOCABULARY; i++)
            cr_assert_float_eq((double)logits[i], (double)expected[i], 1e-4, "portions of %d", portion);
    }
    gw_gpt_decoder_close(&decoder);
}

Test(gpt_decode, sampling_follows_the_distribution) {
    enum { DRAWS = 40000 };
    const float logits[] = {1.0f, 3.0f, -2.0f, 2.0f, 0.0f};
    float scratch[5];
    const struct {
        gw_gpt_sampling sampling;
        double weight[5];
    } cases[] = {
        {{1.0, 0, 1}, {exp(1), exp(3), exp(-2), exp(2), 1}},
        {{2.0, 0, 2}, {exp(0.5), exp(1.5), exp(-1), exp(1), 1}},
        {{1.0, 2, 3}, {0, exp(3), 0, exp(2), 0}},
        {{0.5, 4, 4}, {exp(2), exp(6), 0, exp(4), 1}},
        {{1.0, 1, 5}, {0, 1, 0, 0, 0}},
        {{0.0, 0, 6}, {0, 1, 0, 0, 0}},
        {{1e-9, 0, 7}, {0, 1, 0, 0, 0}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        uint32_t count[5] = {0};
        double total = 0.0;
        for (uint64_t draw = 0; draw < DRAWS; draw++)
            count[gw_gpt_sample(&cases[k].sampling, draw, 5, logits, scratch)]++;
        for (int i = 0; i < 5; i++) total += cases[k].weight[i];
        for (int i = 0; i < 5; i++)
            cr_assert_float_eq(count[i] / (double)DRAWS, cases[k].weight[i] / total,
                               cases[k].weight[i] > 0.0 ? 0.01 : 0.0, "case %zu, token %d", k, i);
    }
}

/* An untrained model gives many tokens equal logits. */
Test(gpt_decode, of_equals_no_more_are_taken_than_were_asked_for) {
    const float logits[] = {1.0f, 2.0f, 1.0f, 3.0f, 1.0f, 1.0f};
    static const char *const taken[] = {"000100", "010100", "110100", "111100", "111110", "111111"};
    float scratch[6];
    for (uint32_t top = 1; top <= 6; top++) {
        const gw_gpt_sampling sampling = {1.0, top, 1};
        char seen[] = "000000";
        for (uint64_t draw = 0; draw < 1000; draw++)
            seen[gw_gpt_sample(&sampling, draw, 6, logits, scratch)] = '1';
        cr_expect_str_eq(seen, taken[top - 1], "%u: %s", top, seen);
    }
}

Test(gpt_decode, draws_repeat_by_seed) {
    float logits[VOCABULARY] = {0.0f}, scratch[VOCABULARY];
    gw_gpt_sampling one = {1.0, 0, 1}, other = {1.0, 0, 2};
    int different = 0;
    for (uint64_t draw = 0; draw < 100; draw++) {
        uint32_t token = gw_gpt_sample(&one, draw, VOCABULARY, logits, scratch);
        cr_assert_eq(token, gw_gpt_sample(&one, draw, VOCABULARY, logits, scratch));
        different += token != gw_gpt_sample(&other, draw, VOCABULARY, logits, scratch);
    }
    cr_assert_gt(different, 80);
}
