#include "net/rdma/cm.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/loop/address.h"
#include "net/loop/warning_rate.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
    VERSION = 1,
    HELLO_PLAIN = 24, /* bytes of a hello before the tag */
    RESOLVE_MS = 2000,
    BACKLOG = 64,
    REFUSED = 28, /* the reject reason of InfiniBand's CM for a refusal by the consumer */
    NOBODY = 8,   /* the reject reason for a port on which nobody listens */
};
#define PARTING_NS UINT64_C(2000000000)

struct gw_rdma_connection {
    gw_rdma_connection *next; /* the next in the list of all connections */
    gw_rdma_cm *cm;
    struct rdma_cm_id *id;
    void *owner;
    gw_rdma_queue *queue; /* NULL: connected */
    uint8_t hello[GW_RDMA_HELLO];
    uint64_t parts_ns; /* a parked connection is not ended before this time */
};

struct gw_rdma_cm {
    const gw_rdma_device *device;
    gw_loop *loop;
    gw_rdma_cm_events events;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    gw_watch channel_watch, async_watch;
    gw_rdma_connection *connections;
    gw_rdma_connection *parked; /* connections that were dropped and are not ended yet */
    gw_timer parting;           /* set while connections are parked */
    gw_rate_limit refusals;
};

/* What a dialler sends. */

static void make_tag(const gw_rdma_hello *hello, const uint8_t secret[GW_RDMA_SECRET],
                     const uint8_t plain[HELLO_PLAIN], uint8_t tag[32]) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, secret, GW_RDMA_SECRET, 32);
    crypto_generichash_update(&state, plain, HELLO_PLAIN);
    crypto_generichash_update(&state, hello->acceptor.bytes, sizeof hello->acceptor.bytes);
    crypto_generichash_final(&state, tag, 32);
}

void gw_rdma_hello_encode(const gw_rdma_hello *hello, const uint8_t secret[GW_RDMA_SECRET],
                          uint8_t bytes[GW_RDMA_HELLO]) {
    gw_writer w = gw_writer_on(bytes, HELLO_PLAIN);
    gw_put_u8(&w, VERSION);
    gw_put_u8(&w, hello->queue);
    gw_put_u16(&w, 0);
    gw_put_u32(&w, hello->serial);
    gw_put_peer_id(&w, &hello->dialler);
    GW_ASSERT(!w.failed && w.length == HELLO_PLAIN);
    make_tag(hello, secret, bytes, bytes + HELLO_PLAIN);
}

bool gw_rdma_hello_decode(const uint8_t *bytes, size_t count, gw_rdma_hello *hello) {
    gw_reader r = gw_reader_on(bytes, count);
    uint8_t version = gw_get_u8(&r);
    *hello = (gw_rdma_hello){.queue = gw_get_u8(&r)};
    (void)gw_get_u16(&r);
    hello->serial = gw_get_u32(&r);
    gw_get_peer_id(&r, &hello->dialler);
    return count >= GW_RDMA_HELLO && version == VERSION && !r.failed;
}

bool gw_rdma_hello_verify(const gw_rdma_hello *hello, const uint8_t secret[GW_RDMA_SECRET],
                          const uint8_t bytes[GW_RDMA_HELLO]) {
    uint8_t tag[32];
    make_tag(hello, secret, bytes, tag);
    return sodium_memcmp(tag, bytes + HELLO_PLAIN, sizeof tag) == 0;
}

/* Connections. */

static gw_rdma_connection *new_connection(gw_rdma_cm *cm, void *owner, gw_rdma_queue *queue) {
    gw_rdma_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) return NULL;
    connection->cm = cm;
    connection->owner = owner;
    connection->queue = queue;
    connection->next = cm->connections;
    cm->connections = connection;
    return connection;
}

static bool port_is_active(const gw_rdma_cm *cm) {
    struct ibv_port_attr port;
    return ibv_query_port(cm->device->verbs, cm->device->port, &port) == 0 && port.state == IBV_PORT_ACTIVE;
}

static void destroy(gw_rdma_connection *connection) {
    if (connection->id != NULL) {
        if (connection->queue == NULL) (void)rdma_disconnect(connection->id);
        rdma_destroy_id(connection->id);
    }
    free(connection);
}

