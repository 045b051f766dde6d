/* The accumulator of a device in host memory: the exact sum of the shards that its peer has computed.
 *
 * Workers add pieces of their shards' contributions to it, several at once. The data are divided into
 * stripes, each with a lock and a generation. A stripe whose generation is older than the ledger's
 * (kernels/device/ledger.h) counts as zero; the next thread that touches the stripe clears it. */
#ifndef GODWIT_KERNELS_DEVICE_ACCUMULATOR_H
#define GODWIT_KERNELS_DEVICE_ACCUMULATOR_H

#include "kernels/device/device.h"
#include "kernels/device/ledger.h"
#include "kernels/exact/exact.h"

typedef struct gw_accumulator gw_accumulator;

/* The contribution of a shard that is being added. The caller owns it; one thread uses it. */
typedef struct gw_contribution {
    gw_accumulator *accumulator;
    gw_entry entry;
} gw_contribution;

/* Opens an accumulator. `layout` and `shared` outlive it. `shared` is another accumulator's ledger, which
 * then serves both; with NULL this accumulator has its own. It takes gw_accumulator_bytes of memory. It
 * starts at step 0 with one shard, so the first call is gw_ledger_begin. */
bool gw_accumulator_open(const gw_layout *layout, const gw_exact_path *path, gw_ledger *shared,
                         gw_accumulator **accumulator, gw_err *err);
/* No contribution may be underway; NULL is allowed. */
void gw_accumulator_close(gw_accumulator *accumulator);
uint64_t gw_accumulator_bytes(const gw_accumulator *accumulator);
/* The ledger of the shards that the accumulator holds. Callers use it directly, except that
 * gw_accumulator_enter and gw_accumulator_leave replace its enter and leave. */
gw_ledger *gw_accumulator_ledger(const gw_accumulator *accumulator);

/* Begins the contribution of a shard. Fails as gw_ledger_enter does. Any thread. */
bool gw_accumulator_enter(gw_accumulator *accumulator, uint64_t step, uint32_t shard,
                          gw_contribution *contribution, gw_err *err);
/* Add elements [first, first + count) of summed tensor `tensor`: floats are rounded to the tensor's
 * format, integers are shifted, doubles are rounded as floats are. The elements are dropped if the
 * accumulator has been emptied since enter. */
void gw_accumulator_add(gw_contribution *contribution, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values);
void gw_accumulator_add_integers(gw_contribution *contribution, uint32_t tensor, uint64_t first,
                                 uint64_t count, const int64_t *values);
void gw_accumulator_add_doubles(gw_contribution *contribution, uint32_t tensor, uint64_t first,
                                uint64_t count, const double *values);
/* Ends a contribution; `whole` tells that the shard was computed to its end. Returns and fails as
 * gw_ledger_leave does. */
gw_contributed gw_accumulator_leave(gw_contribution *contribution, bool whole, gw_err *err);

/* Completes the sum: clears stale stripes, fills the headers, and returns the layout->words words of the sum.
 * They do not change until the next begin, zero, enter or set_boundary. Contributions that are still underway
 * must be of older generations, and the accumulator must not be poisoned. One thread at a time. */
int64_t *gw_accumulator_finish(gw_accumulator *accumulator);

#endif
