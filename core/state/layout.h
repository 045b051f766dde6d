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
    GW_UNIT_ELEMENTS = 1 << 16, /* elements of a group in one unit; a multiple of 8 */
    GW_LAYOUT_ALIGN = 8,        /* words that a summed tensor is padded to */
    GW_MAX_BOUNDARY = 1 << 16,  /* boundary words */
};

typedef struct gw_layout_tensor {
    uint64_t elements;
    uint64_t bytes;        /* GW_STATE: size in the image */
    uint64_t image_offset; /* GW_STATE: first byte in the image */
    uint64_t first_word;   /* GW_STATE: index of its first 8-byte word in the state fingerprint */
    uint32_t bucket;       /* sums: position in gw_layout.buckets */
    uint64_t first;        /* sums: first element within the bucket's data */
} gw_layout_tensor;

typedef struct gw_layout_bucket {
    uint64_t header; /* first word of its header in the accumulator */
    uint64_t data;   /* first word of its data: header + GW_EXACT_HEADER */
    uint64_t count;  /* words of data, padding included; may be 0 */
} gw_layout_bucket;

typedef struct gw_layout {
    const gw_tensor *tensors; /* the plan's */
    uint32_t tensor_count;
    gw_layout_tensor *of; /* by tensor number */
    gw_layout_bucket *buckets;
    uint32_t bucket_count;   /* the boundary bucket, always the last, counted */
    uint32_t boundary_words; /* the count that was asked for */
    uint64_t words;          /* of the accumulator */
    uint64_t image_bytes;    /* of the state image */
    gw_range *units;         /* disjoint ranges that cover every group with a state tensor */
    uint64_t unit_count;
} gw_layout;

/* Checks a plan (names, ranks, sizes, groups of one shape, frac_bits) and lays it out. `boundary_words` <=
 * GW_MAX_BOUNDARY. `plan->tensors` must outlive the layout. Fails with GW_E_INVALID naming the tensor, or
 * GW_E_NOMEM; *layout then needs no gw_layout_free. Any thread. */
bool gw_layout_make(const gw_plan *plan, uint32_t boundary_words, gw_layout *layout, gw_err *err);
void gw_layout_free(gw_layout *layout);

/* Bytes [offset, offset + bytes) of the image, cut at the next tensor's start: returns the tensor that holds
 * `offset` (< image_bytes), the byte within it, and how many of `bytes` lie in it. */
uint32_t gw_layout_find(const gw_layout *layout, uint64_t offset, uint64_t bytes, uint64_t *within,
                        uint64_t *length);

#endif
