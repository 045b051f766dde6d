/* The shards that this peer's workers are computing, kept where they outlive the process: in a small
 * mapped file in memory (tmpfs). Noting a shard takes two stores, so every shard can be noted, and the
 * kernel keeps the stores however the process ends. On a disk such a store would wait when the disk hangs,
 * and kill the process when the disk is full.
 *
 * When the machine itself ends, the journal is lost. As a rule it ends because of its power or its kernel,
 * and not because of a shard. (A shard that takes whole machines down is known to the peers that saw the
 * others die.) Without the file the run goes on.
 *
 * A shard that this life gives up at has a place of its own, which stays however the process ends. The
 * record on disk (core/record) is to take it over; but a process that cannot wait for a hung worker cannot
 * wait for its disk.
 *
 * Threads: begin and end from any thread, for different workers at the same time; the drops and clear from
 * any thread; the rest from one thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_CLAIM_JOURNAL_H
#define GODWIT_TOOLS_GODWIT_WORK_CLAIM_JOURNAL_H

#include "core/base/err.h"
#include "core/os/durable.h"
#include "core/record/deaths.h"

#define GW_CLAIM_JOURNAL_FOLDER "/dev/shm"

typedef struct gw_claim_journal gw_claim_journal;

/* Opens the peer's file in `folder` for this life of the peer and `workers` workers. *fell (malloced, the
 * caller frees; NULL = none) becomes the shards of this job that earlier lives were computing when they
 * crashed; these stay in the file beside the shards of this life. A life has crashed if it said so
 * (gw_claim_journal_crashed), or if it did not end on purpose and the kernel has killed a process for lack
 * of memory since it began: `memory_kills`, as gw_memory_kills counts them (kernels/host/memory_limit.h),
 * is greater than it was then. A life that was killed otherwise, by a supervisor or a scheduler that takes
 * the machine back, says nothing about its shards. NULL if the folder is not in memory or is full, or the
 * file belongs to another user; with GW_E_DENIED, which has no other cause, if a process of this identity
 * has the file. */
gw_claim_journal *gw_claim_journal_open(const char *folder, const gw_hash *job, const gw_peer_id *self,
                                        uint64_t boot, uint32_t workers, uint64_t memory_kills,
                                        gw_shard_death **fell, uint32_t *fell_count, gw_err *err);
/* Deletes the files in `folder` of this user's peers that were killed and have nothing to tell their next
 * lives: their processes have ended, as nobody holds the files' locks, without a fault of their own, and the
 * kernel has killed no process for lack of memory since they began. Files that cannot be read, are of another
 * format or of another user stay.
 * */
void gw_claim_journal_sweep(const char *folder, uint64_t memory_kills);
/* The path of the file. It has the peer's id, so that the next life finds it. */
bool gw_claim_journal_path(const char *folder, const gw_peer_id *self, char path[GW_PATH_BYTES], gw_err *err);
/* Drops the shards of earlier lives: they are recorded on disk, or are of no use. NULL is allowed. */
void gw_claim_journal_drop_earlier(gw_claim_journal *claims);
/* Drops the shard that this life gave up at: it is recorded on disk. NULL is allowed. */
void gw_claim_journal_drop_own(gw_claim_journal *claims);
/* This process is about to die of a fault of its own (a memory access, a broken invariant), for which a
 * shard that its workers compute may be to blame. Safe in a signal handler. NULL is allowed. */
void gw_claim_journal_crashed(gw_claim_journal *claims);
/* This process ends on purpose: the shards that still run are not to blame. Deletes the file, or, if it
 * still has shards of earlier lives or one that this life gave up at, has the drops delete it. NULL is
 * allowed. */
void gw_claim_journal_clear(gw_claim_journal *claims);
/* Unmaps the file; unless it was cleared, its shards stay. No other thread may be in a call. NULL is
 * allowed. */
void gw_claim_journal_close(gw_claim_journal *claims);
/* The worker begins a shard, and ends it. */
void gw_claim_journal_begin(gw_claim_journal *claims, uint32_t worker, uint64_t step, uint32_t shard);
void gw_claim_journal_end(gw_claim_journal *claims, uint32_t worker);
/* This life gives up at a shard that does not end: the next life will hear of it. NULL is allowed. */
void gw_claim_journal_give_up(gw_claim_journal *claims, uint64_t step, uint32_t shard);

#endif
