/* The accumulator of a device in host memory: the exact sum of the shards that its peer has computed.
 *
 * Workers deposit pieces of shards in it, several at once. The data are cut into stripes with a lock each; a
 * stripe has a generation, and one of an older generation than the ledger's (kernels/device/ledger.h) counts
 * as zero and is cleared by whoever touches it next. */
#ifndef GODWIT_KERNELS_DEVICE_ACCUMULATOR_H
#define GODWIT_KERNELS_DEVICE_ACCUMULATOR_H

#include "kernels/device/device.h"
#include "kernels/device/ledger.h"
#include "kernels/exact/exact.h"

typedef struct gw_accumulator gw_accumulator;

/* A shard on its way into the accumulator. The caller's; used by one thread. */
typedef struct gw_deposit {
    gw_accumulator *accumulator;
    gw_entry entry;
} gw_deposit;

/* `layout` and `shared` outlive the accumulator. `shared`: another accumulator's ledger, which speaks for
 * both; NULL: this one has its own. Memory: gw_accumulator_bytes. Starts at step 0 with one shard, so begin
 * first.
 */
bool gw_accumulator_open(const gw_layout *layout, const gw_exact_path *path, gw_ledger *shared,
                         gw_accumulator **accumulator, gw_err *err);
void gw_accumulator_close(gw_accumulator *accumulator); /* no deposit is open; NULL is allowed */
uint64_t gw_accumulator_bytes(const gw_accumulator *accumulator);
/* Which shards it holds; to be asked and told directly but for entering and leaving. */
gw_ledger *gw_accumulator_ledger(const gw_accumulator *accumulator);

/* Opens a deposit; as gw_ledger_enter. */
bool gw_accumulator_enter(gw_accumulator *accumulator, uint64_t step, uint32_t shard, gw_deposit *deposit,
                          gw_err *err);
/* Adds elements of summed tensor `tensor`. Drops them when the accumulator was emptied since enter. */
void gw_accumulator_add(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values);
void gw_accumulator_add_integers(gw_deposit *deposit, uint32_t tensor, uint64_t first, uint64_t count,
                                 const int64_t *values);
/* Ends a deposit; as gw_ledger_leave. */
gw_contributed gw_accumulator_leave(gw_deposit *deposit, bool whole, gw_err *err);

/* Clears what is stale, fills the headers, and returns the layout->words words of the sum. They stay as they
 * are until the next begin, zero, enter or set_boundary. No deposit may be open that is not to be dropped,
 * and nothing poisoned. */
int64_t *gw_accumulator_settle(gw_accumulator *accumulator);

#endif
