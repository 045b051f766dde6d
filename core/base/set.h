/* A set of shard numbers in [0, size): what an accumulator holds, what is missing, which chunks a peer has.
 */
#ifndef GODWIT_CORE_BASE_SET_H
#define GODWIT_CORE_BASE_SET_H

#include "core/base/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_SET_MAX = 1 << 24 }; /* elements; larger sets are refused when read */

typedef struct gw_set {
    uint64_t *words; /* (size + 63) / 64 of them; bits past size are 0. NULL when size is 0 */
    uint32_t size;
} gw_set;

/* An empty set; aborts never: out of memory is a broken invariant here (sets are at most 2 MiB). Owner frees.
 */
gw_set gw_set_of(uint32_t size);
gw_set gw_set_copy(const gw_set *set);
void gw_set_free(gw_set *set);
void gw_set_add(gw_set *set, uint32_t element);
void gw_set_fill(gw_set *set);
bool gw_set_has(const gw_set *set, uint32_t element);
uint32_t gw_set_count(const gw_set *set);
/* The following two need sets of equal size. */
void gw_set_unite(gw_set *into, const gw_set *other);
bool gw_set_overlaps(const gw_set *a, const gw_set *b);
void gw_set_complement(gw_set *set);
/* The smallest element >= from, or size when there is none. */
uint32_t gw_set_next(const gw_set *set, uint32_t from);
/* Wire form: size, number of runs, then each run's start and length; or, where that is shorter, the words.
 * Each set has one form, and none is longer than its words. */
void gw_set_put(gw_writer *w, const gw_set *set);
/* A new set, or an empty one of size 0 with the reader failed when the bytes are malformed. */
gw_set gw_set_get(gw_reader *r);

#endif
