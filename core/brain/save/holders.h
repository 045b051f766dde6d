#ifndef GODWIT_CORE_BRAIN_SAVE_HOLDERS_H
#define GODWIT_CORE_BRAIN_SAVE_HOLDERS_H

#include "core/brain/state.h"

/* A checkpoint is complete, or was loaded: its chunks are on the disks of the members at these ranks. */
void gw_holders_note(gw_peer *p, const gw_hash *root, const gw_set *ranks);
void gw_holders_close(gw_peer *p);
/* Whether the peers that live have all chunks of a checkpoint, as far as this peer knows. */
bool gw_holders_live(const gw_peer *p, const gw_checkpoint_ref *one);
/* Whether they have, and this peer knows where each chunk is. */
bool gw_holders_surely_live(const gw_peer *p, const gw_checkpoint_ref *one);
/* The newest checkpoint that the peers which live have as a whole, as far as this peer knows; step 0:
 * none. The root is zero where only the step is known. */
gw_checkpoint_ref gw_holders_newest(const gw_peer *p);
/* Writes how much of this peer's state is in no checkpoint that could be loaded now, as a whole sentence
 * without its full stop, below GW_HOLDERS_TEXT bytes. Returns `text`. */
enum { GW_HOLDERS_TEXT = 200 };
const char *gw_holders_unsaved(const gw_peer *p, char text[GW_HOLDERS_TEXT]);

#endif
