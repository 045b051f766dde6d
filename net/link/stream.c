#include "net/link/stream.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "net/link/send_queue.h"
#include "net/loop/address.h"
#include "net/loop/reserve.h"
#include "net/loop/silence.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FIRST_BUFFER = 16 * 1024,
    READ_BUDGET =
        1 << 20, /* bytes that a stream may read in one turn, so that other streams get their turn */
    SILENCE_MS = 5000,
    KEEPALIVE_IDLE_S = 2,
    KEEPALIVE_EVERY_S = 1,
    KEEPALIVE_PROBES = 3,
    LEAST_REPEAT_US =
        20000, /* the least time, besides the round trip, after which a lost packet is sent again */
    MOST_REPEAT_MS = 1000,
};

/* Linux has these options since 6.15; the C library's headers may be older. */
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif
#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45
#endif

typedef enum stage { CONNECTING, SHAKING, FINISHING, READY, OVER } stage;

struct gw_stream {
    gw_cipher seal, open;
    gw_loop *loop;
    gw_watch watch;
    /* Before READY the handshake's deadline; afterwards it reports a break that was found while sending. */
    gw_timer timer;
    stage stage;
    bool asks;      /* it ends before the handshake's last message (gw_stream_ask) */
    bool connected; /* the connection was made */
    int fd;
    unsigned entered; /* callbacks of this stream on the stack: it is freed when the last one returns */
    gw_addr other;    /* the address of the other side */
    gw_handshake *handshake;
    gw_stream_events events;
    gw_remote remote;
    gw_closed broken; /* a break that has not been reported yet */
    int broken_errno;

    uint8_t *in; /* bytes [in_start, in_start + in_count) are read and not yet used */
    size_t in_start, in_count, in_capacity;
    size_t wanted;    /* the length of the next record once its header has arrived, else 0 */
    uint8_t *message; /* the records so far of an incomplete message */
    size_t message_bytes, message_capacity;
    gw_silence silence;
    gw_send_queue out;
};

/* Ending. */

static void release(gw_stream *stream) {
    GW_ASSERT(stream->stage == OVER);
    if (stream->entered > 0) return;
    gw_cipher_wipe(&stream->seal);
    gw_cipher_wipe(&stream->open);
    free(stream->in);
    free(stream->message);
    gw_send_queue_clear(&stream->out);
    free(stream);
}

/* Stops everything but keeps the object; the socket is closed if `close_fd`. */
static void stop(gw_stream *stream, bool close_fd) {
    GW_ASSERT(stream->stage != OVER);
    gw_watch_remove(&stream->watch);
    gw_timer_cancel(&stream->timer);
    gw_handshake_close(stream->handshake);
    stream->handshake = NULL;
    if (close_fd) close(stream->fd);
    stream->stage = OVER;
}

static void end(gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    stop(stream, true);
    stream->entered++;
    stream->events.closed(stream->events.context, stream, why, fault, text);
    stream->entered--;
}

void gw_stream_close(gw_stream *stream) {
    if (stream == NULL) return;
    stop(stream, true);
    release(stream);
}

static gw_closed reason_of(int errno_value) {
    switch (errno_value) {
    case ECONNREFUSED:
        return GW_CLOSED_REFUSED;
    case ETIMEDOUT:
        return GW_CLOSED_TIMEOUT;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EACCES:
    case EPERM:
    case EINVAL: /* the address is of another scope */
    case EAFNOSUPPORT:
        return GW_CLOSED_UNREACHABLE;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
    case EADDRNOTAVAIL:
        return GW_CLOSED_LOCAL;
    default:
        return GW_CLOSED_RESET;
    }
}

static void end_errno(gw_stream *stream, int errno_value) {
    end(stream, reason_of(errno_value), GW_FAULT_NONE, strerror(errno_value));
}

static void end_nomem(gw_stream *stream) {
    end(stream, GW_CLOSED_LOCAL, GW_FAULT_NONE, "out of memory");
}

/* Sending. */

static void wait_for(gw_stream *stream) {
    bool output = stream->stage == CONNECTING || gw_send_queue_bytes(&stream->out) > 0;
    if (stream->handshake != NULL) {
        size_t waiting;
        gw_handshake_output(stream->handshake, &waiting);
        output = output || waiting > 0;
    }
    gw_watch_change(&stream->watch, (stream->stage == CONNECTING ? 0u : EPOLLIN) | (output ? EPOLLOUT : 0u));
}

