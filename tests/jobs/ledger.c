/* A job with effects: each committed step is a line in a file, "step bits", where bits are those of its
 * state, a float: sums of floats that were made otherwise show. */
#include "core/godwit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUE, SUM, SHARDS = 24, STEPS = 60 };

static const gw_tensor tensors[] = {
    [VALUE] = {.name = "value", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {1}},
    [SUM] = {.name = "sum", .role = GW_SUMMED, .rank = 1, .dim = {1}, .frac_bits = 30},
};

static const gw_option options[] = {
    {"ledger", "FILE", NULL, "Where the lines go", true},
    {"fail-commit", "N", "-1", "This peer's commit of step N fails; -1: none does", true},
    {"hang-commit", "N", "-1", "This peer's commit of step N never ends; -1: all end", true},
    {0},
};

typedef struct ledger_job {
    int file; /* -1: none */
    int64_t fail, hang;
} ledger_job;

static void ledger_close(void *job) {
    ledger_job *ledger = job;
    if (ledger->file >= 0) close(ledger->file);
    free(ledger);
}

static bool ledger_open(const gw_params *params, void **job, gw_err *err) {
    ledger_job *ledger = calloc(1, sizeof *ledger);
    if (ledger == NULL) return gw_fail(err, GW_E_NOMEM, "ledger: out of memory");
    *job = ledger;
    const char *path = gw_param_text(params, "ledger");
    ledger->file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if ((path == NULL || ledger->file >= 0 || gw_fail(err, GW_E_IO, "--ledger %s cannot be opened", path)) &&
        gw_param_integer(params, "fail-commit", -1, INT64_MAX, false, &ledger->fail, err) &&
        gw_param_integer(params, "hang-commit", -1, INT64_MAX, false, &ledger->hang, err))
        return true;
    ledger_close(ledger);
    return false;
}

static bool ledger_describe(void *job, gw_plan *plan, gw_err *err) {
    (void)job, (void)err;
    plan->tensors = tensors;
    plan->tensor_count = 2;
    plan->steps = STEPS;
    return true;
}

static bool ledger_lane_open(void *job, void **lane, gw_err *err) {
    (void)job, (void)err;
    *lane = NULL;
    return true;
}

static void ledger_lane_close(void *job, void *lane) {
    (void)job, (void)lane;
}

static bool ledger_init(void *job, const gw_range *range, const gw_state *state, gw_err *err) {
    (void)job, (void)range, (void)err;
    *(float *)state->data[VALUE] = 1;
    return true;
}

static uint32_t ledger_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return SHARDS;
}

static bool ledger_contribute(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                              gw_emitter *emitter, gw_err *err) {
    (void)job, (void)lane, (void)err;
    usleep(6000); /* long enough for a peer that is started again to be back before the end */
    float part = *(const float *)state->data[VALUE] / (float)(3 + 7 * shard + step);
    gw_emit(emitter, SUM, 0, 1, &part);
    return true;
}

static bool ledger_apply(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                         const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    (void)job, (void)step, (void)range, (void)scalars, (void)err;
    float *value = state->data[VALUE];
    *value = 0.5f * *value + (float)gw_sum_value(sums, SUM, 0);
    return true;
}

static bool ledger_commit(void *job, uint64_t step, const gw_state *state, gw_err *err) {
    const ledger_job *ledger = job;
    if ((int64_t)step == ledger->fail) return gw_fail(err, GW_E_IO, "the ledger is shut");
    while ((int64_t)step == ledger->hang) pause();
    uint32_t bits;
    char line[64];
    memcpy(&bits, state->data[VALUE], sizeof bits);
    int length = snprintf(line, sizeof line, "%" PRIu64 " %08" PRIx32 "\n", step, bits);
    if (ledger->file < 0 || write(ledger->file, line, (size_t)length) == length) return true; /* one write */
    return gw_fail(err, GW_E_IO, "the ledger cannot be written");
}

const gw_job_type *godwit_job(void); /* what `godwit run ./ledger.so` looks for */

const gw_job_type *godwit_job(void) {
    static const gw_job_type type = {
        .api = GW_JOB_API,
        .name = "ledger",
        .about = "writes down each committed step",
        .options = options,
        .open = ledger_open,
        .close = ledger_close,
        .describe = ledger_describe,
        .lane_open = ledger_lane_open,
        .lane_close = ledger_lane_close,
        .init = ledger_init,
        .shards = ledger_shards,
        .contribute = ledger_contribute,
        .apply = ledger_apply,
        .commit = ledger_commit,
    };
    return &type;
}
