#include "core/os/condition.h"

#include "core/base/assert.h"

#include <errno.h>
#include <time.h>

#define SECOND_NS 1000000000u

void gw_cond_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failure = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    GW_ASSERT(failure == 0); /* no resource is needed that could be short */
}

bool gw_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t end_ns) {
    const struct timespec until = {.tv_sec = (time_t)(end_ns / SECOND_NS),
                                   .tv_nsec = (long)(end_ns % SECOND_NS)};
    int failure = end_ns == UINT64_MAX ? pthread_cond_wait(condition, lock)
                                       : pthread_cond_timedwait(condition, lock, &until);
    GW_ASSERT(failure == 0 || failure == ETIMEDOUT);
    return failure == 0;
}
