#ifndef GODWIT_CORE_BRAIN_STEP_RETRY_H
#define GODWIT_CORE_BRAIN_STEP_RETRY_H

#include "core/brain/state.h"

/* A reduction failed: asks for a new view, now or later, or ends this peer. */
void gw_retry_failed(gw_peer *p, const gw_event *event);
/* A sum is right, so that nothing has failed between its members. */
void gw_retry_succeeded(gw_peer *p);
/* The others have gone on without this peer, which begins the count anew. */
void gw_retry_begin_anew(gw_peer *p);
void gw_retry_consider(gw_peer *p);
uint64_t gw_retry_deadline(const gw_peer *p);

#endif
