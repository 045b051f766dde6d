/* What an accumulator holds: which shards of its step, of which generation, and what peers are to be told of
 * it. The sums themselves lie elsewhere, in host memory (kernels/device/accumulator.h) or in a GPU's.
 *
 * Emptying is one store: the *generation* rises, and what shards in flight still bring belongs to an older
 * one, is recognised by it and dropped. A shard is marked held (bitmap and coverage) under the same check,
 * after its last piece. Several accumulators may share a ledger: what is emptied is emptied for all of them
 * at once, and no shard is in two. Any thread unless a function says otherwise. */
#ifndef GODWIT_KERNELS_DEVICE_LEDGER_H
#define GODWIT_KERNELS_DEVICE_LEDGER_H

#include "kernels/device/device.h"

/* A shard on its way into the accumulator. The caller's; used by one thread. */
typedef struct gw_entry {
    uint64_t step, generation;
    uint32_t shard, shards; /* shards: of the step */
    bool emitted;           /* something of it was added */
    bool invalid;           /* a piece was outside its tensor: err says which */
    uint64_t fingerprint;   /* of what was added so far (gw_exact_contribution) */
    gw_err err;
} gw_entry;

/* `layout` outlives the ledger. Starts at step 0 with one shard, generation 1 and job key 0. NULL when out of
 * memory. */
gw_ledger *gw_ledger_open(const gw_layout *layout, gw_err *err);
void gw_ledger_close(gw_ledger *ledger); /* nothing is running; NULL is allowed */

/* 64 bits of the job id: keys the coverage hash. One thread, before the first shard. */
void gw_ledger_set_key(gw_ledger *ledger, uint64_t job_key);
uint64_t gw_ledger_key(const gw_ledger *ledger);

/* Empty, for `step` with `shards` shards (0: nobody computes it, as behind a job's end); or empty and in the
 * same step. One at a time. */
void gw_ledger_begin(gw_ledger *ledger, uint64_t step, uint32_t shards);
void gw_ledger_zero(gw_ledger *ledger);

/* Begins a shard that is neither held nor in flight. Fails with GW_E_FENCED when `step` is not the ledger's,
 * GW_E_INVALID when the shard is not among the step's, held, or in flight. */
bool gw_ledger_enter(gw_ledger *ledger, uint64_t step, uint32_t shard, gw_entry *entry, gw_err *err);
/* Whether a piece lies in a summed tensor; if not, the entry is invalid from now on. */
bool gw_ledger_check(const gw_ledger *ledger, gw_entry *entry, uint32_t tensor, uint64_t first,
                     uint64_t count);
/* Whether the accumulator has not been emptied since enter. */
bool gw_ledger_fresh(const gw_ledger *ledger, const gw_entry *entry);
/* A bad element of the shard: counts if it is the least so far and the entry is fresh. */
void gw_ledger_note_bad(gw_ledger *ledger, const gw_entry *entry, uint32_t tensor, uint64_t index);
/* Ends a shard: `whole` says that it was computed to its end. Fills *err with FAILED if a piece was invalid;
 * else *err is the caller's business. */
gw_contributed gw_ledger_leave(gw_ledger *ledger, const gw_entry *entry, bool whole, gw_err *err);

/* As gw_device_ops.held, .bad and .set_boundary. */
void gw_ledger_held(gw_ledger *ledger, gw_held *held, uint64_t *bits);
void gw_ledger_bad(gw_ledger *ledger, gw_exact_bad *bad);
void gw_ledger_set_boundary(gw_ledger *ledger, const int64_t *words);
uint64_t gw_ledger_generation(const gw_ledger *ledger);

/* What of the ledger is in a sum. Where several accumulators share a ledger, and their sums are added, one of
 * them `speaks` for all; the others add zeros.
 *
 * Copies the boundary words. */
void gw_ledger_boundary(gw_ledger *ledger, bool speaks, int64_t *words);
/* Fills a bucket's header: what is held, and what adding to the bucket has found. Nothing is in flight, and
 * nothing poisoned. */
void gw_ledger_header(gw_ledger *ledger, bool speaks, const gw_exact_part *part,
                      int64_t header[GW_EXACT_HEADER]);

#endif
