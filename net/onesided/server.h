/* The serving side of one-sided operations on one channel: it executes requests on the regions and queues the
 * replies. Small operations are executed as they arrive, READs when their reply can be sent, FETCHes by the
 * provider. Thread: the rail's, with its gate held. */
#ifndef GODWIT_NET_ONESIDED_SERVER_H
#define GODWIT_NET_ONESIDED_SERVER_H

#include "net/data/provider.h"
#include "net/data/regions.h"
#include "net/data/request.h"

typedef struct gw_server gw_server;

/* Opens a server. `channel` is the channel's number in lookups, `read_bytes` the most bytes of one READ
 * request. NULL if out of memory. */
gw_server *gw_server_open(const gw_peer_id *peer, uint64_t channel, uint32_t read_bytes,
                          const gw_regions *regions, gw_provider *provider);
/* Frees the server when the channel is gone. A lookup under way is freed by the thread that receives its
 * answer. */
void gw_server_close(gw_server *server);

/* Takes a request, with the payload of a WRITE. False if it breaks the protocol, and the link must end. */
bool gw_server_take(gw_server *server, const gw_request *request, const void *payload,
                    uint32_t payload_bytes);
/* Takes an answered lookup of this channel. */
void gw_server_answered(gw_server *server, gw_lookup *lookup);
/* Gives the next reply and its payload, which stays until gw_server_sent. False if there is none. */
bool gw_server_next(gw_server *server, gw_reply *reply, struct iovec *payload);
void gw_server_sent(gw_server *server);

#endif
