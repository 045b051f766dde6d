/* The action LOAD: a whole state is brought here, from other members or from a checkpoint, and put in the
 * place of the present one. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_LOAD_H
#define GODWIT_TOOLS_GODWIT_WORK_LOAD_H

#include "core/record/view.h"
#include "tools/godwit/thread/helper.h"
#include "tools/godwit/work/fetch.h"

typedef struct gw_loader {
    gw_engine *engine; /* borrowed, as are the other pointers */
    gw_fetcher *fetcher;
    gw_store *store;
    gw_helper *compute;
    gw_mailbox *mail;
    gw_hash job_id;
    gw_peer_id self;
    uint32_t replicas;
    atomic_bool ending; /* this peer ends: loads stop asking others */
} gw_loader;

/* Loop: begins a LOAD, which ends by the event LOADED. */
void gw_loader_begin(gw_loader *loader, const gw_view *view, const gw_action *action);

/* One load, on the compute helper. */
typedef struct gw_load {
    gw_loader *loader;
    gw_token token;
    gw_load_kind kind;
    uint64_t step, fingerprint; /* of other members' state always known, also where it is 0: of zeros; of a
                                   checkpoint at the latest when its manifest is here */
    gw_hash root;
    uint32_t count; /* of donors or holders */
    gw_peer_id *peers;
    gw_set *inventories; /* NULL for donors */
    gw_peer_id *members; /* of the view, for placement */
    uint32_t member_count;
    uint64_t created_ms;       /* of a checkpoint: when it was made (checkpoint/manifest.h) */
    const gw_peer_id *changed; /* of `peers`: the first from which alone the state has come with other bits */
    gw_set sound;              /* of a checkpoint, its chunks that are here now; size 0: as before */
    gw_state_print print;      /* of the image that came last */
} gw_load;

/* Fill `image` (layout->image_bytes). */
bool gw_load_from_peers(gw_load *load, uint8_t *image, gw_err *err);
bool gw_load_from_checkpoint(gw_load *load, uint8_t *image, gw_err *err);

#endif
