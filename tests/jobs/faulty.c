/* A job with faults that a test asks for: shards that hang, that cannot be computed, or whose payload cannot
 * be written or hangs, mistakes of its author, and machines that compute other bits. Its state counts shards,
 * each weighted by its number. */
#include "core/godwit.h"

#include <fenv.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef BIAS /* what an edit changed: every shard but the first, which alone is probed */
#define BIAS 0
#endif

enum { COUNT, SUM, SHARDS = 24 };

static const gw_tensor tensors[] = {
    [COUNT] = {.name = "count", .dtype = GW_I64, .role = GW_STATE, .rank = 1, .dim = {1}},
    [SUM] = {.name = "sum", .role = GW_SUMMED, .rank = 1, .dim = {1}},
};

static const gw_option options[] = {
    {"hang-step", "N", "-1", "The first shard that this peer computes from step N on hangs; -1: none", true},
    {"hang-shard", "K", "-1", "Shard K of step 3 hangs wherever it is computed; -1: none", true},
    {"hang-apply", "N", "-1", "Applying step N never ends; -1: none does", true},
    {"fail-shard", "K", "-1", "Shard K of step 3 fails wherever it is computed; -1: none", true},
    {"no-shards", "N", "-1", "Step N has no shards; -1: every step has some", true},
    {"many-shards", "N", "-1", "Step N has more shards than a step may have; -1: none has", true},
    {"mistake", "WHICH", NULL, "Every shard does what none may: tensor, piece or mode", true},
    {"payload", NULL, NULL, "A shard's weight is its payload", false},
    {"hang-payloads", NULL, NULL, "After the probe this peer never comes back with a payload", true},
    {"lose-payloads", "N", "0", "After the probe this peer fails to write a payload N times", true},
    {0},
};

typedef struct faulty_job {
    int64_t hang_step, hang_shard, hang_apply, fail_shard, no_shards, many_shards;
    const char *mistake;
    bool payload, hang_payloads;
    int64_t lose;
    int64_t machine;    /* FAULTY_MACHINE: one of another number computes other bits */
    atomic_bool probed; /* the first payload is the one of the probe at the start */
    atomic_llong lost;
} faulty_job;

static bool faulty_open(const gw_params *params, void **job, gw_err *err) {
    faulty_job *faulty = calloc(1, sizeof *faulty);
    if (faulty == NULL) return gw_fail(err, GW_E_NOMEM, "faulty: out of memory");
    *job = faulty;
    if (gw_param_integer(params, "hang-step", -1, INT64_MAX, false, &faulty->hang_step, err) &&
        gw_param_integer(params, "hang-shard", -1, SHARDS - 1, false, &faulty->hang_shard, err) &&
        gw_param_integer(params, "hang-apply", -1, INT64_MAX, false, &faulty->hang_apply, err) &&
        gw_param_integer(params, "fail-shard", -1, SHARDS - 1, false, &faulty->fail_shard, err) &&
        gw_param_integer(params, "no-shards", -1, INT64_MAX, false, &faulty->no_shards, err) &&
        gw_param_integer(params, "many-shards", -1, INT64_MAX, false, &faulty->many_shards, err) &&
        gw_param_integer(params, "lose-payloads", 0, INT64_MAX, false, &faulty->lose, err)) {
        faulty->payload = gw_param_text(params, "payload") != NULL;
        faulty->hang_payloads = gw_param_text(params, "hang-payloads") != NULL;
        faulty->mistake = gw_param_text(params, "mistake");
        const char *machine = getenv("FAULTY_MACHINE");
        faulty->machine = machine != NULL ? atoi(machine) : 0;
        return true;
    }
    free(faulty);
    return false;
}

static bool faulty_describe(void *job, gw_plan *plan, gw_err *err) {
    (void)err;
    plan->tensors = tensors;
    plan->tensor_count = 2;
    plan->steps = 20;
    if (((faulty_job *)job)->payload) plan->payload = (gw_payload_plan){.shards = SHARDS, .bytes = 8};
    return true;
}

static bool faulty_lane_open(void *job, void **lane, gw_err *err) {
    (void)job, (void)err;
    *lane = NULL;
    return true;
}

static void faulty_lane_close(void *job, void *lane) {
    (void)job, (void)lane;
}

static bool faulty_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)job, (void)range, (void)err;
    *(int64_t *)state->data[COUNT] = 0;
    return true;
}

static uint32_t faulty_shards(const void *job, uint64_t step, gw_phase *phase) {
    const faulty_job *faulty = job;
    *phase = GW_TRAIN;
    if (faulty->no_shards >= 0 && step == (uint64_t)faulty->no_shards) return 0;
    return faulty->many_shards >= 0 && step == (uint64_t)faulty->many_shards ? GW_MAX_SHARDS + 1 : SHARDS;
}

static void make_mistake(const char *mistake, gw_emitter *emitter) {
    static const int64_t two[2];
    if (strcmp(mistake, "tensor") == 0)
        gw_emit_integers(emitter, COUNT, 0, 1, two);
    else if (strcmp(mistake, "piece") == 0)
        gw_emit_integers(emitter, SUM, 0, 2, two);
    else
        fesetround(FE_UPWARD);
}

static bool faulty_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                              gw_emitter *emitter, gw_err *err) {
    (void)lane, (void)state;
    const faulty_job *faulty = job;
    if (step == 3 && shard == faulty->fail_shard) return gw_fail(err, GW_E_IO, "its disk is gone");
    bool own = faulty->hang_step >= 0 && step >= (uint64_t)faulty->hang_step;
    while (own || (step == 3 && shard == faulty->hang_shard)) pause();
    usleep(1000); /* long enough for every peer to get some of a step */
    const int64_t *payload = gw_payload(emitter);
    if (faulty->mistake != NULL) make_mistake(faulty->mistake, emitter);
    int64_t weight = (payload != NULL ? *payload : shard + 1) + (shard > 0 ? BIAS : 0) + faulty->machine;
    gw_emit_integers(emitter, SUM, 0, 1, &weight);
    return true;
}

static bool faulty_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                         const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    (void)range, (void)scalars, (void)err;
    const faulty_job *faulty = job;
    while (faulty->hang_apply >= 0 && step == (uint64_t)faulty->hang_apply) pause();
    *(int64_t *)state->data[COUNT] += sums->data[SUM][0];
    return true;
}

static bool faulty_payload(void *job, uint32_t shard, void *bytes, gw_err *err) {
    faulty_job *faulty = job;
    bool probe = !atomic_exchange(&faulty->probed, true);
    while (!probe && faulty->hang_payloads) pause();
    if (!probe && atomic_fetch_add(&faulty->lost, 1) < faulty->lose)
        return gw_fail(err, GW_E_IO, "its disk is gone");
    *(int64_t *)bytes = (int64_t)shard * shard + 1;
    return true;
}

const gw_job_type *godwit_job(void); /* what `godwit run ./faulty.so` looks for */

const gw_job_type *godwit_job(void) {
    static const gw_job_type type = {
        .api = GW_JOB_API,
        .name = "faulty",
        .about = "shards that hang or fail",
        .options = options,
        .open = faulty_open,
        .close = free,
        .describe = faulty_describe,
        .lane_open = faulty_lane_open,
        .lane_close = faulty_lane_close,
        .init = faulty_init,
        .shards = faulty_shards,
        .contribute = faulty_contribute,
        .apply = faulty_apply,
        .payload = faulty_payload,
    };
    return &type;
}
