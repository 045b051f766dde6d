/* A job that calls every helper of kernels/job.h, against the installed headers (tests/tools/test_install.py). It
 * checks in open() what it can check alone, and in scalars the norm of a known sum. */
#include "kernels/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS, FIRST, SECOND, SUM, TENSORS, ELEMENTS = 8 };

static const gw_tensor tensors[TENSORS] = {
    [WEIGHTS] = {.name = "weights", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {ELEMENTS}},
    [FIRST] = {.name = "first", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {ELEMENTS}},
    [SECOND] = {.name = "second", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {ELEMENTS}},
    [SUM] = {.name = "sum", .role = GW_SUMMED, .rank = 1, .dim = {ELEMENTS}, .frac_bits = 40},
};

static const gw_option options[] = {{0}};

static bool check_permutation(void) {
    gw_permutation order = gw_permutation_of(7, 0, 1000), next = gw_permutation_of(7, 1, 1000);
    bool seen[1000] = {0}, differs = false;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t image = gw_permutation_at(&order, i);
        if (image >= 1000 || seen[image]) return false;
        seen[image] = true;
        differs |= image != gw_permutation_at(&next, i);
    }
    return differs;
}

static bool check_schedule(void) {
    gw_schedule schedule = {.most = 1, .updates = 10, .warmup = 2};
    return gw_schedule_named("cosine", &schedule.kind) && !gw_schedule_named("none", &schedule.kind) &&
           gw_schedule_rate(&schedule, 9) < gw_schedule_rate(&schedule, 3);
}

static bool check_randomness(void) {
    gw_rng rng = gw_rng_seeded(1);
    gw_philox zeros = gw_philox_at(0, 0, 0); /* the vector of the reference implementation */
    double unit = gw_rng_unit(&rng);
    return zeros.words[0] == 0x6627e8d5u && gw_rng_below(&rng, 3) < 3 &&
           gw_rng_next(&rng) != gw_rng_next(&rng) && unit >= 0 && unit < 1;
}

static bool check_sgd(void) {
    const int64_t sum[2] = {INT64_C(1) << 40, -(INT64_C(1) << 40)};
    float weights[2] = {0, 0}, velocity[2] = {0, 0};
    const gw_sgd sgd = {.scale = 0x1p-40, .rate = 0.5F, .momentum = 0.9F};
    gw_optimizer_sgd(&sgd, 2, sum, weights, velocity);
    return weights[0] == -0.5F && weights[1] == 0.5F && velocity[0] == 1;
}

static bool helpers_open(const gw_params *params, void **job, gw_err *err) {
    (void)params;
    *job = NULL;
    if (!check_permutation()) return gw_fail(err, GW_E_INVALID, "helpers: gw_permutation");
    if (!check_schedule()) return gw_fail(err, GW_E_INVALID, "helpers: gw_schedule");
    if (!check_randomness()) return gw_fail(err, GW_E_INVALID, "helpers: core/rng.h");
    if (!check_sgd()) return gw_fail(err, GW_E_INVALID, "helpers: gw_optimizer_sgd");
    if (!gw_adamw_check_epsilon(1e-8, 1e-9, err)) return gw_fail_in(err, "helpers");
    return true;
}

static void helpers_close(void *job) {
    (void)job;
}

static bool helpers_describe(void *job, gw_plan *plan, gw_err *err) {
    (void)job, (void)err;
    plan->tensors = tensors;
    plan->tensor_count = TENSORS;
    plan->steps = 2;
    gw_blake2b("data", 4, &plan->data_digest, sizeof plan->data_digest);
    return true;
}

static bool helpers_lane_open(void *job, void **lane, gw_err *err) {
    (void)job, (void)err;
    *lane = NULL;
    return true;
}

static void helpers_lane_close(void *job, void *lane) {
    (void)job, (void)lane;
}

static bool helpers_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)job, (void)err;
    for (int tensor = WEIGHTS; tensor <= SECOND; tensor++)
        memset((float *)state->data[tensor] + range->first, 0, range->count * sizeof(float));
    return true;
}

static uint32_t helpers_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return 4;
}

static bool helpers_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                               gw_emitter *emitter, gw_err *err) {
    (void)job, (void)lane, (void)step, (void)shard, (void)state, (void)err;
    const float ones[ELEMENTS] = {1, 1, 1, 1, 1, 1, 1, 1};
    gw_emit(emitter, SUM, 0, ELEMENTS, ones);
    return true;
}

/* Four shards add 1 to each of 8 elements: the norm of their mean is the square root of 8. */
static bool helpers_scalars(void *job, uint64_t step, const gw_sums *sums, const gw_state *state,
                            gw_scalars *scalars, gw_err *err) {
    (void)job, (void)step, (void)state;
    gw_norm norm = 0;
    gw_norm_add(&norm, ELEMENTS, sums->data[SUM], 0x1p-42);
    scalars->value[0] = gw_norm_value(norm);
    if (scalars->value[0] > 2.8284 && scalars->value[0] < 2.8285) return true;
    return gw_fail(err, GW_E_INVALID, "helpers: the norm is %g", scalars->value[0]);
}

static bool helpers_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                          const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    (void)job, (void)step, (void)scalars, (void)err;
    const gw_adamw adamw = {.scale = 0x1p-42,
                            .rate = 0.1F,
                            .beta1 = 0.9F,
                            .beta2 = 0.99F,
                            .epsilon = 1e-8F,
                            .correction1 = 10,
                            .correction2 = 100};
    gw_optimizer_adamw(
        &adamw, range->count, sums->data[SUM] + range->first, (float *)state->data[WEIGHTS] + range->first,
        (float *)state->data[FIRST] + range->first, (float *)state->data[SECOND] + range->first);
    return true;
}

static void helpers_summary(void *job, uint64_t steps_done, const gw_state *state, char *text, size_t size) {
    (void)job, (void)steps_done;
    snprintf(text, size, "weight=%.4f", (double)((const float *)state->data[WEIGHTS])[0]);
}

const gw_job_type *godwit_job(void);
const gw_job_type *godwit_job(void) {
    static const gw_job_type type = {
        .api = GW_JOB_API,
        .name = "helpers",
        .about = "calls every helper",
        .options = options,
        .open = helpers_open,
        .close = helpers_close,
        .describe = helpers_describe,
        .lane_open = helpers_lane_open,
        .lane_close = helpers_lane_close,
        .init = helpers_init,
        .shards = helpers_shards,
        .contribute = helpers_contribute,
        .scalars = helpers_scalars,
        .apply = helpers_apply,
        .summary = helpers_summary,
    };
    return &type;
}
