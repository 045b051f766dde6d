/* The clocks of the operating system. Any thread. */
#ifndef GODWIT_CORE_OS_CLOCK_H
#define GODWIT_CORE_OS_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC: time since some moment in the past that is the same for all threads and
 * processes of this machine. Deadlines and durations are taken from this clock. */
uint64_t gw_now_ns(void);

/* Nanoseconds since 1970 (CLOCK_REALTIME), for dates that people read. This clock may jump in either
 * direction when it is set. */
uint64_t gw_wall_ns(void);

/* The same in seconds, to whole microseconds: a number that people and JSON show with few digits. Any
 * thread. */
double gw_wall_s(void);

#endif
