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

/* As gw_device_ops.reduce_begin, for the accumulator's step. */
bool gw_sum_store_begin(gw_sum_store *store, gw_reduce mode, gw_segments *send, gw_segments *receive,
                        gw_err *err);
/* As gw_device_ops.reduce_end. Fails with GW_E_INVALID where no reduction was begun. */
bool gw_sum_store_end(gw_sum_store *store, gw_verdict *verdict, gw_err *err);
/* Must be called before the accumulator is emptied. Forgets a sum that lies in the accumulator (ALONE), and a
 * reduction that was begun. */
void gw_sum_store_release(gw_sum_store *store);

/* The layout->words words of the finished sum of `step`; NULL where there is none. */
const int64_t *gw_sum_store_words(const gw_sum_store *store, uint64_t step);

/* Whether segments in host memory still hold what was added up: each is a whole bucket with its header
 * (core/state/exact.h), and its data must have the fingerprint that the header states. Any thread. */
bool gw_segments_fit(gw_segments segments);
/* Fills *err with the failure of reduce_begin where they do not (GW_E_CORRUPT). Returns false. */
bool gw_fail_own_part(gw_err *err);

#endif
