/* Memory that a job will take, against what there is: told before it is tried, with what a person can do. */
#ifndef GODWIT_KERNELS_HOST_NEED_H
#define GODWIT_KERNELS_HOST_NEED_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_need {
    uint64_t lane_bytes; /* a worker's scratch */
    uint32_t workers;
    uint64_t rest_bytes;           /* all but the workers' */
    uint64_t most_bytes;           /* that there are */
    const char *lighter, *smaller; /* as in gw_plan */
} gw_need;

/* Fails with GW_E_LIMIT where it needs more than there is. `of`: of what memory, "memory here"; `has`: who
 * has most_bytes of it, "the machine has". Any thread. */
bool gw_need_check(const gw_need *need, const char *of, const char *has, gw_err *err);

#endif
