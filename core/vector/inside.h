/* What the instruction sets of core/vector/path.h implement, each by its own copy of core/vector/rows.inc. */
#ifndef GODWIT_CORE_VECTOR_INSIDE_H
#define GODWIT_CORE_VECTOR_INSIDE_H

#include "core/vector/path.h"
#include "core/vector/sum.h"

enum {
    GW_VECTOR_LINE = 64,  /* bytes that are handled at a time: two rows of a checksum, or eight int64 */
    GW_VECTOR_ALIGN = 16, /* of what is written past the caches */
};

/* All functions work on whole lines, at addresses of any alignment, and take checksums that stand at the begin of a
 * row. They do not count the checksum's values. */
struct gw_vector_path {
    const char *name;
    void (*take)(gw_checksum *checksum, const void *values, uint64_t lines);
    /* As gw_sum_into does. */
    void (*add)(gw_sum_type type, void *out, const void *in, const void *theirs, uint64_t lines,
                gw_checksum *before, gw_checksum *after);
    /* One block of core/vector/pack.h, of 1 to 64 lines. `width`: the bits that differ from the next lower one in
     * some element, with a zero below the lowest, so that the highest one tells the width. The others: `bits` is the
     * width, 1 to 63; checksums may be NULL, and are of the elements that are packed, that are unpacked (before) and
     * of the sums (after). If `ours` is NULL nothing is added; else it is `out` or disjoint. */
    uint64_t (*width)(const int64_t *elements, uint32_t lines);
    void (*pack)(const int64_t *elements, uint32_t lines, uint32_t bits, uint8_t *to, gw_checksum *checksum);
    void (*unpack)(const uint8_t *from, uint32_t lines, uint32_t bits, const int64_t *ours, int64_t *out,
                   gw_checksum *before, gw_checksum *after);
    /* Unpacks past the caches; `out` is aligned to GW_VECTOR_ALIGN. */
    void (*unpack_past)(const uint8_t *from, uint32_t lines, uint32_t bits, int64_t *out,
                        gw_checksum *checksum);
    /* Copies past the caches; `out` is aligned to GW_VECTOR_ALIGN. */
    void (*copy_past)(const int64_t *from, uint64_t lines, int64_t *out);
};

/* Puts what was written past the caches before all later writes, as it is not otherwise for other threads. */
void gw_vector_fence(void);

/* The bytes before the next row of a checksum begins, at most `bytes`. */
uint64_t gw_checksum_before_row(const gw_checksum *checksum, uint64_t bytes);
/* Adds one value, wherever in a row the checksum stands. */
void gw_checksum_take_value(gw_checksum *checksum, uint32_t value);

#endif
