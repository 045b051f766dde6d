/* Condition variables whose waits end at a time of gw_now_ns (core/os/clock.h). Any thread. */
#ifndef GODWIT_CORE_OS_CONDITION_H
#define GODWIT_CORE_OS_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Initializes a condition variable for gw_cond_wait_until. pthread_cond_destroy ends it. */
void gw_cond_init(pthread_cond_t *condition);

/* Waits as pthread_cond_wait does, with `lock` held and with wake-ups for no reason, and returns true;
 * returns false once gw_now_ns() has reached `end_ns`. UINT64_MAX means no limit. */
bool gw_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t end_ns);

#endif
