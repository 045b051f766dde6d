#include "kernels/device/job.h"

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

bool gw_sum_verdict_scalars(gw_sum_verdict *v, gw_ledger *ledger, uint64_t step, gw_scalars *scalars,
                            gw_err *err) {
    gw_held now;
    gw_ledger_held(ledger, &now, NULL);
    GW_ASSERT(now.running == 0); /* a running shard reads the state, which changes from here on */
    v->scalars = (gw_scalars){.stop = false};
    gw_sums sums = {v->sum, v->tensors, v->measured};
    gw_state state = {v->state};
    gw_fpmode_set();
    bool done = v->type->scalars == NULL || v->type->scalars(v->job, step, &sums, &state, &v->scalars, err);
    if (!done) {
        gw_fail_in(err, "job %s: step %llu: scalars", v->type->name, (unsigned long long)step);
    } else if (!gw_fpmode_right()) {
        done = gw_fail(err, GW_E_INVALID, "job %s: step %llu: scalars changed the floating-point mode",
                       v->type->name, (unsigned long long)step);
    }
    gw_fpmode_set();
    if (!done) return false;
    v->ready = true;
    *scalars = v->scalars;
    return true;
}

bool gw_sum_verdict_commit(const gw_sum_verdict *v, uint64_t step, gw_err *err) {
    gw_state state = {v->state};
    return v->type->commit(v->job, step, &state, err) ||
           gw_fail_in(err, "job %s: step %llu: commit", v->type->name, (unsigned long long)step);
}

void gw_sum_verdict_report(const gw_sum_verdict *v, uint64_t step, char *text, size_t size) {
    GW_ASSERT(v->ready && size > 0);
    text[0] = '\0';
    gw_sums sums = {v->sum, v->tensors, v->measured};
    if (v->type->report != NULL) v->type->report(v->job, step, &sums, &v->scalars, text, size);
}

void gw_sum_verdict_summary(const gw_sum_verdict *v, uint64_t steps_done, char *text, size_t size) {
    GW_ASSERT(size > 0);
    text[0] = '\0';
    gw_state state = {v->state};
    if (v->type->summary != NULL) v->type->summary(v->job, steps_done, &state, text, size);
}
