#ifndef GODWIT_CORE_BRAIN_STEP_RETRY_H
#define GODWIT_CORE_BRAIN_STEP_RETRY_H

#include "core/brain/state.h"

void gw_retry_failed(gw_peer *p, const gw_event *event); /* asks for a new view, now or later, or gives up */
void gw_retry_succeeded(gw_peer *p);  /* a sum that is right: nothing has failed between its members */
void gw_retry_begin_anew(gw_peer *p); /* the others have gone on without this peer */
void gw_retry_consider(gw_peer *p);
uint64_t gw_retry_deadline(const gw_peer *p);

#endif
