/* One-sided operations over one rail: the rail's user, with a requester and a server for each channel. A
 * transport has two, so that large transfers do not delay small operations. The one for small operations also
 * carries the messages about paths (net/rail/path_message.h). */
#ifndef GODWIT_NET_ONESIDED_ONESIDED_H
#define GODWIT_NET_ONESIDED_ONESIDED_H

#include "net/onesided/requester.h"
#include "net/onesided/server.h"
#include "net/rail/path_message.h"
#include "net/rail/thread.h"

typedef struct gw_onesided gw_onesided;

/* Takes a path message that has arrived over link `link`. Called on the rail's thread with the gate held. */
typedef void gw_onesided_received(void *context, const gw_peer_id *peer, uint64_t link,
                                  const gw_path_note *note, const uint8_t *bytes, uint32_t count);

/* Becomes the user of `rail`. rail, regions and provider must outlive it; without a provider (NULL) FETCHes
 * find nothing here. `window` is the most requests in flight on a channel, `read_bytes` the most bytes of one
 * READ request. `receive` is NULL if no path messages are expected. */
gw_onesided *gw_onesided_open(gw_rail_thread *rail, uint32_t window, uint32_t read_bytes,
                              const gw_regions *regions, gw_provider *provider,
                              const gw_transport_events *events, gw_onesided_received *receive,
                              void *receiver_context, gw_err *err);
/* Completes what is left and frees. Called after the rail's thread has ended (gw_rail_thread_stop). */
void gw_onesided_close(gw_onesided *onesided);

/* Takes a posted operation, which was allocated with malloc. Any thread. */
void gw_onesided_post(gw_onesided *onesided, gw_posted *posted);
/* The requests of other peers that were executed so far. Any thread. */
uint64_t gw_onesided_served(gw_onesided *onesided);
/* As gw_transport_abandon. Any thread. */
void gw_onesided_abandon(gw_onesided *onesided, const gw_peer_id *peer);
/* Sends a path message of up to GW_SMALL_BYTES over link `link`; it is dropped if the link is gone. Any
 * thread. */
void gw_onesided_tell(gw_onesided *onesided, const gw_peer_id *peer, uint64_t link, const gw_path_note *note,
                      const void *bytes, uint32_t count);
/* Takes an answered lookup of one of this rail's channels. Any thread. */
void gw_onesided_answered(gw_onesided *onesided, gw_lookup *lookup);

#endif
