/* The shard deque in one 64-bit word: tag (24 bits) | next (20) | end (20). The owner takes from the front,
 * thieves take the back part by compare-and-swap; the tag, made of epoch and step, makes a late
 * compare-and-swap fail. The integers are positions in the list of shards of the deal (core/README.md,
 * section 4). Tag 0 means closed: no shard can be taken or stolen. */
#ifndef GODWIT_CORE_SHARD_RANGE_H
#define GODWIT_CORE_SHARD_RANGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gw_word {
    uint32_t tag, next, end;
} gw_word;

uint64_t gw_word_pack(gw_word word);
gw_word gw_word_unpack(uint64_t bits);
/* The tag of the deal of `step` under `epoch`; never 0. */
uint32_t gw_word_tag(uint64_t epoch, uint64_t step);
/* Positions left: end - next. */
uint32_t gw_word_left(gw_word word);
/* Takes up to `most` positions from the front, for the owner. Returns false if none is left. */
bool gw_word_take(gw_word *word, uint32_t most, uint32_t *first, uint32_t *count);
/* Computes a steal: the thief takes the back part in the ratio of the speeds (half if they are equal), at
 * least one position, and `rest` is the word that remains. Returns false if nothing is left. */
bool gw_word_split(gw_word word, uint64_t thief_speed, uint64_t victim_speed, gw_word *rest, uint32_t *first,
                   uint32_t *end);

#endif
