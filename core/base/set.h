/* Sets of numbers in [0, size), as bits: the shards that an accumulator holds, the chunks that a peer has.
 * Memory is small (2 MiB at most), so that these functions assert it instead of failing. */
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

/* An empty set, and a copy; the caller frees them with gw_set_free. */
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
/* Writes a set: its size, the number of runs, then each run's start and length; or its words where that is
 * shorter. Each set has one form. */
void gw_set_put(gw_writer *w, const gw_set *set);
/* Reads a set, which the caller frees. Malformed bytes fail the reader and give a set of size 0. */
gw_set gw_set_get(gw_reader *r);

#endif