/* Sends the handshake's output. Returns 0, EAGAIN or the errno. */
static int send_handshake(gw_stream *stream) {
    for (;;) {
        size_t count;
        const uint8_t *bytes = gw_handshake_output(stream->handshake, &count);
        if (count == 0) return 0;
        ssize_t sent = send(stream->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EWOULDBLOCK ? EAGAIN : errno;
        gw_handshake_sent(stream->handshake, (size_t)sent);
    }
}

static void on_deadline(void *context) {
    gw_stream *stream = context;
    if (stream->broken != GW_CLOSED_NOT)
        end(stream, stream->broken, GW_FAULT_NONE, strerror(stream->broken_errno));
    else
        end(stream, GW_CLOSED_TIMEOUT, GW_FAULT_NONE,
            stream->stage == CONNECTING ? "no connection in time" : "no handshake in time");
    release(stream);
}

/* Remembers a break that must not be reported from inside the call that found it; the loop reports it. */
static bool report_later(gw_stream *stream, int errno_value, gw_err *err) {
    stream->broken = reason_of(errno_value);
    stream->broken_errno = errno_value;
    gw_watch_remove(&stream->watch);
    return gw_timer_set(stream->loop, &stream->timer, 0, on_deadline, stream, err);
}

bool gw_stream_send(gw_stream *stream, const void *bytes, size_t count, gw_err *err) {
    GW_ASSERT(stream->stage == READY);
    GW_ASSERT(count <= GW_MESSAGE_BYTES);
    bool idle = gw_send_queue_bytes(&stream->out) == 0;
    if (!gw_send_queue_push(&stream->out, &stream->seal, bytes, count, GW_STREAM_QUEUE_BYTES, err))
        return false;
    if (!idle || stream->broken != GW_CLOSED_NOT) return true;
    int failed = gw_send_queue_flush(&stream->out, stream->fd);
    if (failed != 0 && failed != EAGAIN) return report_later(stream, failed, err);
    wait_for(stream);
    return true;
}

uint32_t gw_stream_silence(gw_stream *stream) {
    return gw_silence_beat(&stream->silence);
}

size_t gw_stream_queued(const gw_stream *stream) {
    return gw_send_queue_bytes(&stream->out);
}

static void flush(gw_stream *stream) {
    int failed = gw_send_queue_flush(&stream->out, stream->fd);
    if (failed == EAGAIN) return;
    if (failed != 0) {
        end_errno(stream, failed);
        return;
    }
    wait_for(stream);
}

/* Receiving. */

/* Makes room for at least one more byte, and for the rest of the record that comes next. */
static bool make_room(gw_stream *stream) {
    size_t wanted = stream->wanted;
    if (stream->in_start > 0) {
        memmove(stream->in, stream->in + stream->in_start, stream->in_count);
        stream->in_start = 0;
    }
    if (wanted <= stream->in_capacity && stream->in_count < stream->in_capacity) return true;
    size_t capacity = wanted > FIRST_BUFFER ? wanted : FIRST_BUFFER;
    GW_ASSERT(capacity > stream->in_count);
    uint8_t *in = realloc(stream->in, capacity);
    if (in == NULL) return false;
    stream->in = in;
    stream->in_capacity = capacity;
    return true;
}

static bool append(gw_stream *stream, const uint8_t *payload, size_t count) {
    size_t needed = stream->message_bytes + count;
    if (needed > stream->message_capacity) {
        size_t capacity = 2 * stream->message_capacity > needed ? 2 * stream->message_capacity : needed;
        uint8_t *message = realloc(stream->message, capacity);
        if (message == NULL) return false;
        stream->message = message;
        stream->message_capacity = capacity;
    }
    memcpy(stream->message + stream->message_bytes, payload, count);
    stream->message_bytes = needed;
    return true;
}

static void deliver(gw_stream *stream, const uint8_t *payload, size_t count, bool more) {
    if (stream->message_bytes + count > GW_MESSAGE_BYTES || (more && count == 0)) {
        end(stream, GW_CLOSED_PROTOCOL, GW_FAULT_NONE, "a message is longer than any may be");
        return;
    }
    if (!more && stream->message_bytes == 0) {
        stream->events.message(stream->events.context, stream, payload, count);
        return;
    }
    if (!append(stream, payload, count)) {
        end_nomem(stream);
        return;
    }
    if (more) return;
    uint8_t *message = stream->message; /* detached from the stream: the callback may end it */
    size_t bytes = stream->message_bytes;
    stream->message = NULL;
    stream->message_bytes = stream->message_capacity = 0;
    stream->events.message(stream->events.context, stream, message, bytes);
    free(message);
}

/* Opens and delivers the whole records that have arrived. */
static void use_records(gw_stream *stream) {
    while (stream->stage == READY && stream->in_count >= GW_RECORD_HEADER) {
        uint8_t *record = stream->in + stream->in_start;
        size_t bytes;
        bool more;
        gw_err err;
        if (!gw_record_measure(&stream->open, record, &bytes, &more, &err)) {
            end(stream, GW_CLOSED_CORRUPT, GW_FAULT_NONE, err.text);
            return;
        }
        stream->wanted = bytes;
        if (stream->in_count < bytes) return;
        if (!gw_record_open(&stream->open, record, bytes, record + GW_RECORD_HEADER, &err)) {
            end(stream, GW_CLOSED_CORRUPT, GW_FAULT_NONE, err.text);
            return;
        }
        gw_silence_record(&stream->silence);
        stream->in_start += bytes;
        stream->in_count -= bytes;
        stream->wanted = 0;
        size_t payload = bytes - gw_record_bytes(&stream->open, 0);
        deliver(stream, record + GW_RECORD_HEADER, payload, more);
    }
}

static void become_ready(gw_stream *stream) {
    gw_handshake_finish(stream->handshake, &stream->remote, &stream->seal, &stream->open);
    gw_handshake_close(stream->handshake);
    stream->handshake = NULL;
    gw_timer_cancel(&stream->timer);
    gw_remote *remote = &stream->remote;
    remote->from = stream->other;
    if (gw_address_is_any(&remote->listen)) {
        uint16_t port = remote->listen.port;
        remote->listen = stream->other;
        remote->listen.port = port;
    }
    stream->stage = READY;
    wait_for(stream);
    stream->events.ready(stream->events.context, stream, remote);
}

/* Moves the handshake on with what has been read and what can be written. */
static void shake(gw_stream *stream) {
    gw_err err;
    gw_handshake_state state = GW_HANDSHAKE_DONE;
    if (stream->stage == SHAKING) {
        size_t used = 0;
        state = gw_handshake_feed(stream->handshake, stream->in + stream->in_start, stream->in_count, &used,
                                  &err);
        stream->in_start += used;
        stream->in_count -= used;
    }
    int failed =
        stream->asks && state == GW_HANDSHAKE_DONE && stream->stage == SHAKING ? 0 : send_handshake(stream);
    if (state == GW_HANDSHAKE_FAILED) {
        end(stream, GW_CLOSED_PROTOCOL, gw_handshake_fault(stream->handshake), err.text);
        return;
    }
    if (failed != 0 && failed != EAGAIN) {
        end_errno(stream, failed);
        return;
    }
    if (state == GW_HANDSHAKE_DONE) stream->stage = FINISHING;
    if (state == GW_HANDSHAKE_DONE && failed == 0)
        become_ready(stream);
    else
        wait_for(stream);
}

/* Reads until there is no more, the budget is spent, or the stream is over. */
static void receive(gw_stream *stream) {
    for (size_t budget = READ_BUDGET; stream->stage == SHAKING || stream->stage == READY;) {
        if (!make_room(stream)) {
            end_nomem(stream);
            return;
        }
        size_t room = stream->in_capacity - stream->in_count;
        ssize_t got = recv(stream->fd, stream->in + stream->in_count, room, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got < 0) {
            end_errno(stream, errno);
            return;
        }
        if (got == 0) {
            end(stream, GW_CLOSED_END, GW_FAULT_NONE,
                stream->stage == READY ? "closed by the other side"
                                       : "closed by the other side in the handshake");
            return;
        }
        stream->in_count += (size_t)got;
        gw_silence_bytes(&stream->silence, (size_t)got);
        if (stream->stage == SHAKING) shake(stream);
        if (stream->stage == READY) use_records(stream);
        if ((size_t)got >= budget || (size_t)got < room) return;
        budget -= (size_t)got;
    }
}

/* Connecting. */

/* Whether the socket is connected to itself. This happens when nobody listens on a local port and the kernel
 * picks that very port for the dialling socket. */
static bool met_itself(int fd) {
    struct sockaddr_storage own, other;
    socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0) return false;
    if (getpeername(fd, (struct sockaddr *)&other, &other_bytes) != 0) return false;
    gw_addr a = gw_address_from_sockaddr((struct sockaddr *)&own);
    gw_addr b = gw_address_from_sockaddr((struct sockaddr *)&other);
    return gw_addr_equal(&a, &b);
}

