#include "kernels/device/outcome.h"

#include "core/base/assert.h"
#include "kernels/host/fpmode.h"

bool gw_outcome_scalars(gw_outcome *o, gw_ledger *ledger, uint64_t step, gw_scalars *scalars, gw_err *err) {
    gw_held now;
    gw_ledger_held(ledger, &now, NULL);
    GW_ASSERT(now.running == 0); /* or it would read a state that changes */
    o->scalars = (gw_scalars){.stop = false};
    gw_sums sums = {o->sum, o->tensors, o->measured};
    gw_state state = {o->state};
    gw_fpmode_set();
    bool done = o->type->scalars == NULL || o->type->scalars(o->job, step, &sums, &state, &o->scalars, err);
    if (!done) {
        gw_fail_in(err, "job %s: step %llu: scalars", o->type->name, (unsigned long long)step);
    } else if (!gw_fpmode_right()) {
        done = gw_fail(err, GW_E_INVALID, "job %s: step %llu: scalars changed the floating-point mode",
                       o->type->name, (unsigned long long)step);
    }
    gw_fpmode_set();
    if (!done) return false;
    o->ready = true;
    *scalars = o->scalars;
    return true;
}

bool gw_outcome_commit(const gw_outcome *o, uint64_t step, gw_err *err) {
    gw_state state = {o->state};
    return o->type->commit(o->job, step, &state, err) ||
           gw_fail_in(err, "job %s: step %llu: commit", o->type->name, (unsigned long long)step);
}

void gw_outcome_report(const gw_outcome *o, uint64_t step, char *text, size_t size) {
    GW_ASSERT(o->ready && size > 0);
    text[0] = '\0';
    gw_sums sums = {o->sum, o->tensors, o->measured};
    if (o->type->report != NULL) o->type->report(o->job, step, &sums, &o->scalars, text, size);
}

void gw_outcome_summary(const gw_outcome *o, uint64_t steps_done, char *text, size_t size) {
    GW_ASSERT(size > 0);
    text[0] = '\0';
    gw_state state = {o->state};
    if (o->type->summary != NULL) o->type->summary(o->job, steps_done, &state, text, size);
}
