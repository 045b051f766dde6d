#include "kernels/device/common.h"

#include "core/base/assert.h"
#include "kernels/host/fpmode.h"

bool gw_step_shards(const gw_job_type *type, const void *job, uint64_t step, uint32_t *shards, gw_err *err) {
    gw_phase phase;
    uint32_t count = type->shards(job, step, &phase);
    bool right = count >= 1 && count <= GW_MAX_SHARDS;
    *shards = right ? count : 0;
    return right || gw_fail(err, GW_E_INVALID, "job %s: step %llu has %u shards; a step has 1 to %u",
                            type->name, (unsigned long long)step, count, (unsigned)GW_MAX_SHARDS);
}

void gw_device_begin(gw_device *device, uint64_t step) {
    gw_step_result *result = device->result;
    uint32_t shards;
    gw_err unknown;
    result->ready = false;
    result->step = step;
    if (!device->owns_ledger) return;
    /* a failure is reported when the step is computed */
    (void)gw_step_shards(result->type, result->job, step, &shards, &unknown);
    gw_ledger_begin(device->ledger, step, shards);
}

void gw_device_empty(gw_device *device) {
    if (device->owns_ledger) gw_ledger_zero(device->ledger);
}

bool gw_device_scalars(gw_device *device, gw_scalars *scalars, gw_err *err) {
    gw_step_result *result = device->result;
    const gw_job_type *type = result->type;
    gw_held now;
    gw_ledger_held(device->ledger, &now, NULL);
    GW_ASSERT(now.running == 0); /* a running shard reads the state, which changes from here on */
    result->scalars = (gw_scalars){.stop = false};
    gw_sums sums = {result->sum, result->tensors, result->measured};
    gw_state state = {result->state};
    gw_fpmode_set();
    bool done = type->scalars == NULL ||
                type->scalars(result->job, result->step, &sums, &state, &result->scalars, err);
    if (!done) {
        gw_fail_in(err, "job %s", type->name); /* the caller says of which step, and that it is the scalars */
    } else if (!gw_fpmode_right()) {
        done = gw_fail(err, GW_E_INVALID, "job %s: step %llu: scalars changed the floating-point mode",
                       type->name, (unsigned long long)result->step);
    }
    gw_fpmode_set();
    if (!done) return false;
    result->ready = true;
    *scalars = result->scalars;
    return true;
}

void gw_device_set_key(gw_device *device, uint64_t job_key) {
    gw_ledger_set_key(device->ledger, job_key);
}

void gw_device_held(gw_device *device, gw_held *held, uint64_t *bits) {
    gw_ledger_held(device->ledger, held, bits);
}

void gw_device_bad(gw_device *device, gw_exact_bad *bad) {
    gw_ledger_bad(device->ledger, bad);
}

void gw_device_set_boundary(gw_device *device, const int64_t *words) {
    gw_ledger_set_boundary(device->ledger, words);
}

bool gw_device_commit(gw_device *device, uint64_t step, gw_err *err) {
    const gw_step_result *result = device->result;
    gw_state state = {result->state};
    return result->type->commit(result->job, step, &state, err) ||
           gw_fail_in(err, "job %s: step %llu: commit", result->type->name, (unsigned long long)step);
}

void gw_device_report(gw_device *device, char *text, size_t size) {
    const gw_step_result *result = device->result;
    GW_ASSERT(result->ready && size > 0);
    text[0] = '\0';
    gw_sums sums = {result->sum, result->tensors, result->measured};
    if (result->type->report != NULL)
        result->type->report(result->job, result->step, &sums, &result->scalars, text, size);
}

bool gw_device_finish(gw_device *device, uint64_t steps_done, gw_err *err) {
    const gw_step_result *result = device->result;
    gw_state state = {result->state};
    return result->type->finish(result->job, steps_done, &state, err) ||
           gw_fail_in(err, "job %s", result->type->name);
}

void gw_device_summary(gw_device *device, uint64_t steps_done, char *text, size_t size) {
    const gw_step_result *result = device->result;
    GW_ASSERT(size > 0);
    text[0] = '\0';
    gw_state state = {result->state};
    if (result->type->summary != NULL) result->type->summary(result->job, steps_done, &state, text, size);
}

uint32_t gw_device_only_part(gw_device *device, const gw_lane *lane) {
    (void)device, (void)lane;
    return 0;
}
