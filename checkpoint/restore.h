/* Restores a state from a manifest: every chunk is read from this peer's store or fetched from other
 * peers, verified against its name, and written to the state image. A chunk that is damaged in this store
 * is quarantined, fetched, and stored anew. */
#ifndef GODWIT_CHECKPOINT_RESTORE_H
#define GODWIT_CHECKPOINT_RESTORE_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/base/err.h"
#include "core/base/set.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_RESTORE_THREADS = 16 };

typedef struct gw_restore {
    const gw_manifest *manifest;
    gw_store *store; /* NULL: every chunk is fetched (a joiner without a disk) */
    uint64_t tag;    /* chunks read or stored are pinned under this tag; the caller releases it afterwards */

    /* Fetches chunk `index`, named `name`, from a peer into `bytes`. It may block, and is called on up to
     * `threads` threads at once. *asked is the number of candidate peers asked so far; the function
     * advances it past the peer that sent the bytes. If the bytes are wrong, it is called again for the
     * next candidate. Returns false if no candidate is left. NULL: there are no other peers. */
    bool (*fetch)(void *context, uint32_t index, uint32_t *asked, const gw_hash *name, void *bytes,
                  uint32_t length, gw_err *err);
    /* Whether a fetched chunk is stored in this store as well, because this peer is one of its holders. A
     * damaged chunk is always replaced. NULL: no chunk is. */
    bool (*keep)(void *context, uint32_t index);
    /* Writes verified bytes to the state image at `offset`. Called on up to `threads` threads at once, for
     * disjoint parts. */
    bool (*write)(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *err);
    void *context;
    gw_set *here; /* out: the indices of the manifest's chunks that are sound in the store; may be NULL */

    uint32_t threads; /* 1 to GW_RESTORE_THREADS: the threads that handle chunks in parallel */
} gw_restore;

typedef struct gw_restore_stats {
    uint32_t local, fetched; /* chunks read from this store; chunks fetched from peers */
    uint32_t damaged;        /* chunks found damaged in this store */
    uint32_t stored;         /* fetched chunks that were stored */
    uint32_t unstored;   /* fetched chunks that could not be stored; a full disk does not fail a restore */
    gw_err unstored_err; /* why the first of these could not be stored; code GW_OK if there are none */
} gw_restore_stats;

/* Blocks until the state is complete or a chunk cannot be obtained; a caller that must stay responsive
 * calls it on a thread of its own. It stops early if `fetch` or `write` fails with GW_E_ABORTED. The error
 * names the chunk. After a failure the state image is partly written. */
bool gw_restore_run(const gw_restore *restore, gw_restore_stats *stats, gw_err *err);

#endif
