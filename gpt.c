/* The job gpt, written by `godwit new-job`: it fits a line to noisy points by stochastic gradient descent.
 * Replace the points and the line by your own computation; the places are marked "Yours".
 *
 *     cc -std=c11 -Wall -Wextra -O2 -shared -fPIC -I/work/wt/mendb -o gpt.so gpt.c
 *     godwit run ./gpt.so --help
 *     godwit run ./gpt.so --dir a
 *     sh gpt-test.sh
 *
 * core/godwit.h below the folder after -I describes every function of a job; kernels/job.h lists the helpers
 * that a job may call. What contribute, scalars and apply compute must depend on their arguments, the options
 * and the data alone: no clock, no global variables, no random numbers but those of gw_philox_at. Then the
 * final state has the same bytes for any number of peers, whichever of them die. */
#include "core/godwit.h"
#include "kernels/job.h"

#include <stdio.h>
#include <stdlib.h>

/* Yours: the size of the problem. A step sums SHARDS shards of ROWS samples each. */
enum { SAMPLES = 6400, SHARDS = 8, ROWS = 16, BATCH = SHARDS * ROWS };

/* Yours: the tensors. The state is checkpointed and hashed; the sums are added over the shards of a step. */
enum { LINE, VELOCITY, GRADIENT, LOSS, TENSORS };

static const gw_tensor tensors[TENSORS] = {
    /* The slope and the offset of the line. Tensors that apply changes together have one group and shape. */
    [LINE] = {.name = "line", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {2}, .group = 0},
    /* The optimizer's velocity: contribute never reads it, so it is apply_only; ".m" behind the name of its tensor tells
     * `godwit export` that it holds moments. */
    [VELOCITY] = {.name = "line.m", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {2}, .group = 0,
                  .apply_only = true},
    /* Each emitted number is rounded once to a multiple of 2^-frac_bits and then added exactly. */
    [GRADIENT] = {.name = "gradient", .role = GW_SUMMED, .rank = 1, .dim = {2}, .group = 0, .frac_bits = 40},
    [LOSS] = {.name = "loss", .role = GW_METRIC, .rank = 1, .dim = {1}, .group = 1, .frac_bits = 20},
};

/* Yours: the options. Their values are part of the job's identity unless the last field is true. */
static const gw_option options[] = {
    {"updates", "N", "400", "number of updates", false},
    {"lr", "X", "0.1", "highest learning rate", false},
    {"seed", "N", "1", "other points", false},
    {0},
};

typedef struct job {
    int64_t updates, seed;
    gw_schedule schedule;
} job;

/* Reads the options and the data. On failure it fills *err, which people see, and returns false. */
static bool job_open(const gw_params *params, void **opened, gw_err *err) {
    job *j = calloc(1, sizeof *j);
    double rate;
    if (j == NULL) return gw_fail(err, GW_E_NOMEM, "gpt: out of memory");
    if (!gw_param_integer(params, "updates", 1, 1 << 30, false, &j->updates, err) ||
        !gw_param_integer(params, "seed", 0, INT64_MAX, false, &j->seed, err) ||
        !gw_param_real(params, "lr", 1e-9, 10, &rate, err)) {
        free(j);
        return false;
    }
    j->schedule = (gw_schedule){.kind = GW_SCHEDULE_COSINE, .most = rate, .updates = (uint64_t)j->updates};
    *opened = j;
    return true;
}

/* Names the tensors and the length. A job that reads files also sets plan->data_digest (gw_blake2b), so that
 * peers with different data turn each other away. */
static bool job_describe(void *opened, gw_plan *plan, gw_err *err) {
    const job *j = opened;
    (void)err;
    plan->tensors = tensors;
    plan->tensor_count = TENSORS;
    plan->steps = (uint64_t)j->updates;
    snprintf(plan->data_text, sizeof plan->data_text, "%d points drawn by the program", SAMPLES);
    snprintf(plan->model_text, sizeof plan->model_text, "a line; 2 parameters");
    snprintf(plan->length_text, sizeof plan->length_text, "%d points an update, %lld updates", BATCH,
             (long long)j->updates);
    return true;
}

/* Yours: scratch of a worker, where contribute needs some. Set plan->lane_bytes to its size. */
static bool job_lane_open(void *opened, void **lane, gw_err *err) {
    (void)opened, (void)err;
    *lane = NULL;
    return true;
}

static void job_lane_close(void *opened, void *lane) {
    (void)opened, (void)lane;
}