/* Ends the parked connections that are due by `until_ns`. */
static void destroy_parked(gw_rdma_cm *cm, uint64_t until_ns) {
    for (gw_rdma_connection **at = &cm->parked; *at != NULL;) {
        gw_rdma_connection *connection = *at;
        if (connection->parts_ns > until_ns) {
            at = &connection->next;
            continue;
        }
        *at = connection->next;
        destroy(connection);
    }
}

static void on_parting(void *context);

static void part_later(gw_rdma_cm *cm) {
    gw_err err;
    if (cm->parked == NULL || cm->parting.loop != NULL) return;
    if (gw_timer_set(cm->loop, &cm->parting, gw_now_ns() + PARTING_NS, on_parting, cm, &err)) return;
    gw_log(GW_WARN, "net/rdma", "%s",
           err.text); /* the parked ones are ended when the next connection is dropped */
}

static void on_parting(void *context) {
    gw_rdma_cm *cm = context;
    if (port_is_active(cm)) destroy_parked(cm, gw_now_ns());
    part_later(cm);
}

/* Keeps a dropped connection until the port has stayed active for a while. The connection manager tells the
 * other side of the end by a packet. If that packet cannot leave, Soft-RoCE's queue pair for such packets
 * stays in error, and no connection can be made any more. That a port has gone down is reported some 30 ms
 * late, and the connections that break meanwhile break because of it. */
void gw_rdma_connection_drop(gw_rdma_connection *connection) {
    if (connection == NULL) return;
    gw_rdma_cm *cm = connection->cm;
    gw_rdma_connection **at = &cm->connections;
    while (*at != connection) at = &(*at)->next;
    *at = connection->next;
    if (connection->id == NULL) {
        destroy(connection);
        return;
    }
    connection->id->context = NULL;
    connection->parts_ns = gw_now_ns() + PARTING_NS;
    connection->next = cm->parked;
    cm->parked = connection;
    part_later(cm);
}

static void end(gw_rdma_connection *connection, const gw_err *why) {
    connection->cm->events.ended(connection->cm->events.context, connection->owner, why);
}

static void end_errno(gw_rdma_connection *connection, const char *what) {
    gw_err why;
    const gw_rdma_device *device = connection->cm->device;
    gw_fail_errno(&why, errno, "net/rdma: %s port %u: %s", device->name, device->port, what);
    end(connection, &why);
}

