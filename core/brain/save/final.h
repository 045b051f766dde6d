#ifndef GODWIT_CORE_BRAIN_SAVE_FINAL_H
#define GODWIT_CORE_BRAIN_SAVE_FINAL_H

#include "core/brain/state.h"

/* No peer could even hash some chunk of the final state. It is tried again, a few times. */
void gw_final_retry_hashing(gw_peer *p);
/* At the leader: no disks have room for the whole final state. Returns whether it is tried again; false: that
 * has lasted long enough. */
bool gw_final_waits_for_room(gw_peer *p);
void gw_final_consider(gw_peer *p);
/* Ends this peer, as the final state could not be saved. root NULL: not known. */
void gw_final_unsaved(gw_peer *p, uint64_t step, const gw_hash *root);

#endif
