/* The assertion that an exhaustive search of one size finds no fork. */
#ifndef GODWIT_TESTS_SIM_NEVER_FORKS_H
#define GODWIT_TESTS_SIM_NEVER_FORKS_H

#include "tools/sim/model/forks.h"

enum { FORKS_MOST_STATES = 30000000 };

/* Fails the test if the search finds a fork, needs more than FORKS_MOST_STATES states, or visits fewer
 * than `least` states, in which case it has lost some of what can happen. */
void never_forks(gw_forks_size size, uint64_t least);

#endif