static void connected(gw_stream *stream) {
    int failed = 0;
    socklen_t bytes = sizeof failed;
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &failed, &bytes) != 0) failed = errno;
    if (failed == 0 && met_itself(stream->fd)) failed = ECONNREFUSED;
    if (failed != 0) {
        end_errno(stream, failed);
        return;
    }
    stream->stage = SHAKING;
    stream->connected = true;
    shake(stream);
}

static void on_ready(void *context, uint32_t events) {
    gw_stream *stream = context;
    stream->entered++;
    if (stream->stage == CONNECTING) {
        connected(stream);
    } else {
        if ((events & EPOLLOUT) != 0 && stream->stage == READY && gw_stream_queued(stream) > 0) flush(stream);
        if ((events & EPOLLOUT) != 0 && (stream->stage == SHAKING || stream->stage == FINISHING))
            shake(stream);
        if ((events & ~(uint32_t)EPOLLOUT) != 0) receive(stream);
    }
    stream->entered--;
    if (stream->stage == OVER) release(stream);
}

/* Shortens the retransmission timeout. A step is a chain of small messages, and every peer waits for each of
 * them. By default the kernel retransmits after 200 ms and doubles that each time, so that a link that was
 * cut for a second stays silent for up to another second. On kernels without these options the recovery is
 * slower; nothing else changes. */
