/* The inventory: the checkpoints on a peer's disk, as the brain knows them. It begins with those that the
 * process found when it started, and follows what is written, deleted and found damaged. A peer that loses
 * its state votes with what its disk has at that moment. The functions are pure.
 *
 * A chunk on the disk that no manifest there names is an *orphan*. It may belong to a checkpoint whose
 * manifest another peer has. */
#ifndef GODWIT_CORE_RECORD_INVENTORY_H
#define GODWIT_CORE_RECORD_INVENTORY_H

#include "core/base/id.h"
#include "core/base/set.h"

#include <stdbool.h>
#include <stdint.h>

/* A checkpoint whose manifest is on this peer's disk, with the chunks of it that are there and sound. */
typedef struct gw_inventory {
    uint64_t epoch; /* of the view that saved it; 0 with exact sums, where a step has only one state */
    uint64_t step;  /* number of steps done in that state */
    gw_hash root;
    uint64_t fingerprint;
    bool ended;   /* the job itself decided that this state is its last */
    bool ignored; /* used by the brain only: the checkpoint was there when this peer began the job anew */
    gw_set chunks;
} gw_inventory;

/* Whether a checkpoint comes after the state of this step in a view of this epoch. The epoch decides first: a
 * later view has gone on from what an earlier one saved, or, if that could not be had, has made the same
 * steps again. With float sums the result is then another state, and it does not matter how many steps the
 * earlier view had made. */
bool gw_inventory_is_after(const gw_inventory *one, uint64_t epoch, uint64_t step);
/* Whether one checkpoint is newer than another. If they are of one step and view, which should not happen,
 * the smaller root counts as the newer, so that all peers agree; checkpoint/catalog.h has the same rule. */
bool gw_inventory_is_newer(const gw_inventory *one, const gw_inventory *other);

typedef struct gw_peer_inventory {
    gw_inventory *list; /* newest (gw_inventory_is_newer) first; owned, with their sets */
    uint32_t count;
    bool orphans; /* the disk may have orphans */
    bool fresh; /* this run begins the job anew: what was here when it began is not waited for, not taken for
                     the job's end, and not resumed from, though other peers may use it */
} gw_peer_inventory;

/* Initializes an inventory with a copy of `list`, which may be in any order. gw_peer_inventory_close frees
 * it. */
void gw_peer_inventory_open(gw_peer_inventory *inventory, const gw_inventory *list, uint32_t count,
                            bool fresh);
void gw_peer_inventory_close(gw_peer_inventory *inventory);

/* Notes that the manifest of a checkpoint has been written, and these chunks of it, beside those that are
 * known. `what` is copied; of its set of chunks only the size is used. */
void gw_peer_inventory_wrote(gw_peer_inventory *inventory, const gw_inventory *what, const uint32_t *chunks,
                             uint32_t count);
/* Notes that all checkpoints except these have been deleted, and all orphans. */
void gw_peer_inventory_kept(gw_peer_inventory *inventory, const gw_hash *roots, uint32_t count);
/* Removes an entry whose manifest is gone; its chunks may still be there, as orphans. */
void gw_peer_inventory_forget(gw_peer_inventory *inventory, uint32_t index);
/* Notes that a checkpoint was loaded: its manifest is here now, and so are the chunks `held`, some of which
 * were fetched or had been orphans. `held` NULL: the inventory does not change. */
void gw_peer_inventory_loaded(gw_peer_inventory *inventory, const gw_inventory *what, const gw_set *held);
/* Notes that a load of this checkpoint failed. `sound`: the chunks of it that are here and sound, those among
 * the orphans included, as its manifest has shown, which is here now. An empty set of size 0: no peer has the
 * manifest, so nothing can tell what the orphans belong to, and they no longer count. NULL: the failure says
 * nothing about this disk, and the inventory does not change. */
void gw_peer_inventory_failed(gw_peer_inventory *inventory, const gw_inventory *what, const gw_set *sound);

/* The checkpoint with this root, or NULL. Valid until the next change. */
const gw_inventory *gw_peer_inventory_find(const gw_peer_inventory *inventory, const gw_hash *root);
/* Whether the manifest of this checkpoint is here. */
bool gw_peer_inventory_has(const gw_peer_inventory *inventory, uint64_t step, const gw_hash *root);
/* The newest checkpoint that this run may resume from, or NULL. Valid until the next change. */
const gw_inventory *gw_peer_inventory_newest(const gw_peer_inventory *inventory);
/* Writes the roots of the checkpoints of at least `least` and fewer than `below` steps, the newest first and
 * at most `most`. Returns how many. */
uint32_t gw_peer_inventory_range(const gw_peer_inventory *inventory, uint64_t least, uint64_t below,
                                 gw_hash *roots, uint32_t most);
/* Writes the roots of all checkpoints that come after the state of this step in a view of this epoch
 * (gw_inventory_is_after); `roots` has room for all. Returns how many. */
uint32_t gw_peer_inventory_after(const gw_peer_inventory *inventory, uint64_t epoch, uint64_t step,
                                 gw_hash *roots);
/* Copies the checkpoints that a vote reports: those of views later than `epoch`, and of other views those of
 * at least `least` steps; the newest first and at most `most`. The caller frees their sets of chunks. Returns
 * how many. */
uint32_t gw_peer_inventory_tell(const gw_peer_inventory *inventory, uint64_t epoch, uint64_t least,
                                gw_inventory *told, uint32_t most);

#endif
