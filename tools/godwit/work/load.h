/* The action LOAD: a whole state is brought here, from other members or from a checkpoint, or is made anew,
 * and takes the place of the present one.
 *
 * The image of a state is gathered in memory of its own and compared with its fingerprint before anything of
 * the present state changes.
 *
 * Threads: a load runs on the compute helper; gw_loader_begin is the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_LOAD_H
#define GODWIT_TOOLS_GODWIT_WORK_LOAD_H

#include "core/record/view.h"
#include "tools/godwit/thread/helper.h"
#include "tools/godwit/work/fetch.h"

typedef struct gw_loader {
    gw_engine *engine; /* The pointers are borrowed. */
    gw_fetcher *fetcher;
    gw_store *store;
    gw_history *history;
    gw_helper *compute;
    gw_mailbox *mail;
    gw_hash job_id;
    gw_peer_id self;
    uint32_t replicas;
    const char *best_by; /* what --keep-best compares; "": nothing */
    atomic_bool ending;  /* this peer ends: loads fetch nothing more; any thread */
} gw_loader;

/* Loop: begins a LOAD, which ends with the event LOADED. */
void gw_loader_begin(gw_loader *loader, const gw_view *view, const gw_action *action);

/* One load. `peers` are its sources: the *donors*, which hold the state in memory, or the *holders*, which
 * have chunks of the checkpoint on disk. */
typedef struct gw_load {
    gw_loader *loader;
    gw_token token;
    gw_load_kind kind;
    uint64_t step;
    uint64_t fingerprint; /* of the state. Donors' is always known (0 is the fingerprint of zeros); that of a
                             checkpoint may be 0 until its manifest is here */
    gw_hash root;         /* of a checkpoint */
    uint32_t count;       /* of peers */
    gw_peer_id *peers;
    gw_set *inventories; /* by holder: indices of the chunks that it has; NULL for donors */
    gw_peer_id *members; /* of the view, for the placement of chunks */
    uint32_t member_count;
    gw_best best;              /* what the checkpoint's manifest says of the best state */
    uint64_t created_ms;       /* when the checkpoint was made (checkpoint/manifest.h) */
    uint64_t chain;            /* of the receipts up to the checkpoint; 0: not known */
    const gw_peer_id *changed; /* the first donor whose copy, fetched from it alone, had other bits */
    gw_set sound;         /* chunks of the checkpoint that are sound here now; size 0: nothing new is known */
    gw_state_print print; /* fingerprint of the image that arrived last */
} gw_load;

/* Copies the state from all donors at once to `image` (layout->image_bytes). Does not compare the
 * fingerprint. */
bool gw_load_from_peers(gw_load *load, uint8_t *image, gw_err *err);
/* Reads a checkpoint to `image`: each chunk from the own store, else from a holder. Sets created_ms and, also
 * on failure, `sound`. Does not compare the fingerprint. */
bool gw_load_from_checkpoint(gw_load *load, uint8_t *image, gw_err *err);

#endif