static void repeat_soon(int fd) {
    int on = 1, least_us = LEAST_REPEAT_US, most_ms = MOST_REPEAT_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_RTO_MIN_US, &least_us, sizeof least_us);
    setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &most_ms, sizeof most_ms);
}

/* SILENCE_MS (TCP_USER_TIMEOUT) also bounds the time for which a receiver may leave its window closed while
 * it acknowledges probes. */
void gw_stream_tune(int fd) {
    int on = 1, idle = KEEPALIVE_IDLE_S, every = KEEPALIVE_EVERY_S, probes = KEEPALIVE_PROBES;
    unsigned silence_ms = SILENCE_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    repeat_soon(fd);
}

/* Makes a stream from a socket and a handshake, both of which it takes even if it fails. */
static gw_stream *make(gw_loop *loop, int fd, gw_handshake *handshake, const gw_addr *other, stage first,
                       const gw_stream_events *events, gw_err *err) {
    GW_ASSERT(events->ready != NULL && events->message != NULL && events->closed != NULL);
    gw_stream *stream = handshake == NULL ? NULL : calloc(1, sizeof *stream);
    if (stream == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for a stream");
        gw_handshake_close(handshake);
        close(fd);
        return NULL;
    }
    stream->loop = loop;
    stream->fd = fd;
    stream->stage = first;
    stream->handshake = handshake;
    stream->other = *other;
    stream->events = *events;
    if (gw_watch_add(loop, &stream->watch, fd, first == CONNECTING ? EPOLLOUT : EPOLLIN, on_ready, stream,
                     err) &&
        gw_timer_set(loop, &stream->timer, gw_now_ns() + GW_HANDSHAKE_NS, on_deadline, stream, err))
        return stream;
    gw_stream_close(stream);
    return NULL;
}

gw_stream *gw_stream_dial(gw_loop *loop, const gw_local *local, const gw_addr *to, gw_stream_kind kind,
                          uint64_t label, const gw_stream_events *events, gw_err *err) {
    struct sockaddr_storage address;
    socklen_t bytes = gw_address_to_sockaddr(to, &address);
    int fd = gw_reserve_spare(socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        gw_fail_errno(err, errno, "cannot make a socket");
        return NULL;
    }
    uint8_t randomness[32];
    randombytes_buf(randomness, sizeof randomness);
    gw_handshake *handshake = gw_handshake_dial(local, kind, label, randomness, err);
    sodium_memzero(randomness, sizeof randomness);
    gw_stream_tune(fd);
    int failed = connect(fd, (struct sockaddr *)&address, bytes) == 0 ? 0 : errno;
    gw_stream *stream = make(loop, fd, handshake, to, CONNECTING, events, err);
    if (stream == NULL || failed == 0 || failed == EINPROGRESS || failed == EINTR) return stream;
    if (report_later(stream, failed, err)) return stream;
    gw_stream_close(stream);
    return NULL;
}

