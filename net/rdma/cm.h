/* Connections between queue pairs, by rdma_cm: one listener on the device's address, and dials.
 *
 * Who dials shows in the connection request's private data that it holds a secret which the other side told
 * it over an encrypted stream, and for which of that side's queues it comes. Nothing else is in it: a request
 * without a valid tag is refused before anything is made for it.
 *
 * Thread: the loop's, all of it. */
#ifndef GODWIT_NET_RDMA_CM_H
#define GODWIT_NET_RDMA_CM_H

#include "net/loop/loop.h"
#include "net/rdma/queue.h"

enum { GW_RDMA_SECRET = 32, GW_RDMA_HELLO = 56 /* private data: rdma_cm's limit */ };

typedef struct gw_rdma_cm gw_rdma_cm;
/* A connection: rdma_cm's side of it. The queue pair is its owner's. */
typedef struct gw_rdma_connection gw_rdma_connection;

/* What a dialler says. On the wire: version u8 | queue u8 | 0 u16 | serial u32 | dialler 16 | tag 32; the tag
 * is the BLAKE2b-256, keyed by the secret, of the 24 bytes before it and the acceptor's id. */
typedef struct gw_rdma_hello {
    uint8_t queue;
    uint32_t serial;
    gw_peer_id dialler, acceptor;
} gw_rdma_hello;

void gw_rdma_hello_encode(const gw_rdma_hello *hello, const uint8_t secret[GW_RDMA_SECRET],
                          uint8_t bytes[GW_RDMA_HELLO]);
/* Reads all but the acceptor. Private data may be longer than what was said: zeros follow. */
bool gw_rdma_hello_decode(const uint8_t *bytes, size_t count, gw_rdma_hello *hello);
/* Whether the tag is that of `hello`, acceptor filled in. In constant time. */
bool gw_rdma_hello_verify(const gw_rdma_hello *hello, const uint8_t secret[GW_RDMA_SECRET],
                          const uint8_t bytes[GW_RDMA_HELLO]);

typedef struct gw_rdma_cm_events {
    void *context;
    /* Somebody dials. The queue to answer with, unconnected, and who hears of the connection's end; NULL:
     * refuse. */
    gw_rdma_queue *(*asked)(void *context, const uint8_t *hello, size_t count, void **owner);
    /* The answer has been sent: the queue may be used, the connection is the owner's. */
    void (*accepted)(void *context, void *owner, gw_rdma_connection *connection);
    /* A dial has come to its end: the queue may be used. */
    void (*connected)(void *context, void *owner);
    /* A dial failed, an answer could not be given (there is no connection then), or the other side is gone.
     * Once; nothing follows, and the connection is to be dropped. */
    void (*ended)(void *context, void *owner, const gw_err *why);
    /* The device or its port is lost: everything is. May come again. `removed`: the device for good, whose
     * kernel waits until all that was made on it has been closed. */
    void (*lost)(void *context, const gw_err *why, bool removed);
    /* The port is active (again). */
    void (*found)(void *context);
} gw_rdma_cm_events;

/* Listens on the device's address; *port is where. `device` and `loop` outlive it. NULL on failure. */
gw_rdma_cm *gw_rdma_cm_open(const gw_rdma_device *device, gw_loop *loop, const gw_rdma_cm_events *events,
                            uint16_t *port, gw_err *err);
/* All connections have been dropped. */
void gw_rdma_cm_close(gw_rdma_cm *cm);

/* Dials `address`; `connected` or `ended` follows, within some seconds. `queue` is unconnected and must stay
 * until then, or until the connection is dropped. NULL on failure. */
gw_rdma_connection *gw_rdma_cm_dial(gw_rdma_cm *cm, const gw_addr *address, gw_rdma_queue *queue,
                                    const uint8_t hello[GW_RDMA_HELLO], void *owner, gw_err *err);
/* How many READs and atomics the answer to a request, `asked`, may grant to either side. The event has the
 * dialler's two numbers as they concern us: its responder resources are our initiator depth. */
void gw_rdma_cm_bound(struct rdma_conn_param *own, const struct rdma_conn_param *asked);
/* Ends a connection, or a dial; nothing is heard of it any more. The other side hears of it some seconds
 * later, when the port has stayed active. NULL is allowed. */
void gw_rdma_connection_drop(gw_rdma_connection *connection);

#endif
