/* One-sided operations over one TCP lane: its user, with an asker and a server for each channel. A transport
 * has two, so that large transfers do not stand before small operations. */
#ifndef GODWIT_NET_ONESIDED_H
#define GODWIT_NET_ONESIDED_H

#include "net/asker.h"
#include "net/lane_thread.h"
#include "net/server.h"

typedef struct gw_onesided gw_onesided;

/* Becomes the user of `lane`, which outlives it; so do regions and provider (which may be NULL). `window`:
 * requests in flight; `read_bytes`: most of one READ request. */
gw_onesided *gw_onesided_open(gw_lane_thread *lane, uint32_t window, uint32_t read_bytes,
                              const gw_regions *regions, gw_provider *provider,
                              const gw_transport_events *events, gw_err *err);
/* After the lane's thread has ended (gw_lane_thread_stop): completes what is left and frees. */
void gw_onesided_close(gw_onesided *onesided);

/* Any thread. Takes a posted operation (malloc'd). */
void gw_onesided_post(gw_onesided *onesided, gw_posted *posted);
/* Any thread. See gw_transport_abandon. */
void gw_onesided_abandon(gw_onesided *onesided, const gw_peer_id *peer);
/* Any thread. A lookup of one of this lane's channels is answered. */
void gw_onesided_answered(gw_onesided *onesided, gw_lookup *lookup);

#endif
