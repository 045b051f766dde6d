/* The sum format: how floats become integers whose sum has one value whatever the order, and how a wrong sum
 * is recognised. Pure; this is the definition, kernels/exact/exact.h is the same at memory speed.
 *
 * A value x of a tensor with f fraction bits becomes q = rint(x * 2^f), ties to even. x is a float, so the
 * product is exact in double precision: there is one rounding. Sums of q over shards are int64. A value that
 * is not finite, or so large that `shards` of them could overflow, is *bad*: it is counted and contributes 0.
 *
 * Every bucket starts with a header of 8 words that are summed with its data. After the sum over all peers:
 *   word 0  coverage: the number of shards in it
 *   word 1  coverage: sum mod 2^64 of a keyed hash of (job, step, shard): a shard lost or doubled shows
 *   word 2  fingerprint: sum mod 2^64 of q_i * key_i over the contributions as they were *before* adding;
 *           it must equal the fingerprint of the summed data: a value lost, doubled, stale or flipped shows
 *   word 3  the number of bad elements
 *   4 to 7  reserved, 0
 * (Linear fingerprints of sums: the checksum idea of Huang and Abraham, "Algorithm-based fault tolerance for
 * matrix operations", IEEE ToC 1984, over Z/2^64 with odd, hence invertible, keys.) */
#ifndef GODWIT_CORE_STATE_EXACT_H
#define GODWIT_CORE_STATE_EXACT_H

#include "core/base/anywhere.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_EXACT_HEADER = 8, /* words */
    GW_EXACT_COUNT = 0,
    GW_EXACT_COVERAGE = 1,
    GW_EXACT_FINGERPRINT = 2,
    GW_EXACT_BAD = 3,
    GW_EXACT_SPREAD = 29, /* bits */
};

/* Multiplier of the Weyl sequence that keys come from: the odd integer nearest to 2^32 / golden ratio. */
#define GW_EXACT_WEYL 0x9E3779B9u

/* The odd 32-bit key of element i of a bucket. 32 bits, so that two 32x32->64 multiplies make the product on
 * every vector unit; the shift-xor breaks the sequence's linearity, so that errors that cancel in first and
 * second differences do not cancel here. Keys repeat after 2^32 elements. */
GW_ANYWHERE static inline uint32_t gw_exact_key(uint64_t i) {
    uint32_t w = (uint32_t)i * GW_EXACT_WEYL;
    return (w ^ (w >> 15)) | 1u;
}

/* How values of one tensor are rounded in a step of `shards` shards. */
typedef struct gw_exact_format {
    double scale;       /* 2^frac_bits */
    float limit;        /* |x| < limit, or x is bad */
    int64_t most;       /* |q| < most, the same bound on integers: most * shards <= 2^63 */
    uint32_t frac_bits; /* as declared */
} gw_exact_format;

/* `shards` from 1 to GW_MAX_SHARDS, `frac_bits` at most 52. */
gw_exact_format gw_exact_format_of(uint32_t frac_bits, uint32_t shards);

/* Rounds one value. Returns false, and *q = 0, when it is bad. Needs the default rounding mode. */
bool gw_exact_round(const gw_exact_format *format, float x, int64_t *q);
/* The same for a whole number, which is shifted left by frac_bits. */
bool gw_exact_round_integer(const gw_exact_format *format, int64_t x, int64_t *q);

/* What adding some elements found: fingerprint mod 2^64, and how many were bad. */
typedef struct gw_exact_part {
    uint64_t fingerprint, bad;
} gw_exact_part;

/* Adds values[0..count) to sum[0..count), elements `first`.. of their bucket. Scalar reference. */
void gw_exact_add(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                  int64_t *sum, gw_exact_part *part);
void gw_exact_add_integers(const gw_exact_format *format, uint64_t first, uint64_t count,
                           const int64_t *values, int64_t *sum, gw_exact_part *part);

/* For sums in float (--reduce fast): values[i] = sum[i] * 2^-frac_bits, to nearest. The way back is
 * gw_exact_add onto zeros with the format of one shard. */
void gw_exact_to_float(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values);

/* sum of q_i * key_i mod 2^64 over elements first..first+count of a bucket. Scalar reference. */
uint64_t gw_exact_fingerprint(uint64_t first, uint64_t count, const int64_t *data);

/* The part that a piece of summed tensor `tensor` has in the fingerprint of a shard's contribution, which is
 * the sum of its pieces' parts mod 2^64: the tensor is in it, and so are bad elements. */
static inline uint64_t gw_exact_contribution(uint32_t tensor, const gw_exact_part *part) {
    uint64_t key = (uint64_t)gw_exact_key(tensor) << 32 | 1; /* odd: tells tensors apart */
    return (part->fingerprint + part->bad) * key;
}

/* A state's word as it is multiplied. Keys are odd, so changes of the upper bits of two words would cancel
 * mod 2^64 (of their topmost always); a sum's fingerprint, which must be linear, has to bear that, but here
 * each of the upper ones changes one further down as well. Not 32 further down, nor 16: several signs of one
 * word must not cancel. */
GW_ANYWHERE static inline uint64_t gw_exact_spread(uint64_t word) {
    return word ^ word >> GW_EXACT_SPREAD;
}

/* The same over the bytes of a state tensor, as little-endian 8-byte words (the last one padded with zeros),
 * each spread: `first_word` is the index of bytes[0]'s word (core/state/layout.h). Parts over a partition at
 * multiples of 8 bytes of a tensor add up to the fingerprint of the whole, in any order. */
uint64_t gw_exact_state_fingerprint(uint64_t first_word, uint64_t count_bytes, const void *bytes);

/* Coverage hash of one shard; `job_key` is 64 bits of the job's id. */
uint64_t gw_exact_coverage(uint64_t job_key, uint64_t step, uint32_t shard);
/* What word 1 of every header must be when shards 0..shards-1 are each in the sum once. O(shards). */
uint64_t gw_exact_coverage_of_all(uint64_t job_key, uint64_t step, uint32_t shards);

/* What checking a sum found. A sum with wrong coverage or fingerprint must never be applied. */
typedef struct gw_verdict {
    bool coverage_ok, fingerprint_ok;
    uint32_t bucket; /* the first bucket that failed either; meaningless when both are right */
    bool own_wrong;  /* and this peer's own part of the sum has changed in memory since it was added up */
    uint64_t bad;    /* bad elements over all buckets; 0 = the sum may be applied */
} gw_verdict;

gw_verdict gw_verdict_start(void); /* nothing checked, nothing wrong */

/* Checks one summed bucket, header and fingerprint `found` of its data, and adds the finding to *verdict.
 * `shards` and `coverage` are what is expected. */
void gw_exact_check(uint32_t bucket, const int64_t *header, uint64_t found, uint32_t shards,
                    uint64_t coverage, gw_verdict *verdict);

/* A bad element: which shard's contribution, which tensor, which element of it. */
typedef struct gw_exact_bad {
    uint32_t shard, tensor;
    uint64_t index;
    bool any; /* false: none was seen, and the rest is 0 */
} gw_exact_bad;

/* Total order: by shard, tensor, index; "none" comes after every element. The least over all peers is the
 * same whoever computed what. Returns <0, 0, >0. */
int gw_exact_bad_compare(const gw_exact_bad *a, const gw_exact_bad *b);

#endif
