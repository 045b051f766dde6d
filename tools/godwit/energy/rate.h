/* What one more shard costs: the joules of some seconds in which some shards were computed are taken as
 *
 *     joules = power at rest x seconds + joules a shard x shards
 *
 * and both are fitted by least squares to the last such intervals, older ones counting less. Where the
 * number of shards a second hardly varies, the two cannot be told apart, and all of the energy counts as the
 * shards': a small weight on the power at rest (ridge regression) has it so. Pure. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_RATE_H
#define GODWIT_TOOLS_GODWIT_ENERGY_RATE_H

/* Sums over the intervals; zeros at the beginning. */
typedef struct gw_energy_rate {
    double tt, tn, nn, tj, nj; /* t = seconds, n = shards, j = joules */
} gw_energy_rate;

void gw_energy_rate_add(gw_energy_rate *rate, double seconds, double shards, double joules);
/* The joules that one more shard takes; 0 = not known. */
double gw_energy_rate_shard(const gw_energy_rate *rate);

#endif
