/* The sum format: how floats become integers whose sum has one value whatever the order, and how a wrong sum
 * is recognised. The functions are pure. This is the definition; kernels/exact/exact.h computes the same at
 * memory speed.
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
#include "core/base/mix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_EXACT_HEADER = 8, /* words */
    GW_EXACT_COUNT = 0,
    GW_EXACT_COVERAGE = 1,
    GW_EXACT_FINGERPRINT = 2,
    GW_EXACT_BAD = 3,
    GW_EXACT_SPREAD = 29, /* bits by which gw_exact_spread shifts */
};

/* Multiplier of the Weyl sequence that keys come from: the odd integer nearest to 2^32 / golden ratio. */
#define GW_EXACT_WEYL 0x9E3779B9u

/* The odd 32-bit key of element i of a bucket. A key has 32 bits, so that two 32x32->64 multiplies make a
 * product on every vector unit. The shift-xor breaks the linearity of the sequence, so that errors which
 * cancel in first and second differences do not cancel here. Keys repeat after 2^32 elements. */
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

/* The format of a tensor with `frac_bits` (at most 52) in a step of `shards` (1 to GW_MAX_SHARDS) shards. */
gw_exact_format gw_exact_format_of(uint32_t frac_bits, uint32_t shards);

/* Rounds one value. If the value is bad, returns false and sets *q to 0. The rounding mode must be the
 * default. */
bool gw_exact_round(const gw_exact_format *format, float x, int64_t *q);
/* The same for a double. The product with 2^f is exact here, too. */
bool gw_exact_round_double(const gw_exact_format *format, double x, int64_t *q);
/* The same for a whole number, which is shifted left by frac_bits. */
bool gw_exact_round_integer(const gw_exact_format *format, int64_t x, int64_t *q);

/* What adding some elements has found: their fingerprint mod 2^64, and how many of them were bad. */
typedef struct gw_exact_part {
    uint64_t fingerprint, bad;
} gw_exact_part;

/* Adds values[0..count), which are the elements from `first` on of their bucket, to sum[0..count), and adds
 * what is found to *part. These are the scalar reference. */
void gw_exact_add(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                  int64_t *sum, gw_exact_part *part);
void gw_exact_add_integers(const gw_exact_format *format, uint64_t first, uint64_t count,
                           const int64_t *values, int64_t *sum, gw_exact_part *part);
void gw_exact_add_doubles(const gw_exact_format *format, uint64_t first, uint64_t count, const double *values,
                          int64_t *sum, gw_exact_part *part);

/* For sums in float (--reduce fast): values[i] = sum[i] * 2^-frac_bits, to nearest. The way back is
 * gw_exact_add onto zeros with the format of one shard. */
void gw_exact_to_float(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values);

/* The fingerprint of elements [first, first + count) of a bucket: the sum of q_i * key_i mod 2^64. This is
 * the scalar reference. */
uint64_t gw_exact_fingerprint(uint64_t first, uint64_t count, const int64_t *data);

/* The part that a piece of summed tensor `tensor` has in the fingerprint of a shard's contribution, which is
 * the sum of its pieces' parts mod 2^64: the tensor is in it, and so are bad elements. */
static inline uint64_t gw_exact_contribution(uint32_t tensor, const gw_exact_part *part) {
    uint64_t key = (uint64_t)gw_exact_key(tensor) << 32 | 1; /* odd: tells tensors apart */
    return (part->fingerprint + part->bad) * key;
}

/* Spreads a word of the state before it is multiplied by its key. Keys are odd, so changes of the upper bits
 * of two words may cancel mod 2^64, and changes of their topmost bits always do. The fingerprint of a sum
 * must be linear and has to bear that. Here each upper bit also changes a bit 29 places further down. The
 * distance is neither 32 nor 16, so that changes of several sign bits within one word do not cancel. */
GW_ANYWHERE static inline uint64_t gw_exact_spread(uint64_t word) {
    return word ^ word >> GW_EXACT_SPREAD;
}

/* The fingerprint of a piece of a state tensor: its bytes are little-endian 8-byte words (the last one padded
 * with zeros), each of which is spread. `first_word` is the index of the word of bytes[0]
 * (core/state/layout.h). If a tensor is cut at multiples of 8 bytes, the fingerprints of the pieces add up to
 * that of the whole, in any order. */
uint64_t gw_exact_state_fingerprint(uint64_t first_word, uint64_t count_bytes, const void *bytes);

/* The coverage hash of one shard; `job_key` is 64 bits of the job's id. */
uint64_t gw_exact_coverage(uint64_t job_key, uint64_t step, uint32_t shard);
/* What word 1 of every header must be when shards 0..shards-1 are each in the sum once. O(shards). */
uint64_t gw_exact_coverage_of_all(uint64_t job_key, uint64_t step, uint32_t shards);

/* What checking a sum found. A sum with wrong coverage or fingerprint must never be applied. */
typedef struct gw_verdict {
    bool coverage_ok, fingerprint_ok;
    uint32_t bucket; /* the first bucket that failed either; meaningless when both are right */
    bool own_wrong;  /* this peer's own part of the sum has changed in memory since it was added up */
    uint64_t bad;    /* bad elements in all buckets; 0 = the sum may be applied */
    /* Where the sum is right, for receipts: its coverage (word 1), and a fingerprint of all buckets but the
     * boundary's, which gw_exact_note makes of the fingerprints of their data. */
    uint64_t coverage, sum;
} gw_verdict;

gw_verdict gw_verdict_start(void); /* nothing checked, nothing wrong */

/* Checks one summed bucket, header and fingerprint `found` of its data, and adds the finding to *verdict.
 * `shards` and `coverage` are what is expected. */
void gw_exact_check(uint32_t bucket, const int64_t *header, uint64_t found, uint32_t shards,
                    uint64_t coverage, gw_verdict *verdict);

/* Adds the fingerprint of a bucket's data to the verdict's fingerprint of the whole sum. */
static inline void gw_exact_note(uint32_t bucket, uint64_t found, gw_verdict *verdict) {
    verdict->sum += found * ((uint64_t)gw_exact_key(bucket) << 32 | 1);
}

/* What shard `shard`, whose contribution has this fingerprint, adds to the second of the two sums over a peer's
 * shards that a receipt has of each step. The first is the sum of the fingerprints. Where one shard's fingerprint
 * is another one than it should be, the first sum tells by how much, and the second for which shard that is so. */
static inline uint64_t gw_exact_locator(uint32_t shard, uint64_t fingerprint) {
    return gw_mix64(fingerprint ^ gw_mix64(shard));
}

/* A bad element: the shard whose contribution has it, the tensor, and the element of the tensor. */
typedef struct gw_exact_bad {
    uint32_t shard, tensor;
    uint64_t index;
    bool any; /* false: none was seen, and the rest is 0 */
} gw_exact_bad;

/* A total order: by shard, tensor, index; "none" comes after every element. The least element over all peers
 * does not depend on which peer computed what. Returns <0, 0 or >0. */
int gw_exact_bad_compare(const gw_exact_bad *a, const gw_exact_bad *b);

#endif
