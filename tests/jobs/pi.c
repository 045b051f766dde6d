/* A whole job in one file: pi by throwing darts. The example of the README; the tests run it as a shared
 * object. A step has 48 shards; each throws its darts, and the hits of all are added to the state. */
#include "core/godwit.h"
#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>

enum { HITS, SUM }; /* tensor numbers */

static const gw_tensor tensors[] = {
    [HITS] = {.name = "hits", .dtype = GW_I64, .role = GW_STATE, .rank = 1, .dim = {1}},
    [SUM] = {.name = "sum", .role = GW_SUMMED, .rank = 1, .dim = {1}},
};

static const gw_option options[] = {
    {"darts", "N", "100000", "How many darts a shard throws", false},
    {"seed", "N", "1", "Other darts", false},
    {0},
};

typedef struct pi_job {
    int64_t darts, seed;
} pi_job;

static bool pi_open(const gw_params *params, void **job, gw_err *err) {
    pi_job *pi = calloc(1, sizeof *pi);
    if (pi == NULL) return gw_fail(err, GW_E_NOMEM, "pi: out of memory");
    *job = pi;
    if (gw_param_integer(params, "darts", 1, 1 << 30, false, &pi->darts, err) &&
        gw_param_integer(params, "seed", 0, INT64_MAX, false, &pi->seed, err))
        return true;
    free(pi);
    return false;
}

static bool pi_describe(void *job, gw_plan *plan, gw_err *err) {
    (void)job, (void)err;
    plan->tensors = tensors;
    plan->tensor_count = 2;
    plan->steps = 100;
    return true;
}

static bool pi_lane_open(void *job, void **lane, gw_err *err) {
    (void)job, (void)err;
    *lane = NULL; /* a worker needs no scratch */
    return true;
}

static void pi_lane_close(void *job, void *lane) {
    (void)job, (void)lane;
}

static bool pi_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)job, (void)range, (void)err;
    *(int64_t *)state->data[HITS] = 0;
    return true;
}

static uint32_t pi_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return 48;
}

static bool pi_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                          gw_emitter *emitter, gw_err *err) {
    (void)lane, (void)state, (void)err;
    const pi_job *pi = job;
    int64_t hits = 0;
    for (int64_t i = 0; i < pi->darts; i++) { /* the random numbers depend on seed, step, shard and i alone */
        gw_philox dice = gw_philox_at((uint64_t)pi->seed, step, (uint64_t)shard << 32 | (uint64_t)i);
        double x = dice.words[0] * 0x1p-32, y = dice.words[1] * 0x1p-32;
        hits += x * x + y * y < 1;
    }
    gw_emit_integers(emitter, SUM, 0, 1, &hits);
    return true;
}

static bool pi_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                     const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    (void)job, (void)step, (void)range, (void)scalars, (void)err;
    *(int64_t *)state->data[HITS] += sums->data[SUM][0];
    return true;
}

static void pi_summary(void *job, uint64_t steps_done, const gw_state *state, char *text, size_t size) {
    const pi_job *pi = job;
    double thrown = (double)pi->darts * 48 * (double)steps_done;
    snprintf(text, size, "pi=%.6f", 4 * (double)*(int64_t *)state->data[HITS] / thrown);
}

const gw_job_type *godwit_job(void); /* what `godwit run ./pi.so` looks for */

const gw_job_type *godwit_job(void) {
    static const gw_job_type type = {
        .api = GW_JOB_API,
        .name = "pi",
        .about = "pi by throwing darts",
        .options = options,
        .open = pi_open,
        .close = free,
        .describe = pi_describe,
        .lane_open = pi_lane_open,
        .lane_close = pi_lane_close,
        .init = pi_init,
        .shards = pi_shards,
        .contribute = pi_contribute,
        .apply = pi_apply,
        .summary = pi_summary,
    };
    return &type;
}
