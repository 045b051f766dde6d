#ifndef GODWIT_CORE_BRAIN_SAVE_DEADLINES_H
#define GODWIT_CORE_BRAIN_SAVE_DEADLINES_H

#include "core/brain/state.h"

/* A LOAD begins. */
void gw_deadlines_load_begins(gw_peer *p);
/* A SAVE or a MANIFEST begins. */
void gw_deadlines_disk_begins(gw_peer *p, gw_token token);
/* A SAVE or a MANIFEST has ended. */
void gw_deadlines_disk_ends(gw_peer *p, gw_token token);
/* Handles the event PROGRESS. */
void gw_deadlines_progress(gw_peer *p, const gw_event *event);
/* Checks the deadlines. Returns true if the disk has just been found to hang. */
bool gw_deadlines_consider(gw_peer *p);
uint64_t gw_deadlines_next(const gw_peer *p);

#endif