static void set_ack_timeout(struct rdma_cm_id *id, const gw_rdma_device *device) {
    uint8_t timeout = device->ack_timeout;
    /* An old kernel's rdma_cm does not know this option; the queue pair gets the same value when it is
     * connected. */
    (void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
}

static struct rdma_conn_param parameters(const gw_rdma_device *device, const gw_rdma_queue *queue) {
    return (struct rdma_conn_param){.responder_resources = device->reads_in,
                                    .initiator_depth = device->reads_out,
                                    .retry_count = device->retries,
                                    .rnr_retry_count = 7,
                                    .qp_num = gw_rdma_queue_number(queue)};
}

gw_rdma_connection *gw_rdma_cm_dial(gw_rdma_cm *cm, const gw_addr *address, gw_rdma_queue *queue,
                                    const uint8_t hello[GW_RDMA_HELLO], void *owner, gw_err *err) {
    struct sockaddr_storage from, to;
    gw_rdma_connection *connection = new_connection(cm, owner, queue);
    if (connection == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    memcpy(connection->hello, hello, GW_RDMA_HELLO);
    (void)gw_address_to_sockaddr(&cm->device->address, &from);
    (void)gw_address_to_sockaddr(address, &to);
    if (rdma_create_id(cm->channel, &connection->id, connection, RDMA_PS_TCP) != 0) {
        gw_fail_errno(err, errno, "net/rdma: rdma_create_id");
    } else {
        set_ack_timeout(connection->id, cm->device);
        if (rdma_resolve_addr(connection->id, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MS) ==
            0)
            return connection;
        gw_fail_errno(err, errno, "net/rdma: %s port %u: rdma_resolve_addr", cm->device->name,
                      cm->device->port);
    }
    gw_rdma_connection_drop(connection);
    return NULL;
}

static void go_on_dialling(gw_rdma_connection *connection) {
    struct rdma_conn_param param = parameters(connection->cm->device, connection->queue);
    param.private_data = connection->hello;
    param.private_data_len = GW_RDMA_HELLO;
    if (rdma_connect(connection->id, &param) != 0) end_errno(connection, "rdma_connect");
}

/* Completes a dial that the other side has accepted. */
static void establish(gw_rdma_connection *connection) {
    gw_err why;
    if (!gw_rdma_queue_connect(connection->queue, connection->id, &why)) {
        end(connection, &why);
    } else if (rdma_establish(connection->id) != 0) {
        end_errno(connection, "rdma_establish");
    } else {
        connection->queue = NULL;
        connection->cm->events.connected(connection->cm->events.context, connection->owner);
    }
}

/* Being dialled. */

static void note_refusal(gw_rdma_cm *cm) {
    uint64_t times;
    if (gw_rate_limit_admits(&cm->refusals, gw_now_ns(), &times))
        gw_log(GW_WARN, "net/rdma", "%s: refused %llu connection requests without a valid tag",
               cm->device->name, (unsigned long long)times);
}

void gw_rdma_cm_bound(struct rdma_conn_param *own, const struct rdma_conn_param *asked) {
    if (own->initiator_depth > asked->initiator_depth) own->initiator_depth = asked->initiator_depth;
    if (own->responder_resources > asked->responder_resources)
        own->responder_resources = asked->responder_resources;
}

static void answer(gw_rdma_cm *cm, const struct rdma_cm_event *event) {
    struct rdma_cm_id *id = event->id;
    const struct rdma_conn_param *asked = &event->param.conn;
    void *owner = NULL;
    gw_rdma_queue *queue =
        cm->events.asked(cm->events.context, asked->private_data, asked->private_data_len, &owner);
    gw_rdma_connection *connection = queue != NULL ? new_connection(cm, owner, queue) : NULL;
    if (connection == NULL) {
        note_refusal(cm);
        (void)rdma_reject(id, NULL, 0);
        rdma_destroy_id(id);
        if (queue != NULL) {
            gw_err why;
            gw_fail(&why, GW_E_NOMEM, "net/rdma: no memory");
            cm->events.ended(cm->events.context, owner, &why);
        }
        return;
    }
    connection->id = id;
    id->context = connection;
    set_ack_timeout(id, cm->device);
    gw_err why;
    struct rdma_conn_param param = parameters(cm->device, queue);
    gw_rdma_cm_bound(&param, asked);
    bool ready = gw_rdma_queue_connect(queue, id, &why);
    if (ready && rdma_accept(id, &param) != 0)
        ready = gw_fail_errno(&why, errno, "net/rdma: %s port %u: rdma_accept", cm->device->name,
                              cm->device->port);
    if (ready) {
        connection->queue = NULL;
        cm->events.accepted(cm->events.context, owner, connection);
    } else {
        (void)rdma_reject(id, NULL, 0);
        gw_rdma_connection_drop(connection);
        cm->events.ended(cm->events.context, owner, &why);
    }
}

/* Events. */

static void explain(const gw_rdma_connection *connection, const struct rdma_cm_event *event, gw_err *why) {
    const gw_rdma_device *device = connection->cm->device;
    char text[GW_ADDR_TEXT];
    gw_addr to = gw_address_from_sockaddr(rdma_get_peer_addr(connection->id));
    gw_addr_text(&to, text);
    if (event->event == RDMA_CM_EVENT_REJECTED)
        gw_fail(why, GW_E_PEER, "net/rdma: %s port %u to %s: the connection was rejected: %s (status %d)",
                device->name, device->port, text,
                event->status == NOBODY    ? "nobody listens there"
                : event->status == REFUSED ? "the peer refused it"
                                           : "see rdma_cm's reasons",
                event->status);
    else if (event->event == RDMA_CM_EVENT_DISCONNECTED)
        gw_fail(why, GW_E_PEER, "net/rdma: %s port %u to %s: the peer disconnected", device->name,
                device->port, text);
    else
        gw_fail(why, GW_E_PEER, "net/rdma: %s port %u to %s: %s (%s)", device->name, device->port, text,
                rdma_event_str(event->event),
                event->status < 0 ? strerror(-event->status) : "rdma_cm gave no reason");
}

/* Handles an event of a connection. `event` has been acknowledged, so its private data are gone. */
static void on_connection_event(gw_rdma_connection *connection, const struct rdma_cm_event *event) {
    gw_err why;
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(connection->id, RESOLVE_MS) != 0) end_errno(connection, "rdma_resolve_route");
        return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        go_on_dialling(connection);
        return;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        establish(connection);
        return;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
        explain(connection, event, &why);
        end(connection, &why);
        return;
    default:
        return; /* established, time-wait over, address changed: nothing needs to be done */
    }
}

