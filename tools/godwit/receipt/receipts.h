/* The receipts of a job in a peer's directory (receipt.h):
 *
 *   DIR/receipts-<job>   64 bytes, then a receipt of 32 bytes for each step from `first` on; zeros: none is known
 *        "GODWITR1" | job id 32 | first u64 | zeros
 *   DIR/parts-<job>      64 bytes, then what this peer added, a record a step; of two records of a step the later
 *        "GODWITP1" | job id 32 | zeros                                                               one counts
 *
 * <job> is the first 8 digits of the job's id. When a file is full (GW_RECEIPTS_STEPS steps, GW_RECEIPTS_PART_BYTES
 * bytes) it becomes <name>.1, in place of the one before it, and a new one begins: all four files take 100 MB at
 * the most, in weeks of steps of a millisecond. Steps that are made again replace their receipts.
 *
 * The disk helper writes; what waits for it is bounded, and a receipt that cannot be written is missing. */
#ifndef GODWIT_TOOLS_GODWIT_RECEIPT_RECEIPTS_H
#define GODWIT_TOOLS_GODWIT_RECEIPT_RECEIPTS_H

#include "core/os/directory.h"
#include "tools/godwit/receipt/receipt.h"
#include "tools/godwit/thread/helper.h"

enum {
    GW_RECEIPTS_STEPS = 1 << 20,       /* of a file */
    GW_RECEIPTS_PART_BYTES = 16 << 20, /* of a file */
    GW_RECEIPTS_RECENT = 1 << 14,      /* receipts that are kept in memory */
    GW_RECEIPTS_WAITING = 1 << 13,     /* receipts, and as many parts, that may wait to be written */
};

typedef struct gw_receipts gw_receipts;

/* Opens the receipts of a job; its first step is the one after `first_step` steps. The last receipts are read.
 * With `fresh` the files of an earlier run of this job are removed. Files that cannot be read are told of and
 * begun anew. `helper` carries out the writes. The directory and the helper must outlive the receipts. NULL when
 * memory runs out. Main thread. */
gw_receipts *gw_receipts_open(gw_directory *directory, const gw_hash *job, uint64_t first_step, bool fresh,
                              gw_helper *helper, gw_err *err);
/* The helper has ended. NULL is allowed. */
void gw_receipts_close(gw_receipts *receipts);

/* The functions below may be called on any thread, and never wait for the disk. */

/* A right sum of the step after which `step` steps are done: what is known of it, and this peer's part. The last
 * call for a step counts. */
void gw_receipts_note_sum(gw_receipts *receipts, uint64_t sum, uint64_t coverage,
                          const gw_receipt_part *part);
/* The step was applied: makes its receipt. */
gw_receipt gw_receipts_apply(gw_receipts *receipts, uint64_t step, uint64_t state);
/* The step is committed: its receipt, and the part, are written. *now becomes the receipt, all zeros where this
 * peer did not apply the step. Returns true where an earlier life, or this one before it went back to a
 * checkpoint, had another receipt for this step, which becomes *before. */
bool gw_receipts_commit(gw_receipts *receipts, uint64_t step, gw_receipt *now, gw_receipt *before);
/* A receipt that another peer has told. */
void gw_receipts_take(gw_receipts *receipts, uint64_t step, const gw_receipt *receipt);
/* The state after `step` steps was loaded; `chain` is the chain's value there, 0 where it is not known from
 * elsewhere than these receipts. */
void gw_receipts_load(gw_receipts *receipts, uint64_t step, uint64_t chain);
/* The chain's value after a step; 0: not known. */
uint64_t gw_receipts_chain(gw_receipts *receipts, uint64_t step);
/* The last step of which a receipt is here; 0: none is. */
uint64_t gw_receipts_last(gw_receipts *receipts);
/* Has the helper write what waits, and flush it to the disk if `sync`. */
void gw_receipts_flush(gw_receipts *receipts, bool sync);

/* Reading, of a directory whose peer may run. Any thread; waits for the disk. */

/* Calls `each` for every receipt with first <= step <= last in the files of `job` in `dir`, in rising order, until
 * one call returns false. Fails with GW_E_NOTFOUND where there are no receipts of this job, GW_E_CORRUPT and
 * GW_E_IO. */
typedef bool gw_receipts_each(void *context, uint64_t step, const gw_receipt *receipt);
bool gw_receipts_read(const char *dir, const gw_hash *job, uint64_t first, uint64_t last,
                      gw_receipts_each *each, void *context, gw_err *err);
/* The same for parts, in the order in which they were written. */
typedef bool gw_receipts_each_part(void *context, const gw_receipt_part *part);
bool gw_receipts_read_parts(const char *dir, const gw_hash *job, gw_receipts_each_part *each, void *context,
                            gw_err *err);

#endif
