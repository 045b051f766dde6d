/* The ledger of an accumulator: which shards of which step it holds, and what peers must know about them. The
 * sums themselves lie elsewhere, in host memory (kernels/device/accumulator.h) or in a GPU's.
 *
 * Emptying is one store: the *generation* rises. Pieces of shards in flight carry the older generation, are
 * recognised by it and dropped. A shard is marked held (bitmap and coverage) under the same check, after its
 * last piece. Several accumulators may share a ledger; emptying then empties all of them at once, and a shard
 * is in one of them only. Functions may be called on any thread unless stated otherwise. */
#ifndef GODWIT_KERNELS_DEVICE_LEDGER_H
#define GODWIT_KERNELS_DEVICE_LEDGER_H

#include "kernels/device/device.h"

/* A shard on its way into the accumulator. The caller owns it; one thread uses it. */
typedef struct gw_entry {
    uint64_t step, generation;
    uint32_t shard, shards; /* `shards`: number of shards of the step */
    bool emitted;           /* at least one piece was added */
    bool invalid;           /* a piece was outside its tensor; `err` names it */
    uint64_t fingerprint;   /* fingerprint of what was added so far (gw_exact_contribution) */
    gw_err err;
} gw_entry;

/* Opens a ledger at step 0 with one shard, generation 1 and job key 0. `layout` outlives it. Returns NULL
 * where memory is short. */
gw_ledger *gw_ledger_open(const gw_layout *layout, gw_err *err);
void gw_ledger_close(gw_ledger *ledger); /* no shard may be running; NULL is allowed */

/* Sets the key of the coverage hash, 64 bits of the job id. Called on one thread before the first shard. */
void gw_ledger_set_key(gw_ledger *ledger, uint64_t job_key);
uint64_t gw_ledger_key(const gw_ledger *ledger);

/* Both empty the accumulator, one call at a time. gw_ledger_begin moves it to `step` with `shards` shards (0:
 * no peer computes the step, since the job has ended); gw_ledger_zero stays in the step. */
void gw_ledger_begin(gw_ledger *ledger, uint64_t step, uint32_t shards);
void gw_ledger_zero(gw_ledger *ledger);

/* Begins a shard that is neither held nor in flight. Fails with GW_E_FENCED where `step` is not the ledger's,
 * and with GW_E_INVALID where the step has no such shard, or the shard is held or in flight. */
bool gw_ledger_enter(gw_ledger *ledger, uint64_t step, uint32_t shard, gw_entry *entry, gw_err *err);
/* Whether a piece lies within a summed tensor. If not, the entry becomes invalid. */
bool gw_ledger_check(const gw_ledger *ledger, gw_entry *entry, uint32_t tensor, uint64_t first,
                     uint64_t count);
/* Whether the accumulator has not been emptied since enter. */
bool gw_ledger_fresh(const gw_ledger *ledger, const gw_entry *entry);
/* Records a bad element of the shard, if it is the least so far and the entry is fresh. */
void gw_ledger_note_bad(gw_ledger *ledger, const gw_entry *entry, uint32_t tensor, uint64_t index);
/* Ends a shard. `whole`: it was computed to its end. Where a piece was invalid, the result is GW_SHARD_FAILED
 * and *err is filled; otherwise *err is left alone. */
gw_contributed gw_ledger_leave(gw_ledger *ledger, const gw_entry *entry, bool whole, gw_err *err);

/* Do what the ops held, bad and set_boundary of gw_device_ops do. */
void gw_ledger_held(gw_ledger *ledger, gw_held *held, uint64_t *bits);
void gw_ledger_bad(gw_ledger *ledger, gw_exact_bad *bad);
void gw_ledger_set_boundary(gw_ledger *ledger, const int64_t *words);
uint64_t gw_ledger_generation(const gw_ledger *ledger);

/* The ledger's part of a sum. Where several accumulators share a ledger and their sums are added, one of them
 * states the ledger's values (`states`), and the others add zeros. gw_ledger_boundary copies the boundary
 * words. */
void gw_ledger_boundary(gw_ledger *ledger, bool states, int64_t *words);
/* Fills a bucket's header from the ledger, and from `part`, the fingerprint and bad count of the bucket's
 * data. No shard may be in flight, and the accumulator must not be poisoned. */
void gw_ledger_header(gw_ledger *ledger, bool states, const gw_exact_part *part,
                      int64_t header[GW_EXACT_HEADER]);

#endif
