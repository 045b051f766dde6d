/* Connections between queue pairs by rdma_cm: one listener on the device's address, and dials.
 *
 * In the private data of the connection request a dialler proves that it holds a secret, which the other side
 * has told it over an encrypted stream, and names the queue of that side that it dials. A request without a
 * valid tag is refused before anything is allocated for it.
 *
 * Thread: the loop's. */
#ifndef GODWIT_NET_RDMA_CM_H
#define GODWIT_NET_RDMA_CM_H

#include "net/loop/loop.h"
#include "net/rdma/queue.h"

enum { GW_RDMA_SECRET = 32, GW_RDMA_HELLO = 56 /* private data; 56 bytes is the limit of rdma_cm */ };

typedef struct gw_rdma_cm gw_rdma_cm;
/* One connection, as rdma_cm knows it. The queue pair belongs to the connection's owner. */
typedef struct gw_rdma_connection gw_rdma_connection;

/* What a dialler sends. On the wire: version u8 | queue u8 | 0 u16 | serial u32 | dialler 16 | tag 32. The
 * tag is the BLAKE2b-256, keyed by the secret, of the 24 bytes before it and the acceptor's id. */
typedef struct gw_rdma_hello {
    uint8_t queue;
    uint32_t serial;
    gw_peer_id dialler, acceptor;
} gw_rdma_hello;

void gw_rdma_hello_encode(const gw_rdma_hello *hello, const uint8_t secret[GW_RDMA_SECRET],
                          uint8_t bytes[GW_RDMA_HELLO]);
/* Decodes all fields but the acceptor. Private data may be longer than what the dialler has sent: zeros
 * follow. */
bool gw_rdma_hello_decode(const uint8_t *bytes, size_t count, gw_rdma_hello *hello);
/* Whether the tag is that of `hello`, whose acceptor must be filled in. Takes constant time. */
bool gw_rdma_hello_verify(const gw_rdma_hello *hello, const uint8_t secret[GW_RDMA_SECRET],
                          const uint8_t bytes[GW_RDMA_HELLO]);

typedef struct gw_rdma_cm_events {
    void *context;
    /* A peer dials. Returns the unconnected queue to answer with, and in *owner the argument of later events
     * of this connection; NULL refuses the request. */
    gw_rdma_queue *(*asked)(void *context, const uint8_t *hello, size_t count, void **owner);
    /* The request was accepted: the queue may be used. The connection becomes the owner's. */
    void (*accepted)(void *context, void *owner, gw_rdma_connection *connection);
    /* A dial has succeeded: the queue may be used. */
    void (*connected)(void *context, void *owner);
    /* A dial has failed, a request could not be accepted (there is no connection then), or the other side is
     * gone. Called once; nothing follows, and the connection must be dropped. */
    void (*ended)(void *context, void *owner, const gw_err *why);
    /* The device or its port is lost, and with it all connections. May be called again. `removed`: the device
     * is gone for good; its kernel driver waits until everything that was made on it has been closed. */
    void (*lost)(void *context, const gw_err *why, bool removed);
    /* The port is active, or active again. */
    void (*found)(void *context);
} gw_rdma_cm_events;

/* Listens on the device's address; *port becomes the port. `device` and `loop` must outlive it. NULL on
 * failure. */
gw_rdma_cm *gw_rdma_cm_open(const gw_rdma_device *device, gw_loop *loop, const gw_rdma_cm_events *events,
                            uint16_t *port, gw_err *err);
/* Closes it. All connections must have been dropped. */
void gw_rdma_cm_close(gw_rdma_cm *cm);

/* Dials `address`; `connected` or `ended` follows within some seconds. `queue` is unconnected and must stay
 * until then, or until the connection is dropped. NULL on failure. */
gw_rdma_connection *gw_rdma_cm_dial(gw_rdma_cm *cm, const gw_addr *address, gw_rdma_queue *queue,
                                    const uint8_t hello[GW_RDMA_HELLO], void *owner, gw_err *err);
/* Reduces the READs and atomics that the answer to a request grants to either side to what the dialler
 * offers. The event states the dialler's two numbers from the acceptor's point of view: the dialler's
 * responder resources are the acceptor's initiator depth. */
void gw_rdma_cm_bound(struct rdma_conn_param *own, const struct rdma_conn_param *asked);
/* Ends a connection or a dial: no events follow. The other side learns of it some seconds later, when the
 * port has stayed active. NULL is allowed. */
void gw_rdma_connection_drop(gw_rdma_connection *connection);

#endif
