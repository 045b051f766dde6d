/* The accumulator of a device in host memory: the exact sum of the shards that its peer has computed.
 *
 * Workers deposit pieces of shards in it, several at once. The data are divided into stripes, each with a
 * lock and a generation. A stripe whose generation is older than the ledger's (kernels/device/ledger.h)
 * counts as zero; the next thread that touches the stripe clears it. */
#ifndef GODWIT_KERNELS_DEVICE_ACCUMULATOR_H
#define GODWIT_KERNELS_DEVICE_ACCUMULATOR_H

#include "kernels/device/device.h"
#include "kernels/device/ledger.h"
#include "kernels/exact/exact.h"

typedef struct gw_accumulator gw_accumulator;

/* A shard on its way into the accumulator. The caller owns it; one thread uses it. */
typedef struct gw_deposit {
    gw_accumulator *accumulator;
    gw_entry entry;
} gw_deposit;

/* Opens an accumulator. `layout` and `shared` outlive it. `shared` is another accumulator's ledger, which
 * then serves both; with NULL this accumulator has its own. It takes gw_accumulator_bytes of memory. It
 * starts at step 0 with one shard, so the first call is gw_ledger_begin. */
bool gw_accumulator_open(const gw_layout *layout, const gw_exact_path *path, gw_ledger *shared,
                         gw_accumulator **accumulator, gw_err *err);
void gw_accumulator_close(gw_accumulator *accumulator); /* no deposit may be open; NULL is allowed */
uint64_t gw_accumulator_bytes(const gw_accumulator *accumulator);
/* The ledger of the shards that the accumulator holds. Callers use it directly, except that
 * gw_accumulator_enter and gw_accumulator_leave replace its enter and leave. */
gw_ledger *gw_accumulator_ledger(const gw_accumulator *accumulator);

/* Opens a deposit. Fails as gw_ledger_enter does. */
bool gw_accumulator_enter(gw_accumulator *accumulator, uint64_t step, uint32_t shard, gw_deposit *deposit,
                          gw_err *err);
/* Adds elements of summed tensor `tensor`. Drops them if the accumulator has been emptied since enter. */
void gw_accumulator_add(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values);
void gw_accumulator_add_integers(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                                 const int64_t *values);
/* Ends a deposit. Returns and fails as gw_ledger_leave does. */
gw_contributed gw_accumulator_leave(gw_deposit *deposit, bool whole, gw_err *err);

/* Clears stale stripes, fills the headers, and returns the layout->words words of the sum. They do not change
 * until the next begin, zero, enter or set_boundary. Deposits that are still open must be of older
 * generations, and the accumulator must not be poisoned. */
int64_t *gw_accumulator_settle(gw_accumulator *accumulator);

#endif
