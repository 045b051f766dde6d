/* From a manifest back to a state: every chunk is read from this peer's store or fetched from others,
 * verified against its name, and written to the state image. A chunk that is damaged here is set aside,
 * fetched, and stored anew. */
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
    gw_store *store; /* NULL: everything is fetched (a joiner without a disk) */
    uint64_t tag;    /* chunks used or stored are pinned under it; release it afterwards */

    /* Brings chunk `index`, named `name`, from a peer to `bytes`; it may block, and is called on up to
     * `threads` threads at once. *asked: how many of those who may have it were asked; moved past whoever has
     * sent it, as wrong bytes lead to another call, for the next of them. False: nobody is left. NULL: this
     * peer has only itself. */
    bool (*fetch)(void *context, uint32_t index, uint32_t *asked, const gw_hash *name, void *bytes,
                  uint32_t length, gw_err *err);
    /* Whether a fetched chunk is to be stored here as well (this peer is one of its holders). A damaged one
     * is always replaced. NULL: no. */
    bool (*keep)(void *context, uint32_t index);
    /* Writes verified bytes to the state image at `offset`. On up to `threads` threads at once, for disjoint
     * parts. */
    bool (*write)(void *context, uint64_t offset, const void *bytes, uint32_t length, gw_err *err);
    void *context;
    gw_set *here; /* of the manifest's chunks; those that are in the store, as they should be, are added.
                     NULL: is not asked for */

    uint32_t threads; /* 1 to GW_RESTORE_THREADS; chunks are handled in parallel by as many threads */
} gw_restore;

typedef struct gw_restore_stats {
    uint32_t local, fetched, damaged, stored; /* chunks: read here; from peers; found damaged; written here */
    uint32_t unstored; /* fetched chunks that were to be stored and could not: a full disk fails no restore */
    gw_err unstored_err; /* why, of the first; code GW_OK when none */
} gw_restore_stats;

/* Blocks until the state is whole or a chunk cannot be had; call it on a thread of its own where the caller
 * must stay responsive. To stop it early let `fetch` or `write` fail with GW_E_ABORTED. The error names the
 * chunk. After a failure the state image is partly written. */
bool gw_restore_run(const gw_restore *restore, gw_restore_stats *stats, gw_err *err);

#endif
