/* One-sided operations over one rail: its user, with an requester and a server for each channel. A transport has
 * two, so that large transfers do not stand before small operations. The one of small operations also carries
 * what the two sides tell each other about paths (net/rail/path_message.h). */
#ifndef GODWIT_NET_ONESIDED_ONESIDED_H
#define GODWIT_NET_ONESIDED_ONESIDED_H

#include "net/onesided/requester.h"
#include "net/onesided/server.h"
#include "net/rail/path_message.h"
#include "net/rail/thread.h"

typedef struct gw_onesided gw_onesided;

/* A path message came over link `link`; on the rail's thread, gate held. */
typedef void gw_onesided_received(void *context, const gw_peer_id *peer, uint64_t link,
                                  const gw_path_note *note, const uint8_t *bytes, uint32_t count);

/* Becomes the user of `rail`, which outlives it; so do regions and provider (NULL: FETCHes find nothing
 * here). `window`: requests in flight; `read_bytes`: most of one READ request. `told` NULL: no path messages
 * here. */
gw_onesided *gw_onesided_open(gw_rail_thread *rail, uint32_t window, uint32_t read_bytes,
                              const gw_regions *regions, gw_provider *provider,
                              const gw_transport_events *events, gw_onesided_received *receive,
                              void *receiver_context, gw_err *err);
/* After the rail's thread has ended (gw_rail_thread_stop): completes what is left and frees. */
void gw_onesided_close(gw_onesided *onesided);

/* Any thread. Takes a posted operation (malloc'd). */
void gw_onesided_post(gw_onesided *onesided, gw_posted *posted);
/* Any thread. Requests of others that were taken so far. */
uint64_t gw_onesided_served(gw_onesided *onesided);
/* Any thread. See gw_transport_abandon. */
void gw_onesided_abandon(gw_onesided *onesided, const gw_peer_id *peer);
/* Any thread. A path message of up to GW_SMALL_BYTES over link `link`; dropped when that is gone. */
void gw_onesided_tell(gw_onesided *onesided, const gw_peer_id *peer, uint64_t link, const gw_path_note *note,
                      const void *bytes, uint32_t count);
/* Any thread. A lookup of one of this rail's channels is answered. */
void gw_onesided_answered(gw_onesided *onesided, gw_lookup *lookup);

#endif
