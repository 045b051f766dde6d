/* Where everything of a job lies: its sums in the accumulator, its state in the state image, and the units of
 * work that initialise, hash and apply it. The layout is a pure function of the plan, so all peers have the
 * same.
 *
 * Accumulator: an array of int64 words, bucket after bucket in rising bucket number. A bucket is a header
 * (core/state/exact.h) and its summed tensors in declared order, each padded with zeros to 8 words, so that
 * every tensor of a 64-byte aligned accumulator is aligned. The last bucket is not the job's: it is the
 * *boundary bucket*: its data are the integers by which peers decide at a step boundary, between two steps,
 * and which travel in the sum.
 *
 * State image: the bytes of the state tensors in declared order, without padding. Checkpoints and joins
 * address state by byte offsets of it. */
#ifndef GODWIT_CORE_STATE_LAYOUT_H
#define GODWIT_CORE_STATE_LAYOUT_H

#include "core/godwit.h"

enum {
    GW_UNIT_ELEMENTS = 1 << 16,  /* elements of a group in one unit; a multiple of 8 */
    GW_LAYOUT_ALIGN = 8,         /* words that a summed tensor is padded to */
    GW_MAX_BOUNDARY = 1 << 16,   /* boundary words */
    GW_BATCH_ELEMENTS = 1 << 12, /* elements of all groups in one batch of several units */
};
#define GW_NO_TENSOR UINT32_MAX

typedef struct gw_layout_tensor {
    uint64_t elements;
    uint64_t bytes;        /* GW_STATE: size in the image */
    uint64_t image_offset; /* first byte in the image; of sums, where the next state tensor begins */
    uint64_t first_word;   /* GW_STATE: index of its first 8-byte word in the state fingerprint */
    uint32_t next;         /* GW_STATE: the next state tensor of the same group, or GW_NO_TENSOR */
    bool heads_group;      /* GW_STATE: it is the first state tensor of its group */
    uint32_t bucket;       /* sums: position in gw_layout.buckets */
    uint64_t first;        /* sums: first element within the bucket's data */
} gw_layout_tensor;

typedef struct gw_layout_bucket {
    uint64_t header; /* first word of its header in the accumulator */
    uint64_t data;   /* first word of its data: header + GW_EXACT_HEADER */
    uint64_t count;  /* words of data, padding included; may be 0 */
} gw_layout_bucket;

/* A piece of a group, and of the work that initialises, hashes and applies the state. */
typedef struct gw_layout_unit {
    gw_range range;
    uint32_t tensor; /* the first state tensor of its group; the others follow by gw_layout_tensor.next */
} gw_layout_unit;

typedef struct gw_layout {
    const gw_tensor *tensors; /* the plan's */
    uint32_t tensor_count;
    gw_layout_tensor *of; /* by tensor number */
    gw_layout_bucket *buckets;
    uint32_t bucket_count;   /* the boundary bucket, always the last, counted */
    uint32_t boundary_words; /* the count that was asked for */
    uint64_t words;          /* of the accumulator */
    uint64_t image_bytes;    /* of the state image */
    gw_layout_unit *units;   /* disjoint ranges that cover every group with a state tensor */
    uint64_t unit_count;
    /* Consecutive units that are worth being done at once, since each of them is small: batch i consists of
     * the units from batches[i] on, below batches[i + 1]. */
    uint64_t *batches; /* [batch_count + 1] */
    uint64_t batch_count;
} gw_layout;

/* Checks a plan (names, ranks, sizes, groups of one shape, frac_bits) and lays it out. `boundary_words` <=
 * GW_MAX_BOUNDARY. `plan->tensors` must outlive the layout. Fails with GW_E_INVALID naming the tensor,
 * GW_E_LIMIT where there are too many or they are too large, or GW_E_NOMEM; *layout then needs no
 * gw_layout_free. Takes time in proportion to n log n for n tensors. Any thread. */
bool gw_layout_make(const gw_plan *plan, uint32_t boundary_words, gw_layout *layout, gw_err *err);
void gw_layout_free(gw_layout *layout);

/* Checks a tensor's name as gw_tensor says, but for being unique. Fails with GW_E_INVALID, or with GW_E_LIMIT
 * for a name that is too long; the message calls it tensor `number`. */
bool gw_layout_check_name(const char *name, uint32_t number, gw_err *err);

/* Bytes [offset, offset + bytes) of the image, cut at the next tensor's start: returns the tensor that holds
 * `offset` (< image_bytes), the byte within it, and how many of `bytes` lie in it. */
uint32_t gw_layout_find(const gw_layout *layout, uint64_t offset, uint64_t bytes, uint64_t *within,
                        uint64_t *length);

#endif
