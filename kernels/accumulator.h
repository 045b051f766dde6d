/* The accumulator of a device in host memory: the exact sum of the shards that its peer has computed.
 *
 * Workers deposit pieces of shards in it, several at once. The data are cut into stripes with a lock each; a
 * stripe has a generation, and one of an older generation than the accumulator's counts as zero and is
 * cleared by whoever touches it next. So emptying the accumulator is one store, and what shards in flight
 * still bring is recognised by its generation and dropped. A shard is marked held (bitmap and coverage) under
 * the same generation check, after its last piece. */
#ifndef GODWIT_KERNELS_ACCUMULATOR_H
#define GODWIT_KERNELS_ACCUMULATOR_H

#include "kernels/device.h"
#include "kernels/exact_add.h"

typedef struct gw_accumulator gw_accumulator;

/* A shard on its way into the accumulator. The caller's; used by one thread. */
typedef struct gw_deposit {
    gw_accumulator *accumulator;
    uint64_t step, generation;
    uint32_t shard, shards;
    bool emitted; /* something of it was added */
    bool invalid; /* a piece was outside its tensor: err says which */
    gw_err err;
} gw_deposit;

/* `layout` outlives the accumulator. Memory: gw_accumulator_bytes. Starts at step 0 with one shard, so
 * begin first. */
bool gw_accumulator_open(const gw_layout *layout, const gw_exact_path *path, uint64_t job_key,
                         gw_accumulator **accumulator, gw_err *err);
void gw_accumulator_close(gw_accumulator *accumulator); /* no deposit is open; NULL is allowed */
uint64_t gw_accumulator_bytes(const gw_accumulator *accumulator);

/* Empty, for `step` with `shards` shards; or empty and in the same step. Any thread, one at a time. */
void gw_accumulator_begin(gw_accumulator *accumulator, uint64_t step, uint32_t shards);
void gw_accumulator_zero(gw_accumulator *accumulator);

/* Opens a deposit for a shard that is neither held nor in flight. Fails with GW_E_FENCED when `step` is not
 * the accumulator's, GW_E_INVALID when the shard is not among the step's, held, or in flight. Any thread. */
bool gw_accumulator_enter(gw_accumulator *accumulator, uint64_t step, uint32_t shard, gw_deposit *deposit,
                          gw_err *err);
/* Adds elements of summed tensor `tensor`. Drops them when the accumulator was emptied since enter. */
void gw_accumulator_add(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values);
void gw_accumulator_add_integers(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                                 const int64_t *values);
/* Ends a deposit: `whole` says that the shard was computed to its end. Fills *err with FAILED if a piece was
 * invalid; else *err is the caller's business. */
gw_contributed gw_accumulator_leave(gw_deposit *deposit, bool whole, gw_err *err);

/* Any thread: as gw_device_ops.held and .bad. */
void gw_accumulator_held(gw_accumulator *accumulator, gw_held *held, uint64_t *bits);
void gw_accumulator_bad(gw_accumulator *accumulator, gw_exact_bad *bad);
void gw_accumulator_set_boundary(gw_accumulator *accumulator, const int64_t *words);

/* Clears what is stale, fills the headers, and returns the layout->words words of the sum. They stay as they
 * are until the next begin, zero, enter or set_boundary. No deposit may be open that is not to be dropped,
 * and nothing poisoned. */
int64_t *gw_accumulator_settle(gw_accumulator *accumulator);

#endif