/* Writes the first state, range by range, on several threads. */
static bool job_init(void *opened, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)opened, (void)err;
    if (range->group != 0) return true;
    for (uint64_t i = range->first; i < range->first + range->count; i++)
        ((float *)state->data[LINE])[i] = ((float *)state->data[VELOCITY])[i] = 0;
    return true;
}

static uint32_t job_shards(const void *opened, uint64_t step, gw_phase *phase) {
    (void)opened, (void)step;
    *phase = GW_TRAIN;
    return SHARDS;
}

/* Yours: a sample. Point k is a pure function of the seed and k. */
static void point_at(const job *j, uint64_t k, float *x, float *y) {
    gw_philox bits = gw_philox_at((uint64_t)j->seed, 0, k);
    *x = (float)bits.words[0] * 0x1p-31F - 1;
    *y = 3 * *x - 1 + ((float)bits.words[1] * 0x1p-31F - 1) * 0.1F;
}

/* Yours: the work. Computes one shard of a step and emits its numbers; any peer and thread may run it. */
static bool job_contribute(void *opened, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                           gw_emitter *emitter, gw_err *err) {
    const job *j = opened;
    const float *line = state->data[LINE];
    float gradient[2] = {0, 0}, loss = 0;
    (void)lane, (void)err;
    /* Each pass over the samples has an order of its own. SAMPLES is a multiple of BATCH. */
    uint64_t position = step * BATCH + (uint64_t)shard * ROWS;
    gw_permutation order = gw_permutation_of((uint64_t)j->seed, position / SAMPLES, SAMPLES);
    for (int row = 0; row < ROWS; row++) {
        float x, y;
        point_at(j, gw_permutation_at(&order, position % SAMPLES + (uint64_t)row), &x, &y);
        float error = line[0] * x + line[1] - y;
        gradient[0] += error * x;
        gradient[1] += error;
        loss += error * error;
    }
    gw_emit(emitter, GRADIENT, 0, 2, gradient);
    gw_emit(emitter, LOSS, 0, 1, &loss);
    return true;
}

/* Computes numbers that the whole step shares, once per peer: here the learning rate. */
static bool job_scalars(void *opened, uint64_t step, const gw_sums *sums, const gw_state *state,
                        gw_scalars *scalars, gw_err *err) {
    const job *j = opened;
    (void)sums, (void)state, (void)err;
    scalars->value[0] = gw_schedule_rate(&j->schedule, step);
    return true;
}

/* Updates one range of a group from the sums, on several threads at once. */
static bool job_apply(void *opened, uint64_t step, const gw_range *range, const gw_sums *sums,
                      const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    const gw_sgd sgd = {.scale = 0x1p-40 / BATCH, .rate = (float)scalars->value[0], .momentum = 0.9F};
    (void)opened, (void)step, (void)err;
    if (range->group != 0) return true;
    gw_optimizer_sgd(&sgd, range->count, sums->data[GRADIENT] + range->first,
                     (float *)state->data[LINE] + range->first, (float *)state->data[VELOCITY] + range->first);
    return true;
}

/* What people see of a step, and of the end: key=value pairs. */
static void job_report(void *opened, uint64_t step, const gw_sums *sums, const gw_scalars *scalars, char *text,
                       size_t size) {
    (void)opened, (void)step;
    snprintf(text, size, "loss=%.6g lr=%.4g", gw_sum_value(sums, LOSS, 0) / BATCH, scalars->value[0]);
}

static void job_summary(void *opened, uint64_t steps_done, const gw_state *state, char *text, size_t size) {
    const float *line = state->data[LINE];
    (void)opened, (void)steps_done;
    snprintf(text, size, "slope=%.4f offset=%.4f", (double)line[0], (double)line[1]);
}

/* `godwit run ./gpt.so` looks for this function. */
const gw_job_type *godwit_job(void);
const gw_job_type *godwit_job(void) {
    static const gw_job_type type = {
        .api = GW_JOB_API,
        .name = "gpt",
        .about = "fits a line to noisy points",
        .options = options,
        .open = job_open,
        .close = free,
        .describe = job_describe,
        .lane_open = job_lane_open,
        .lane_close = job_lane_close,
        .init = job_init,
        .shards = job_shards,
        .contribute = job_contribute,
        .scalars = job_scalars,
        .apply = job_apply,
        .report = job_report,
        .summary = job_summary,
    };
    return &type;
}
