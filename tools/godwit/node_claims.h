/* What this peer's workers are computing, where it outlives the process: a small file mapped into memory. The
 * shard that a worker begins is two stores, so that all of them can be noted, and the kernel keeps them
 * however the process ends (but not when the machine does). Without the file, on an odd file system, the run
 * goes on.
 *
 * Threads: begin and end from any, for different workers at once; the rest from one. */
#ifndef GODWIT_GODWIT_NODE_CLAIMS_H
#define GODWIT_GODWIT_NODE_CLAIMS_H

#include "core/err.h"
#include "core/losses.h"

typedef struct gw_claims gw_claims;

/* Opens <dir>/computing for this life of the peer and `workers` workers. What the life before it left there
 * of this job goes to *fell (malloced, the caller frees; NULL: nothing). NULL on failure. */
gw_claims *gw_claims_open(const char *dir, const gw_hash *job, const gw_peer_id *self, uint64_t boot,
                          uint32_t workers, gw_loss **fell, uint32_t *fell_count, gw_err *err);
/* Nothing is lost, whatever still runs: this process ends on purpose. NULL is allowed. */
void gw_claims_clear(gw_claims *claims);
/* Unmaps it; what it says stays. NULL is allowed. */
void gw_claims_close(gw_claims *claims);
void gw_claims_begin(gw_claims *claims, uint32_t worker, uint64_t step, uint32_t shard);
void gw_claims_end(gw_claims *claims, uint32_t worker);

#endif
