/* A job of many small tensors with long names: half of them are state, and each of these has its sum. Every
 * parameter moves by the sum of numbers that depend on it, the step and the shard. */
#include "core/godwit.h"
#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = GW_MAX_TENSOR_NAME + 1 };

static const gw_option options[] = {
    {"tensors", "N", "65536", "Tensors, an even number", false},
    {"elements", "N", "16", "Elements of each tensor", false},
    {"per-bucket", "N", "256", "Sums in one bucket", false},
    {"shards", "N", "4", "Shards of a step", false},
    {0},
};

typedef struct many_job {
    int64_t count, elements, per_bucket, shards;
    gw_tensor *tensors; /* parameter i is tensor 2 i, and its sum tensor 2 i + 1 */
    char (*names)[NAME_BYTES];
} many_job;

static void many_close(void *job) {
    many_job *many = job;
    free(many->tensors);
    free(many->names);
    free(many);
}

static bool many_open(const gw_params *params, void **job, gw_err *err) {
    many_job *many = calloc(1, sizeof *many);
    if (many == NULL) return gw_fail(err, GW_E_NOMEM, "many: out of memory");
    *job = many;
    if (!gw_param_integer(params, "tensors", 2, 1 << 20, false, &many->count, err) ||
        !gw_param_integer(params, "elements", 1, 1 << 20, false, &many->elements, err) ||
        !gw_param_integer(params, "per-bucket", 1, 1 << 20, false, &many->per_bucket, err) ||
        !gw_param_integer(params, "shards", 1, GW_MAX_SHARDS, false, &many->shards, err)) {
        many_close(many);
        return false;
    }
    many->tensors = calloc((size_t)many->count, sizeof *many->tensors);
    many->names = calloc((size_t)many->count, sizeof *many->names);
    if (many->tensors != NULL && many->names != NULL) return true;
    many_close(many);
    return gw_fail(err, GW_E_NOMEM, "many: out of memory");
}

static bool many_describe(void *job, gw_plan *plan, gw_err *err) {
    many_job *many = job;
    (void)err;
    for (int64_t t = 0; t < many->count; t++) {
        /* Names have from 30 to the most bytes. */
        int pad = (int)(t % (GW_MAX_TENSOR_NAME - 29));
        snprintf(many->names[t], NAME_BYTES,
                 "Bl\xc3\xb6"
                 "cke/%05d \"%c\"%0*d.weight",
                 (int)t, t % 2 == 0 ? 'p' : 's', pad, 0);
        many->tensors[t] = (gw_tensor){.name = many->names[t],
                                       .dtype = GW_F32,
                                       .role = t % 2 == 0 ? GW_STATE : GW_SUMMED,
                                       .rank = 1,
                                       .dim = {(uint64_t)many->elements},
                                       .group = (uint32_t)(t / 2),
                                       .bucket = (uint32_t)(t / 2 / many->per_bucket),
                                       .frac_bits = 30};
    }
    plan->tensors = many->tensors;
    plan->tensor_count = (uint32_t)many->count;
    plan->lane_bytes = (size_t)many->elements * sizeof(float);
    return true;
}

static bool many_lane_open(void *job, void **lane, gw_err *err) {
    const many_job *many = job;
    *lane = calloc((size_t)many->elements, sizeof(float));
    return *lane != NULL || gw_fail(err, GW_E_NOMEM, "many: out of memory");
}

static void many_lane_close(void *job, void *lane) {
    (void)job;
    free(lane);
}

static bool many_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)job, (void)err;
    float *values = state->data[2 * range->group];
    for (uint64_t i = range->first; i < range->first + range->count; i++)
        values[i] = (float)range->group + (float)i / 64;
    return true;
}

static uint32_t many_shards(const void *job, uint64_t step, gw_phase *phase) {
    const many_job *many = job;
    (void)step;
    *phase = GW_TRAIN;
    return (uint32_t)many->shards;
}

static bool many_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                            gw_emitter *emitter, gw_err *err) {
    const many_job *many = job;
    float *part = lane;
    (void)err;
    for (int64_t p = 0; p < many->count / 2; p++) {
        const float *values = state->data[2 * p];
        gw_philox dice = gw_philox_at(step, (uint64_t)shard, (uint64_t)p);
        for (int64_t i = 0; i < many->elements; i++)
            part[i] = (float)(dice.words[i % 4] >> 8) * 0x1p-24f - values[i] * 0x1p-20f;
        gw_emit(emitter, (uint32_t)(2 * p + 1), 0, (uint64_t)many->elements, part);
    }
    return true;
}

static bool many_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                       const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    (void)job, (void)step, (void)scalars, (void)err;
    float *values = state->data[2 * range->group];
    for (uint64_t i = range->first; i < range->first + range->count; i++)
        values[i] += (float)gw_sum_value(sums, 2 * range->group + 1, i);
    return true;
}

const gw_job_type *godwit_job(void); /* what `godwit run ./many.so` looks for */

const gw_job_type *godwit_job(void) {
    static const gw_job_type type = {
        .api = GW_JOB_API,
        .name = "many",
        .about = "many small tensors",
        .options = options,
        .open = many_open,
        .close = many_close,
        .describe = many_describe,
        .lane_open = many_lane_open,
        .lane_close = many_lane_close,
        .init = many_init,
        .shards = many_shards,
        .contribute = many_contribute,
        .apply = many_apply,
    };
    return &type;
}
