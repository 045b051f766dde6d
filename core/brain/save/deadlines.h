#ifndef GODWIT_CORE_BRAIN_SAVE_DEADLINES_H
#define GODWIT_CORE_BRAIN_SAVE_DEADLINES_H

#include "core/brain/state.h"

void gw_patience_load(gw_peer *p); /* a LOAD begins */
/* A SAVE or a MANIFEST is given to the disk; one of them has ended. */
void gw_patience_disk(gw_peer *p, gw_token token);
void gw_patience_disk_answered(gw_peer *p, gw_token token);
void gw_patience_progress(gw_peer *p, const gw_event *event);
/* As time goes by. True: what was given to the disk has just been found not to end. */
bool gw_patience_consider(gw_peer *p);
uint64_t gw_patience_deadline(const gw_peer *p);

#endif
