/* The deal: which member gets which part of a step. It matters for efficiency only; no result depends on
 * it, because any peer may steal. */
#ifndef GODWIT_CORE_SHARD_DEAL_H
#define GODWIT_CORE_SHARD_DEAL_H

#include <stdint.h>

/* Cuts positions [0, positions) into `count` contiguous ranges proportional to the speeds: range i is
 * [cuts[i], cuts[i + 1]). Positions that truncation leaves over go, one by one, to the member that would
 * finish one more first, so that the last member finishes as early as possible: one shard too many on a
 * slow member costs more than several on fast ones. All arithmetic is on integers, so that all members
 * compute the same deal from the same speeds. A speed of 0 means unknown and counts as the mean of the
 * others. `count` <= GW_MAX_MEMBERS; cuts has room for count + 1. */
void gw_deal_cut(uint32_t positions, const uint64_t *speeds, uint32_t count, uint32_t *cuts);

#endif
