/* Condition variables whose waits end at a time of gw_now_ns (net/loop/loop.h). Any thread. */
#ifndef GODWIT_NET_LOOP_CONDITION_H
#define GODWIT_NET_LOOP_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* For gw_cond_wait_until. pthread_cond_destroy ends it. */
void gw_cond_init(pthread_cond_t *condition);

/* With the lock held: until it is signalled, as pthread_cond_wait (also for no reason), or, false, until
 * `end_ns`. UINT64_MAX: no such time. */
bool gw_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t end_ns);

#endif
