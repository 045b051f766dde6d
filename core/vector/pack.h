/* Vectors of int64 in as few bits as each block of them needs, without loss: what exact sums travel as. Most of the 64
 * bits of an element repeat its sign. Pure; any thread.
 *
 * A packed vector of n > 0 elements:
 *   widths   a byte for each block of 512 elements (the last may be shorter), zeros up to a multiple of 64
 *   blocks   each 64 * ceil(lines * w / 64) bytes, lines = ceil(elements / 8), w its width, 0 to 64 bits
 * Element 8 r + l of a block is field r of lane l. A lane is a little-endian stream of w-bit two's complement fields,
 * lowest bits first, padded with zeros to whole 64-bit words; word k of lane l lies at byte 64 k + 8 l of the block.
 * Fields that fill up the last line are 0. w is the least that holds all elements of the block, so equal vectors have
 * equal bytes. A vector of no elements has no bytes.
 *
 * Functions for a range of blocks take its widths and its blocks apart, so that a vector can be packed in several
 * calls while its beginning is on its way: every range but the last has a multiple of 512 elements. `path` is one of
 * gw_vector_paths; all give the same bytes.
 *
 * A checksum, if it is not NULL, stands at the begin of a row of 4 elements, as it does after every range but the last.
 * It is of the elements, not of the packed bytes: thus it also covers packing and unpacking, and it is the same
 * whether a vector travels packed or not. Packing reads elements twice, first for the widths; its checksum is of the
 * second reading, the one that is packed. If bits change in memory between the two, a block has another width than it
 * needs, or loses bits, which the checksum shows.
 *
 * Whoever receives a packed vector checks it by gw_packed_check, and after that nothing in it can do harm. Whether
 * widths are the least costs another pass (gw_packed_is_least), and nobody's result depends on it: the checksum of the
 * elements tells whether they are what was sent. */
#ifndef GODWIT_CORE_VECTOR_PACK_H
#define GODWIT_CORE_VECTOR_PACK_H

#include "core/base/err.h"
#include "core/vector/checksum.h"
#include "core/vector/path.h"

#include <stdbool.h>

enum {
    GW_PACK_BLOCK = 512, /* elements of a block */
    GW_PACK_LINE = 64,   /* bytes to a multiple of which the widths and every block are filled up */
    GW_PACK_WIDTH = 64,  /* the most bits of a field */
};

/* The bytes of the widths of `count` elements, with the zeros behind them. */
uint64_t gw_pack_head(uint64_t count);
/* The bytes of a block of `count` elements, at most 512, each of `width` bits. */
uint64_t gw_pack_block_bytes(uint64_t count, uint32_t width);
/* The most bytes of `count` elements, widths included. */
uint64_t gw_pack_most(uint64_t count);

/* Packs a range of blocks: writes the width of each to `widths`, and the blocks to `to`, which has room for the bytes
 * of so many elements of 64 bits. Returns the bytes written to `to`. */
uint64_t gw_pack_blocks(const gw_vector_path *path, const int64_t *elements, uint64_t count, uint8_t *widths,
                        uint8_t *to, gw_checksum *checksum);
/* Packs a whole vector to `packed`, which has room for gw_pack_most bytes; returns its bytes. */
uint64_t gw_pack(const gw_vector_path *path, const int64_t *elements, uint64_t count, void *packed,
                 gw_checksum *checksum);

/* Whether `bytes` bytes may be a packed vector of `count` elements: widths are at most 64, the bytes behind them 0,
 * and the length is exactly that of such widths. Fails with GW_E_INVALID, and says what is wrong. */
bool gw_packed_check(const void *packed, uint64_t bytes, uint64_t count, gw_err *err);
/* Whether the vector, which passes gw_packed_check, is the one that gw_pack makes of its elements. */
bool gw_packed_is_least(const gw_vector_path *path, const void *packed, uint64_t count);

/* Unpacks a range of blocks to `out`; widths are at most 64. Returns the bytes read from `from`. */
uint64_t gw_unpack_blocks(const gw_vector_path *path, const uint8_t *widths, const uint8_t *from,
                          uint64_t count, int64_t *out, gw_checksum *checksum);
/* The same for an `out` that nobody reads soon: it is written past the caches, so that it is not read from memory
 * before, and nothing else leaves them. The checksum is not NULL. */
uint64_t gw_unpack_past_caches(const gw_vector_path *path, const uint8_t *widths, const uint8_t *from,
                               uint64_t count, int64_t *out, gw_checksum *checksum);
/* Copies elements past the caches in the same way; `out` is disjoint from them. */
void gw_copy_past_caches(const gw_vector_path *path, const int64_t *elements, uint64_t count, int64_t *out);
/* Computes out[i] = ours[i] + the unpacked element i, which wraps; `ours` is `out` or disjoint. `before` is of the
 * unpacked elements, `after` of the sums; both stand at the same place, or both are NULL. */
uint64_t gw_unpack_add(const gw_vector_path *path, const uint8_t *widths, const uint8_t *from, uint64_t count,
                       const int64_t *ours, int64_t *out, gw_checksum *before, gw_checksum *after);

#endif
