/* A receipt of a step: fingerprints of what was summed and of the state that came of it, 32 bytes. Peers of a job
 * with exact sums have the same receipts, whoever computed what; `godwit audit` computes steps again and compares.
 *
 * Receipts form a chain: each has a hash over the one before it and over itself, so that two runs whose chains are
 * equal after a step have had equal receipts in every step up to there.
 *
 * Beside the receipt, each peer keeps of every step its own *part*: which shards it added, and two sums over their
 * fingerprints (core/state/exact.h, gw_exact_locator), by which a wrong shard is named. Parts say who
 * computed what, and so differ from run to run. Pure; any thread. */
#ifndef GODWIT_TOOLS_GODWIT_RECEIPT_RECEIPT_H
#define GODWIT_TOOLS_GODWIT_RECEIPT_RECEIPT_H

#include "core/base/id.h"
#include "core/base/wire.h"
#include "core/state/exact.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_RECEIPT_BYTES = 32, GW_RECEIPT_PART_RUNS = 1024 };

typedef struct gw_receipt {
    uint64_t state; /* fingerprint of the state after the step */
    uint64_t sum; /* of the summed data (gw_verdict.sum); 0 with coverage 0: this peer did not see the sum */
    uint64_t coverage; /* the sum's coverage hash: of (job, step) and every shard once */
    uint64_t chain;    /* 0: not known */
} gw_receipt;

/* A run of shards [first, first + count). */
typedef struct gw_receipt_run {
    uint32_t first, count;
} gw_receipt_run;

/* What one peer added in a step. */
typedef struct gw_receipt_part {
    uint64_t step;           /* steps done, including this one */
    uint64_t print, located; /* gw_held */
    uint32_t held;           /* shards that it added */
    /* The shards; 0 runs with held > 0: there were more than GW_RECEIPT_PART_RUNS runs. */
    uint32_t run_count;
    gw_receipt_run runs[GW_RECEIPT_PART_RUNS];
} gw_receipt_part;

/* The chain's value before the first step of a job. */
uint64_t gw_receipt_origin(const gw_hash *job);
/* The chain's value after a step, from the one before; `before` 0: not known, and the result is 0 as well. */
uint64_t gw_receipt_link(uint64_t before, uint64_t step, const gw_receipt *receipt);
/* Whether both peers have seen the sum, and the receipts differ in anything but the chain. */
bool gw_receipt_differs(const gw_receipt *a, const gw_receipt *b);

void gw_receipt_put(gw_writer *w, const gw_receipt *receipt);
void gw_receipt_get(gw_reader *r, gw_receipt *receipt);

/* Sets the runs of a part from the bitmap of held shards (gw_device_ops.held) of a step of `shards` shards. */
void gw_receipt_part_runs(gw_receipt_part *part, const uint64_t *bits, uint32_t shards);
/* Whether the part has this shard; false also where its runs are not known. */
bool gw_receipt_part_has(const gw_receipt_part *part, uint32_t shard);
/* The bytes of a part in its file: at most GW_RECEIPT_PART_MOST. */
enum {
    GW_RECEIPT_PART_LEAST = 8 + 8 + 8 + 4 + 4,
    GW_RECEIPT_PART_MOST = GW_RECEIPT_PART_LEAST + 8 * GW_RECEIPT_PART_RUNS
};
void gw_receipt_part_put(gw_writer *w, const gw_receipt_part *part);
/* Fails the reader where the bytes end early or make no sense: runs that do not rise, or whose shards are not
 * `held` in number. */
void gw_receipt_part_get(gw_reader *r, gw_receipt_part *part);

/* The shard of which a part has another fingerprint than the right one, if it is one shard alone. `list` are the
 * part's shards, and right[i] is the fingerprint that shard list[i] should have. Returns UINT32_MAX where nothing
 * is wrong, or more than one shard. */
uint32_t gw_receipt_find_shard(const gw_receipt_part *part, const uint32_t *list, const uint64_t *right,
                               uint32_t count);

#endif
