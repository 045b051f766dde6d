/* Copies of the checkpoint of the best evaluated state (--keep-best). It stays while the flock goes on, and
 * peers join that were not there when it was made: each of them fetches its part from the others, so that
 * there are as many replicas as of any checkpoint when the peers die that made it. Fetches are aside of the
 * job, one at a time.
 *
 * Threads: the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_MIRROR_H
#define GODWIT_TOOLS_GODWIT_WORK_MIRROR_H

#include "core/record/lineage.h"
#include "core/record/view.h"
#include "tools/godwit/work/fetch.h"

typedef struct gw_mirror gw_mirror;

typedef struct gw_mirror_options {
    gw_fetcher *fetcher; /* The pointers are borrowed. */
    gw_store *store;
    gw_saver *saver;
    gw_hash job_id;
    gw_peer_id self;
    uint32_t replicas;
} gw_mirror_options;

/* NULL on failure. */
gw_mirror *gw_mirror_open(const gw_mirror_options *options, gw_err *err);
/* Ends what is under way. The network is closed by then. NULL is allowed. */
void gw_mirror_close(gw_mirror *mirror);

/* Names the checkpoint (step 0: there is none) and the members among which its chunks are placed. What of
 * it should be here and is not is fetched in the background, and tried again later where that fails. To be
 * called again and again; without need the call does nothing. */
void gw_mirror_look(gw_mirror *mirror, const gw_view *view, const gw_checkpoint_ref *kept);

#endif
