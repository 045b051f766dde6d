#include "tools/godwit/flock/relay.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/flock/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELLO = 1, MESSAGE, PROGRESS, PEERS, BACKLOG = 16, BUFFER_BYTES = 4 << 20, PACKETS = 64 };

#define AGAIN_NS UINT64_C(200000000) /* until a child looks for its member again */

/* Lets much wait in a socket: both sides speak in bursts. */
static void widen(int fd) {
    int bytes = BUFFER_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* Sends a packet: two pieces. What does not fit is lost. */
static bool send_packet(int fd, const void *head, size_t head_length, const void *bytes, size_t length) {
    struct iovec parts[2] = {{(void *)(uintptr_t)head, head_length}, {(void *)(uintptr_t)bytes, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = length > 0 ? 2 : 1};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* The member's side. */

typedef struct guest {
    gw_relay *relay;
    int fd;
    gw_watch watch;
    bool named;
    gw_job_record_id job;
    gw_relay_progress progress;
    uint8_t *told; /* the last packet of its peers */
    size_t told_length;
} guest;

struct gw_relay {
    gw_loop *loop;
    int fd;
    gw_watch watch;
    gw_relay_events events;
    guest *guests[GW_RELAY_CHILDREN];
    uint32_t count;
    uint8_t packet[GW_RELAY_BYTES];
};

static void drop(guest *g) {
    gw_relay *relay = g->relay;
    gw_watch_remove(&g->watch);
    close(g->fd);
    for (uint32_t i = 0; i < relay->count; i++) {
        if (relay->guests[i] != g) continue;
        relay->guests[i] = relay->guests[--relay->count];
        break;
    }
    free(g->told);
    free(g);
}

static guest *find(const gw_relay *relay, const gw_job_record_id *job) {
    for (uint32_t i = 0; i < relay->count; i++)
        if (relay->guests[i]->named && gw_job_record_id_equal(&relay->guests[i]->job, job))
            return relay->guests[i];
    return NULL;
}

/* Takes a packet of a child. False: it is none. */
static bool take(guest *g, const uint8_t *bytes, size_t length) {
    gw_relay *relay = g->relay;
    gw_reader r = gw_reader_on(bytes, length);
    gw_peer_id to;
    switch (gw_get_u8(&r)) {
    case HELLO:
        if (g->named) return false;
        gw_get_bytes(&r, g->job.bytes, sizeof g->job.bytes);
        if (!gw_reader_done(&r)) return false;
        for (guest *other; (other = find(relay, &g->job)) != NULL;) drop(other); /* an earlier life */
        g->named = true;
        relay->events.joined(relay->events.context, &g->job);
        return true;
    case MESSAGE:
        gw_get_peer_id(&r, &to);
        if (!g->named || r.failed) return false;
        relay->events.message(relay->events.context, &g->job, &to, bytes + r.position, gw_reader_left(&r));
        return true;
    case PROGRESS:
        g->progress.done = gw_get_u32(&r);
        g->progress.failed = gw_get_u32(&r);
        g->progress.tasks = gw_get_u32(&r);
        return g->named && gw_reader_done(&r);
    default:
        return false;
    }
}

static void guest_speaks(void *context, uint32_t events) {
    guest *g = context;
    (void)events;
    for (int i = 0; i < PACKETS; i++) {
        ssize_t length = recv(g->fd, g->relay->packet, sizeof g->relay->packet, MSG_DONTWAIT);
        if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (length <= 0 || !take(g, g->relay->packet, (size_t)length)) {
            drop(g);
            return;
        }
    }
}

static void accept_guest(void *context, uint32_t events) {
    gw_relay *relay = context;
    gw_err err;
    (void)events;
    int fd = accept4(relay->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    guest *g = relay->count < GW_RELAY_CHILDREN ? calloc(1, sizeof *g) : NULL;
    if (g == NULL) {
        close(fd);
        return;
    }
    *g = (guest){.relay = relay, .fd = fd};
    widen(fd);
    if (!gw_watch_add(relay->loop, &g->watch, fd, EPOLLIN, guest_speaks, g, &err)) {
        gw_log(GW_WARN, "flock", "%s", err.text);
        close(fd);
        free(g);
        return;
    }
    relay->guests[relay->count++] = g;
}

gw_relay *gw_relay_open(gw_loop *loop, const char *directory, const gw_relay_events *events, gw_err *err) {
    int fd = gw_flock_listen(directory, GW_RELAY_NAME, SOCK_SEQPACKET, BACKLOG, err);
    if (fd < 0) return NULL;
    gw_relay *relay = calloc(1, sizeof *relay);
    GW_ASSERT_MEMORY(relay != NULL);
    relay->loop = loop;
    relay->fd = fd;
    relay->events = *events;
    if (gw_watch_add(loop, &relay->watch, fd, EPOLLIN, accept_guest, relay, err)) return relay;
    close(fd);
    free(relay);
    return NULL;
}

void gw_relay_close(gw_relay *relay) {
    if (relay == NULL) return;
    while (relay->count > 0) drop(relay->guests[0]);
    gw_watch_remove(&relay->watch);
    close(relay->fd); /* its name stays: the next member replaces it */
    free(relay);
}

void gw_relay_deliver(gw_relay *relay, const gw_job_record_id *job, const gw_peer_id *from, const void *bytes,
                      size_t length) {
    const guest *g = find(relay, job);
    uint8_t head[1 + sizeof from->bytes] = {MESSAGE};
    if (g == NULL || length > GW_RELAY_BYTES - sizeof head) return;
    memcpy(head + 1, from->bytes, sizeof from->bytes);
    send_packet(g->fd, head, sizeof head, bytes, length);
}

void gw_relay_tell(gw_relay *relay, const gw_job_record_id *job, const gw_peer_id *self, uint32_t slots,
                   const gw_peer_id *peers, uint32_t count) {
    guest *g = find(relay, job);
    if (g == NULL) return;
    if (count > GW_RELAY_PEERS) count = GW_RELAY_PEERS;
    size_t room = 1 + 16 + 4 + 2 + 16 * (size_t)count;
    uint8_t *packet = malloc(room);
    GW_ASSERT_MEMORY(packet != NULL);
    gw_writer w = gw_writer_on(packet, room);
    gw_put_u8(&w, PEERS);
    gw_put_peer_id(&w, self);
    gw_put_u32(&w, slots);
    gw_put_u16(&w, (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) gw_put_peer_id(&w, &peers[i]);
    bool same = g->told_length == w.length && memcmp(g->told, packet, w.length) == 0;
    if (same || !send_packet(g->fd, packet, w.length, NULL, 0)) { /* else it is tried at the next decision */
        free(packet);
        return;
    }
    free(g->told);
    g->told = packet;
    g->told_length = w.length;
}

gw_relay_progress gw_relay_progress_of(const gw_relay *relay, const gw_job_record_id *job) {
    const guest *g = relay != NULL ? find(relay, job) : NULL;
    return g != NULL ? g->progress : (gw_relay_progress){0};
}

/* The child's side. */

struct gw_relay_child {
    gw_loop *loop;
    char directory[GW_PATH_BYTES];
    gw_job_record_id job;
    gw_relay_child_events events;
    int fd; /* -1: no member is there */
    gw_watch watch;
    gw_timer again;
    uint8_t packet[GW_RELAY_BYTES];
};

static void connect_child(void *context);

static void look_again(gw_relay_child *child) {
    gw_err err;
    if (!gw_timer_set(child->loop, &child->again, gw_now_ns() + AGAIN_NS, connect_child, child, &err))
        gw_log(GW_ERROR, "map", "%s", err.text);
}

static void disconnect(gw_relay_child *child) {
    if (child->fd < 0) return;
    gw_watch_remove(&child->watch);
    close(child->fd);
    child->fd = -1;
}

/* Takes a packet of the member. False: it is none. */
static bool take_packet(gw_relay_child *child, const uint8_t *bytes, size_t length) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t kind = gw_get_u8(&r);
    gw_peer_id from;
    gw_get_peer_id(&r, &from);
    if (r.failed) return false;
    if (kind == MESSAGE) {
        child->events.message(child->events.context, &from, bytes + r.position, gw_reader_left(&r));
        return true;
    }
    uint32_t slots = gw_get_u32(&r);
    uint16_t count = gw_get_u16(&r);
    static gw_peer_id peers[GW_RELAY_PEERS]; /* one thread */
    if (kind != PEERS || r.failed || count > GW_RELAY_PEERS) return false;
    for (uint16_t i = 0; i < count; i++) gw_get_peer_id(&r, &peers[i]);
    if (!gw_reader_done(&r)) return false;
    child->events.peers(child->events.context, &from, slots, peers, count);
    return true;
}

static void member_speaks(void *context, uint32_t events) {
    gw_relay_child *child = context;
    (void)events;
    for (int i = 0; i < PACKETS && child->fd >= 0; i++) {
        ssize_t length = recv(child->fd, child->packet, sizeof child->packet, MSG_DONTWAIT);
        if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (length > 0 && take_packet(child, child->packet, (size_t)length)) continue;
        disconnect(child);
        look_again(child);
        child->events.cut(child->events.context);
    }
}

static void connect_child(void *context) {
    gw_relay_child *child = context;
    uint8_t hello[1 + sizeof child->job.bytes] = {HELLO};
    gw_err err;
    memcpy(hello + 1, child->job.bytes, sizeof child->job.bytes);
    child->fd = gw_flock_knock(child->directory, GW_RELAY_NAME, SOCK_SEQPACKET | SOCK_NONBLOCK, &err);
    if (child->fd >= 0 &&
        !gw_watch_add(child->loop, &child->watch, child->fd, EPOLLIN, member_speaks, child, &err)) {
        close(child->fd);
        child->fd = -1;
    }
    if (child->fd >= 0) {
        widen(child->fd);
        send_packet(child->fd, hello, sizeof hello, NULL, 0);
        return;
    }
    look_again(child);
}

gw_relay_child *gw_relay_child_open(gw_loop *loop, const char *directory, const gw_job_record_id *job,
                                    const gw_relay_child_events *events, gw_err *err) {
    gw_relay_child *child = calloc(1, sizeof *child);
    GW_ASSERT_MEMORY(child != NULL);
    *child = (gw_relay_child){.loop = loop, .job = *job, .events = *events, .fd = -1};
    if (!gw_durable_path(child->directory, err, "%s", directory)) {
        free(child);
        return NULL;
    }
    connect_child(child);
    return child;
}

void gw_relay_child_close(gw_relay_child *child) {
    if (child == NULL) return;
    gw_timer_cancel(&child->again);
    disconnect(child);
    free(child);
}

void gw_relay_child_send(gw_relay_child *child, const gw_peer_id *to, const void *bytes, size_t length) {
    uint8_t head[1 + sizeof to->bytes] = {MESSAGE};
    GW_ASSERT(length <= GW_RELAY_BYTES - sizeof head);
    memcpy(head + 1, to->bytes, sizeof to->bytes);
    if (child->fd >= 0) send_packet(child->fd, head, sizeof head, bytes, length);
}

void gw_relay_child_tell(gw_relay_child *child, const gw_relay_progress *progress) {
    uint8_t packet[13];
    gw_writer w = gw_writer_on(packet, sizeof packet);
    gw_put_u8(&w, PROGRESS);
    gw_put_u32(&w, progress->done);
    gw_put_u32(&w, progress->failed);
    gw_put_u32(&w, progress->tasks);
    if (child->fd >= 0) send_packet(child->fd, packet, w.length, NULL, 0);
}