gw_stream *gw_stream_dial_on(gw_loop *loop, const gw_local *local, int fd, gw_stream_kind kind,
                             const gw_stream_events *events, gw_err *err) {
    uint8_t randomness[32];
    const gw_addr unknown = {0};
    randombytes_buf(randomness, sizeof randomness);
    gw_handshake *handshake = gw_handshake_dial(local, kind, 0, randomness, err);
    sodium_memzero(randomness, sizeof randomness);
    gw_stream *stream = make(loop, fd, handshake, &unknown, SHAKING, events, err);
    if (stream != NULL) wait_for(stream);
    return stream;
}

gw_stream *gw_stream_ask(gw_loop *loop, const gw_local *local, const gw_addr *to,
                         const gw_stream_events *events, gw_err *err) {
    gw_stream *stream = gw_stream_dial(loop, local, to, GW_STREAM_CONTROL, 0, events, err);
    if (stream != NULL) stream->asks = true;
    return stream;
}

bool gw_stream_connected(const gw_stream *stream) {
    return stream->connected;
}

gw_stream *gw_stream_answer(gw_loop *loop, const gw_local *local, int fd, const gw_addr *from,
                            const gw_stream_events *events, gw_err *err) {
    uint8_t randomness[32];
    randombytes_buf(randomness, sizeof randomness);
    gw_handshake *handshake = gw_handshake_answer(local, randomness, err);
    sodium_memzero(randomness, sizeof randomness);
    return make(loop, fd, handshake, from, SHAKING, events, err);
}

void gw_stream_look(gw_stream *stream) {
    on_ready(stream, EPOLLIN);
}

bool gw_stream_proved(const gw_stream *stream) {
    return stream->handshake != NULL && gw_handshake_proved(stream->handshake);
}

void gw_stream_set_events(gw_stream *stream, const gw_stream_events *events) {
    GW_ASSERT(events->message != NULL && events->closed != NULL);
    stream->events = *events;
}

const gw_remote *gw_stream_remote(const gw_stream *stream) {
    return stream->stage == READY ? &stream->remote : NULL;
}

bool gw_stream_detach(gw_stream *stream, gw_detached *out, gw_err *err) {
    GW_ASSERT(stream->stage == READY && gw_stream_queued(stream) == 0 && stream->message_bytes == 0);
    uint8_t *ahead = NULL;
    if (stream->in_count > 0) {
        ahead = malloc(stream->in_count);
        if (ahead == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to detach a stream");
        memcpy(ahead, stream->in + stream->in_start, stream->in_count);
    }
    *out = (gw_detached){
        .remote = stream->remote, .fd = stream->fd, .ahead = ahead, .ahead_bytes = stream->in_count};
    gw_cipher_move(&out->seal, &stream->seal);
    gw_cipher_move(&out->open, &stream->open);
    stop(stream, false);
    release(stream);
    return true;
}

void gw_detached_close(gw_detached *detached) {
    if (detached->fd >= 0) close(detached->fd);
    free(detached->ahead);
    gw_cipher_wipe(&detached->seal);
    gw_cipher_wipe(&detached->open);
    *detached = (gw_detached){.fd = -1};
}

gw_stream *gw_stream_attach(gw_loop *loop, gw_detached *detached, const gw_stream_events *events,
                            gw_err *err) {
    GW_ASSERT(events->message != NULL && events->closed != NULL);
    gw_stream *stream = detached->ahead_bytes == 0 ? calloc(1, sizeof *stream) : NULL;
    if (stream == NULL) {
        if (detached->ahead_bytes > 0)
            gw_fail(err, GW_E_PEER, "the other side has sent before it was its turn");
        else
            gw_fail(err, GW_E_NOMEM, "no memory for a stream");
        gw_detached_close(detached);
        return NULL;
    }
    stream->loop = loop;
    stream->fd = detached->fd;
    stream->stage = READY;
    stream->connected = true;
    gw_cipher_move(&stream->seal, &detached->seal);
    gw_cipher_move(&stream->open, &detached->open);
    stream->remote = detached->remote;
    stream->other = detached->remote.from;
    stream->events = *events;
    if (gw_watch_add(loop, &stream->watch, stream->fd, EPOLLIN, on_ready, stream, err)) return stream;
    gw_stream_close(stream);
    return NULL;
}
