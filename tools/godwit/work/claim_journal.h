/* What this peer's workers are computing, where it outlives the process: a small file in memory (tmpfs),
 * mapped. The shard that a worker begins is two stores, so that all of them can be noted, and the kernel
 * keeps them however the process ends. On a disk such a store would wait when the disk hangs, and kill the
 * process when it is full.
 *
 * What runs when the machine ends is forgotten with it: it ends of its power or its kernel, as a rule, and
 * not of a shard. (A shard that takes machines down is known to the peers that have seen the others die.)
 * Without the file the run goes on.
 *
 * A shard that this life gives up at is noted apart: how it ends does not matter to that, and a process that
 * cannot wait for a hung worker cannot wait for its disk either, which is to take the record of it.
 *
 * Threads: begin and end from any, for different workers at once; the drops and clear from any; the rest from
 * one at a time. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_CLAIM_JOURNAL_H
#define GODWIT_TOOLS_GODWIT_WORK_CLAIM_JOURNAL_H

#include "core/base/err.h"
#include "core/os/durable.h"
#include "core/record/deaths.h"

#define GW_CLAIM_JOURNAL_FOLDER "/dev/shm"

typedef struct gw_claim_journal gw_claim_journal;

/* Opens the peer's file in `folder` for this life of it and `workers` workers. What the lives before it left
 * there of this job goes to *fell (malloced, the caller frees; NULL: nothing), and stays in the file beside
 * what this life is at. NULL where the folder is not in memory or is full, where the file is another
 * user's, and (GW_E_DENIED, of nothing else) where a process of this identity has it. */
gw_claim_journal *gw_claim_journal_open(const char *folder, const gw_hash *job, const gw_peer_id *self,
                                        uint64_t boot, uint32_t workers, gw_shard_death **fell,
                                        uint32_t *fell_count, gw_err *err);
/* Where it is: by the peer's id, so that its next life finds it. */
bool gw_claim_journal_path(const char *folder, const gw_peer_id *self, char path[GW_PATH_BYTES], gw_err *err);
/* What the lives before left is on disk elsewhere, or of no use. NULL is allowed. */
void gw_claim_journal_drop_earlier(gw_claim_journal *claims);
/* What this life gave up at is on disk elsewhere. NULL is allowed. */
void gw_claim_journal_drop_own(gw_claim_journal *claims);
/* Nothing is lost, whatever still runs: this process ends on purpose. The file goes, unless it still has what
 * lives before left, or this one gave up at; then it goes as that is dropped. NULL is allowed. */
void gw_claim_journal_clear(gw_claim_journal *claims);
/* Unmaps it; unless it was cleared, what it says stays. No other thread may be inside. NULL is allowed. */
void gw_claim_journal_close(gw_claim_journal *claims);
void gw_claim_journal_begin(gw_claim_journal *claims, uint32_t worker, uint64_t step, uint32_t shard);
void gw_claim_journal_end(gw_claim_journal *claims, uint32_t worker);
/* This life is lost at that shard, which will not end: its next one is told so. NULL is allowed. */
void gw_claim_journal_give_up(gw_claim_journal *claims, uint64_t step, uint32_t shard);

#endif