static void lose(gw_rdma_cm *cm, const char *what, bool removed) {
    gw_err why;
    gw_fail(&why, GW_E_PEER, "net/rdma: %s port %u: %s", cm->device->name, cm->device->port, what);
    cm->events.lost(cm->events.context, &why, removed);
}

static void on_channel(void *context, uint32_t events) {
    gw_rdma_cm *cm = context;
    struct rdma_cm_event *event;
    (void)events;
    while (cm->channel != NULL && rdma_get_cm_event(cm->channel, &event) == 0) {
        struct rdma_cm_event copy = *event;
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            uint8_t said[256]; /* private data can be as long as this */
            size_t count = event->param.conn.private_data_len;
            if (count > 0) memcpy(said, event->param.conn.private_data, count);
            copy.param.conn.private_data = said;
            rdma_ack_cm_event(event);
            answer(cm, &copy);
            continue;
        }
        rdma_ack_cm_event(event);
        if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
            lose(cm, "the device was removed", true);
        else if (copy.id->context != NULL)
            on_connection_event(copy.id->context, &copy);
    }
}

static void on_async(void *context, uint32_t events) {
    gw_rdma_cm *cm = context;
    struct ibv_async_event event;
    (void)events;
    while (ibv_get_async_event(cm->device->verbs, &event) == 0) {
        enum ibv_event_type type = event.event_type;
        bool ours = event.element.port_num == cm->device->port;
        ibv_ack_async_event(&event);
        if (type == IBV_EVENT_DEVICE_FATAL || (type == IBV_EVENT_PORT_ERR && ours))
            lose(cm, ibv_event_type_str(type), type == IBV_EVENT_DEVICE_FATAL);
        if (type != IBV_EVENT_PORT_ACTIVE || !ours) continue;
        for (gw_rdma_connection *c = cm->parked; c != NULL; c = c->next)
            c->parts_ns = gw_now_ns() + PARTING_NS;
        cm->events.found(cm->events.context);
    }
}

/* Life. */

static bool unblock(int fd, gw_err *err) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return true;
    return gw_fail_errno(err, errno, "net/rdma: fcntl");
}

static bool listen_at(gw_rdma_cm *cm, uint16_t *port, gw_err *err) {
    struct sockaddr_storage at;
    (void)gw_address_to_sockaddr(&cm->device->address, &at);
    if (rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(cm->listener, (struct sockaddr *)&at) != 0 || rdma_listen(cm->listener, BACKLOG) != 0)
        return gw_fail_errno(err, errno, "net/rdma: %s port %u: listening", cm->device->name,
                             cm->device->port);
    *port = ntohs(rdma_get_src_port(cm->listener));
    return true;
}

gw_rdma_cm *gw_rdma_cm_open(const gw_rdma_device *device, gw_loop *loop, const gw_rdma_cm_events *events,
                            uint16_t *port, gw_err *err) {
    gw_rdma_cm *cm = calloc(1, sizeof *cm);
    if (cm == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    *cm = (gw_rdma_cm){.device = device, .loop = loop, .events = *events};
    cm->channel = rdma_create_event_channel();
    if (cm->channel == NULL)
        gw_fail_errno(err, errno, "net/rdma: rdma_create_event_channel");
    else if (unblock(cm->channel->fd, err) && unblock(device->verbs->async_fd, err) &&
             listen_at(cm, port, err) &&
             gw_watch_add(loop, &cm->channel_watch, cm->channel->fd, EPOLLIN, on_channel, cm, err) &&
             gw_watch_add(loop, &cm->async_watch, device->verbs->async_fd, EPOLLIN, on_async, cm, err))
        return cm;
    gw_rdma_cm_close(cm);
    return NULL;
}

void gw_rdma_cm_close(gw_rdma_cm *cm) {
    if (cm == NULL) return;
    GW_ASSERT(cm->connections == NULL);
    gw_watch_remove(&cm->channel_watch);
    gw_watch_remove(&cm->async_watch);
    gw_timer_cancel(&cm->parting);
    destroy_parked(cm, UINT64_MAX);
    if (cm->listener != NULL) rdma_destroy_id(cm->listener);
    if (cm->channel != NULL) rdma_destroy_event_channel(cm->channel);
    free(cm);
}
