#include "kernels/device/step.h"

bool gw_step_shards(const gw_job_type *type, const void *job, uint64_t step, uint32_t *shards, gw_err *err) {
    gw_phase phase;
    uint32_t said = type->shards(job, step, &phase);
    bool right = said >= 1 && said <= GW_MAX_SHARDS;
    *shards = right ? said : 0;
    return right || gw_fail(err, GW_E_INVALID, "job %s: step %llu has %u shards; a step has 1 to %u",
                            type->name, (unsigned long long)step, said, (unsigned)GW_MAX_SHARDS);
}
