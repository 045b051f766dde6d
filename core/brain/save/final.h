#ifndef GODWIT_CORE_BRAIN_SAVE_FINAL_H
#define GODWIT_CORE_BRAIN_SAVE_FINAL_H

#include "core/brain/state.h"

void gw_final_not_hashed(gw_peer *p); /* nobody could even hash some of it: tried again, but not for ever */
/* At the leader: nobody has room for all of it. True: it will be tried again; false: that has lasted long
 * enough. */
bool gw_final_waits_for_room(gw_peer *p);
void gw_final_consider(gw_peer *p);
void gw_final_unsaved(gw_peer *p, uint64_t step, const gw_hash *root); /* ends this peer */

#endif
