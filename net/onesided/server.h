/* The serving side of one-sided operations on one channel: executes requests on the regions and queues the
 * answers. Small operations are executed as they arrive, READs when their answer can be sent, FETCHes by the
 * provider. Belongs to the rail's thread, inside its gate. */
#ifndef GODWIT_NET_ONESIDED_SERVER_H
#define GODWIT_NET_ONESIDED_SERVER_H

#include "net/data/provider.h"
#include "net/data/regions.h"
#include "net/data/request.h"

typedef struct gw_server gw_server;

/* `channel` numbers the channel in lookups; most READ bytes at once: `read_bytes`. NULL: out of memory. */
gw_server *gw_server_open(const gw_peer_id *peer, uint64_t channel, uint32_t read_bytes,
                          const gw_regions *regions, gw_provider *provider);
/* The channel is gone. Lookups under way are freed by whoever gets them. */
void gw_server_close(gw_server *server);

/* Takes a request with its payload (of a WRITE). False: it breaks the protocol, end the link. */
bool gw_server_take(gw_server *server, const gw_request *request, const void *payload,
                    uint32_t payload_bytes);
/* A lookup of this channel is answered; becomes the server's. */
void gw_server_answered(gw_server *server, gw_lookup *lookup);
/* The next reply and its payload, which stands until gw_server_sent. */
bool gw_server_next(gw_server *server, gw_reply *reply, struct iovec *payload);
void gw_server_sent(gw_server *server);

#endif
