/* The check that a job's memory fits the machine, made before anything is allocated; its message advises what
 * to change. */
#ifndef GODWIT_KERNELS_HOST_NEED_H
#define GODWIT_KERNELS_HOST_NEED_H

#include "core/base/err.h"

#include <stdint.h>

typedef struct gw_need {
    uint64_t lane_bytes;           /* scratch of one worker */
    uint32_t workers;              /* at least 1 */
    uint64_t rest_bytes;           /* everything but the workers' scratch */
    uint64_t most_bytes;           /* memory that the job may use */
    const char *lighter, *smaller; /* advice, as in gw_plan */
} gw_need;

/* Fails with GW_E_LIMIT where the job needs more than most_bytes. The message contains `of`, the memory's
 * name ("memory here"), and `has`, its owner ("the machine has"). Any thread. */
bool gw_need_check(const gw_need *need, const char *of, const char *has, gw_err *err);

#endif
