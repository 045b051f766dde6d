/* Who gets which part of a step. Efficiency only: no result depends on a deal, because any peer may steal. */
#ifndef GODWIT_CORE_SHARD_DEAL_H
#define GODWIT_CORE_SHARD_DEAL_H

#include <stdint.h>

/* Cuts positions [0, positions) into `count` contiguous ranges proportional to the speeds: range i is
 * [cuts[i], cuts[i + 1]). What truncation leaves goes, one by one, to whoever is done first with one more, so
 * that the last of all ends as soon as it can: one shard too many on a slow member costs more than several on
 * fast ones. Integer arithmetic only, so that all members compute the same deal from the same speeds. A speed
 * of 0 is not known yet and counts as the mean of the others. `count` <= GW_MAX_MEMBERS; cuts has room for
 * count + 1. */
void gw_deal_cut(uint32_t positions, const uint64_t *speeds, uint32_t count, uint32_t *cuts);

#endif
