/* The deal: which member gets which part of a step. It matters for efficiency only; no result depends on
 * it, because any peer may steal. */
#ifndef GODWIT_CORE_SHARD_DEAL_H
#define GODWIT_CORE_SHARD_DEAL_H

#include <stdbool.h>
#include <stdint.h>

/* Cuts positions [0, positions) into `count` contiguous ranges proportional to the speeds: range i is
 * [cuts[i], cuts[i + 1]). Positions that truncation leaves over go, one by one, to the member that would
 * finish one more first, so that the last member finishes as early as possible: one shard too many on a
 * slow member costs more than several on fast ones. All arithmetic is on integers, so that all members
 * compute the same deal from the same speeds. A speed of 0 means unknown and counts as the mean of the
 * others. `count` <= GW_MAX_MEMBERS; cuts has room for count + 1. */
void gw_deal_cut(uint32_t positions, const uint64_t *speeds, uint32_t count, uint32_t *cuts);

/* Cuts the positions likewise for the least energy (`--deal energy`). The deal of gw_deal_cut says when its
 * last member is done; until then, and `slack` thousandths of that time longer, each member can do a certain
 * number of positions, since the flock waits anyway. The members with the cheapest shards get as many as they
 * can do, and the dearest get what is left. `joules[i]` is what a shard costs member i, in any unit; 0 means
 * unknown and counts as the mean of the others. Two allowances are made for what is measured inexactly: a
 * member can do a position of which it would have seven eighths done in time, and costs that differ by less
 * than an eighth count as equal. Members of equal cost share by their speeds.
 *
 * Returns how long the members may take, in nanoseconds from the begin of the step, where speeds are in
 * thousandths of a shard a second. 0: no cost is known, and the deal is that of gw_deal_cut. */
uint64_t gw_deal_cut_cheaply(uint32_t positions, const uint64_t *speeds, const uint64_t *joules,
                             uint32_t count, uint32_t slack, uint32_t *cuts);

/* Whether shards that cost `joules` are dearer than those that cost `others`, by more than counts as
 * equal. Those of unknown cost (0) are neither. */
bool gw_deal_is_dearer(uint64_t joules, uint64_t others);

#endif
