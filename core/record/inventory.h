/* The checkpoints that a peer's disk has, as the brain knows them: those that were there when the process
 * began, and what has been written, deleted and found damaged since. Whoever loses its state votes with what
 * its disk has now. Pure. */
#ifndef GODWIT_CORE_RECORD_INVENTORY_H
#define GODWIT_CORE_RECORD_INVENTORY_H

#include "core/base/id.h"
#include "core/base/set.h"

#include <stdbool.h>
#include <stdint.h>

/* A checkpoint that this peer's disk knows: its manifest, and which chunks of it are here and sound. */
typedef struct gw_inventory {
    uint64_t epoch; /* of the view that saved it; 0 where sums are exact, as a step has one state then */
    uint64_t step;  /* number of steps done in that state */
    gw_hash root;
    uint64_t fingerprint;
    bool ended;   /* the job's last state, by its own decision */
    bool ignored; /* a brain's: it was there when its peer began anew, for which no state leads on to it */
    gw_set chunks;
} gw_inventory;

/* Whether it comes after the state of this step in a view of this epoch. A later view has gone on from what
 * was saved in an earlier one, or, where that was not to be had, has made the same steps again: with float
 * sums as another state, whatever steps the earlier one had come to. */
bool gw_inventory_is_after(const gw_inventory *one, uint64_t epoch, uint64_t step);
/* Of two checkpoints. Of two of one step and view, which there should not be, the one with the smaller root
 * counts as the newer: for all alike, and as for who reads them from a disk (checkpoint/catalog.h). */
bool gw_inventory_is_newer(const gw_inventory *one, const gw_inventory *other);

typedef struct gw_peer_inventory {
    gw_inventory *list; /* newest (gw_inventory_is_newer) first; owned, with their sets */
    uint32_t count;
    bool orphans; /* there may be chunks, too, of checkpoints that others know and this peer does not */
    bool fresh;   /* this run begins anew: nobody waits for what is here, or ends by it, or goes on from what
                    was here when it began, though others may use it */
} gw_peer_inventory;

/* Copies `list`, in any order. */
void gw_peer_inventory_open(gw_peer_inventory *inventory, const gw_inventory *list, uint32_t count,
                            bool fresh);
void gw_peer_inventory_close(gw_peer_inventory *inventory);

/* The manifest of a checkpoint is on the disk, and so are these chunks of it; more of them may have been.
 * `what` is copied; of its set the size alone counts. */
void gw_peer_inventory_wrote(gw_peer_inventory *inventory, const gw_inventory *what, const uint32_t *chunks,
                             uint32_t count);
/* All others have been deleted, and so have chunks that no manifest here names. */
void gw_peer_inventory_kept(gw_peer_inventory *inventory, const gw_hash *roots, uint32_t count);
/* That entry is known no more; its chunks may be here still. */
void gw_peer_inventory_forget(gw_peer_inventory *inventory, uint32_t index);
/* It was loaded, so that its manifest is here, and these chunks of it are, of which some were fetched, or of
 * no use without the manifest. `held` NULL: what is known stays. */
void gw_peer_inventory_loaded(gw_peer_inventory *inventory, const gw_inventory *what, const gw_set *held);
/* A load of this checkpoint failed. `sound`: its chunks that are of use here, orphans among them, as its
 * manifest has shown, which is here now. None, where nobody had it: no orphan has a chance any more. NULL: the
 * failure says nothing of this disk, and what is known stays. */
void gw_peer_inventory_failed(gw_peer_inventory *inventory, const gw_inventory *what, const gw_set *sound);

/* The checkpoint of this root, or NULL. Valid until the next change. */
const gw_inventory *gw_peer_inventory_find(const gw_peer_inventory *inventory, const gw_hash *root);
/* Whether the manifest of this checkpoint is here. */
bool gw_peer_inventory_has(const gw_peer_inventory *inventory, uint64_t step, const gw_hash *root);
/* The newest that this run may begin from, or NULL. Valid until the next change. */
const gw_inventory *gw_peer_inventory_newest(const gw_peer_inventory *inventory);
/* Roots of the newest ones of at least `least` and fewer than `below` steps, at most `most`; returns how
 * many.
 */
uint32_t gw_peer_inventory_range(const gw_peer_inventory *inventory, uint64_t least, uint64_t below,
                                 gw_hash *roots, uint32_t most);
/* Roots of those after the state of this step in a view of this epoch, and how many there are. */
uint32_t gw_peer_inventory_after(const gw_peer_inventory *inventory, uint64_t epoch, uint64_t step,
                                 gw_hash *roots);
/* What a vote tells: the newest of later views than that of this epoch, and of the others those of at least
 * `least` steps; at most `most`, with sets of their own; returns how many. */
uint32_t gw_peer_inventory_tell(const gw_peer_inventory *inventory, uint64_t epoch, uint64_t least,
                                gw_inventory *told, uint32_t most);

#endif
