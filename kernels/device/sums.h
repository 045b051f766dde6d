/* The finished sum of a device in host memory: a collective receives into it, and it is checked here. One sum
 * is enough, since a member that lags a step fetches the state from another peer. Used from one thread at a
 * time. */
#ifndef GODWIT_KERNELS_DEVICE_SUMS_H
#define GODWIT_KERNELS_DEVICE_SUMS_H

#include "kernels/device/accumulator.h"

typedef struct gw_sum_store gw_sum_store;

/* Opens a store. `layout` and `accumulator` outlive it. */
bool gw_sum_store_open(const gw_layout *layout, const gw_exact_path *path, gw_accumulator *accumulator,
                       gw_sum_store **store, gw_err *err);
void gw_sum_store_close(gw_sum_store *store); /* NULL is allowed */
/* Bytes allocated so far; 0 before the first reduction with other peers. */
uint64_t gw_sum_store_bytes(const gw_sum_store *store);
/* Bytes that a store of this layout has allocated after its first reduction of `mode`. */
uint64_t gw_sum_store_need(const gw_layout *layout, gw_reduce mode);

/* Does what gw_device_ops.reduce_begin does, for the accumulator's step. */
bool gw_sum_store_begin(gw_sum_store *store, gw_reduce mode, gw_segments *send, gw_segments *receive,
                        gw_err *err);
/* Does what gw_device_ops.reduce_end does. Fails with GW_E_INVALID where no reduction was begun. */
bool gw_sum_store_end(gw_sum_store *store, gw_verdict *verdict, gw_err *err);
/* Must be called before the accumulator is emptied. Forgets a sum that lies in the accumulator (ALONE), and a
 * reduction that was begun. */
void gw_sum_store_release(gw_sum_store *store);

/* The layout->words words of the finished sum of `step`; NULL where there is none. */
const int64_t *gw_sum_store_words(const gw_sum_store *store, uint64_t step);

/* What sums in host memory and in a GPU's have in common. */

static inline bool gw_is_summed(const gw_layout *layout, uint32_t tensor) {
    return layout->tensors[tensor].role != GW_STATE;
}

/* The number of the word that holds a summed tensor's first element. */
static inline uint64_t gw_sum_word(const gw_layout *layout, uint32_t tensor) {
    return layout->buckets[layout->of[tensor].bucket].data + layout->of[tensor].first;
}

/* Fills `list`, which has room for two segments a bucket, with the segments of a sum whose layout->words
 * words are `words`. gw_list_exact: one for each bucket, header and data. gw_list_fast: for each of the job's
 * buckets the header, and the data in `floats`, which is indexed like `words`; the boundary bucket stays
 * integers. Any thread. */
gw_segments gw_list_exact(const gw_layout *layout, int64_t *words, gw_segment *list);
gw_segments gw_list_fast(const gw_layout *layout, int64_t *words, float *floats, gw_segment *list);
/* Whether segments in host memory still hold what was added: each is a whole bucket with its header
 * (core/state/exact.h), and its data must have the fingerprint that the header states. Any thread. */
bool gw_segments_fit(gw_segments segments);
/* Fills *err with the failure of reduce_begin where they do not (GW_E_CORRUPT). Returns false. */
bool gw_fail_own_sum(gw_err *err);

#endif
