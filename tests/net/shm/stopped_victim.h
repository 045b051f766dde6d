/* A steal from a process that cannot run: what one-sided means. */
#ifndef GODWIT_TESTS_NET_SHM_STOPPED_VICTIM_H
#define GODWIT_TESTS_NET_SHM_STOPPED_VICTIM_H

#include <stdint.h>

/* Two processes, linked by `kinds` (net/fabric/fabric.h). One is stopped by SIGSTOP; meanwhile the other
 * takes half of its range by one READ and one CAS. Checks that it was stopped all the time, and both
 * counters. */
void stopped_victim_is_stolen_from(uint32_t kinds);

#endif
