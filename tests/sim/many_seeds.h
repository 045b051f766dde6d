/* Whole flocks under a range of seeds, in which everything goes wrong: what every such range has to show. */
#ifndef GODWIT_TESTS_SIM_MANY_SEEDS_H
#define GODWIT_TESTS_SIM_MANY_SEEDS_H

#include "tools/sim/run.h"

/* Draws what is not given. Flocks have 12 peers at most, as larger ones take longer than all others together; the swarm runs
 * them. */
void many_seeds_draw(gw_sim_options *options);

/* Runs the seeds `first` to `last`, all of which must pass, and adds up their results in *all. Each is
 * drawn as many_seeds_draw does. */
void many_seeds(uint64_t first, uint64_t last, bool majority, bool fast, gw_sim_result *all);

/* Fails the test unless faults of the usual kinds really happened in a hundred seeds: a simulator in which nothing goes wrong
 * proves nothing. */
void many_seeds_went_wrong(const gw_sim_result *all);

/* Fails the test unless most of a hundred flocks ended soon after their last fault. */
void many_seeds_end_soon(const gw_sim_result *all);

/* Fails the test if more runs than this ended early, by a shard that kills or by a flock that nobody has seen: they are not
 * asked whether their job gets done. */
void many_seeds_few_end_early(const gw_sim_result *all, uint64_t poisoned, uint64_t unseen);

#endif
