#include "core/os/clock.h"

#include "core/base/assert.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock) {
    struct timespec now;
    int failed = clock_gettime(clock, &now);
    GW_ASSERT(failed == 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t gw_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t gw_wall_ns(void) {
    return read_clock(CLOCK_REALTIME);
}

double gw_wall_s(void) {
    uint64_t microseconds = gw_wall_ns() / 1000;
    return (double)microseconds / 1e6;
}
