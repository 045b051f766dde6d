#include "net/link/listener.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/loop/address.h"
#include "net/loop/reserve.h"
#include "net/loop/warning_rate.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, ACCEPTS_A_TURN = 16, PORT_TRIES = 64 };
static const uint64_t pause_ns = 100000000; /* the pause after descriptors have run out */

typedef struct half_open half_open;
struct half_open {
    half_open *newer, *older;
    gw_listener *listener;
    gw_stream *stream;
    gw_addr from;
};

struct gw_listener {
    gw_loop *loop;
    gw_watch watch;
    gw_timer pause;
    const gw_local *local;
    gw_listener_events events;
    int fd;
    half_open ring; /* ring.newer is the oldest, ring.older the newest */
    size_t half_open_count;
    gw_rate_limit warnings;
};

/* Binding. */

/* Fills in the error of a failed bind or listen, whose errno is `why`. */
static bool refused(const gw_addr *addr, const char *protocol, int why, gw_err *err) {
    char text[GW_ADDR_TEXT];
    gw_addr_text(addr, text);
    const char *next = why == EACCES ? ": ports below 1024 are root's, choose a higher one"
                       : why == EADDRNOTAVAIL
                           ? ": no interface of this host has that address (`ip address` lists "
                             "them). Leave --listen out or give [::]:PORT, to listen on all"
                           : "";
    if (why != EADDRINUSE) return gw_fail_errno(err, why, "cannot listen on %s (%s)%s", text, protocol, next);
    return gw_fail(
        err, GW_E_IO,
        "%s port of %s is in use: another process listens there. Stop it, or choose another --listen "
        "HOST:PORT (port 0 picks a free one)",
        protocol, text);
}

static int make_socket(const gw_addr *addr, int type, gw_err *err) {
    struct sockaddr_storage address;
    socklen_t bytes = gw_address_to_sockaddr(addr, &address);
    const char *protocol = type == SOCK_STREAM ? "TCP" : "UDP";
    int on = 1, off = 0, fd = socket(address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        gw_fail_errno(err, errno, "cannot make a %s socket", protocol);
        return -1;
    }
    if (type == SOCK_STREAM) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a port in TIME_WAIT is free */
        gw_stream_tune(fd);
    }
    if (address.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&address, bytes) == 0) return fd;
    int why = errno;
    close(fd);
    refused(addr, protocol, why, err);
    errno = why;
    return -1;
}

bool gw_endpoint_bind(const gw_addr *wanted, int *tcp_fd, int *udp_fd, gw_addr *bound, gw_err *err) {
    for (int tries = wanted->port == 0 ? PORT_TRIES : 1; tries > 0; tries--) {
        int tcp = make_socket(wanted, SOCK_STREAM, err);
        if (tcp < 0) return false;
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        if (getsockname(tcp, (struct sockaddr *)&address, &bytes) != 0) {
            gw_fail_errno(err, errno, "cannot ask for a socket's address");
            close(tcp);
            return false;
        }
        *bound = gw_address_from_sockaddr((struct sockaddr *)&address);
        int udp = make_socket(bound, SOCK_DGRAM, err), why = errno;
        if (udp >= 0) {
            *tcp_fd = tcp;
            *udp_fd = udp;
            return true;
        }
        close(tcp);
        if (why != EADDRINUSE) return false;
    }
    return false;
}

/* Half-open connections. */

static void forget(half_open *half) {
    half->newer->older = half->older;
    half->older->newer = half->newer;
    half->listener->half_open_count--;
    free(half);
}

static void failed(gw_listener *listener, const gw_addr *from, gw_closed why, gw_fault fault,
                   const char *text) {
    uint64_t count;
    char address[GW_ADDR_TEXT];
    /* A dialler that breaks off is normal: two peers that dial each other at once keep one connection. */
    bool known = from->family != 0; /* unknown if accepting failed */
    bool strange = why != GW_CLOSED_END && why != GW_CLOSED_RESET && fault != GW_FAULT_SELF;
    if (strange && gw_rate_limit_admits(&listener->warnings, gw_now_ns(), &count))
        gw_log(GW_WARN, "net/link", "%" PRIu64 " connection%s turned away%s%s: %s", count,
               count == 1 ? "" : "s", known ? ", last from " : "", known ? gw_addr_text(from, address) : "",
               text);
    if (listener->events.failed != NULL)
        listener->events.failed(listener->events.context, from, why, fault, text);
}

static void half_ready(void *context, gw_stream *stream, const gw_remote *remote) {
    half_open *half = context;
    gw_listener *listener = half->listener;
    forget(half);
    listener->events.accepted(listener->events.context, stream, remote);
}

static void half_message(void *context, gw_stream *stream, const uint8_t *bytes, size_t count) {
    (void)context, (void)stream, (void)bytes, (void)count;
    GW_ASSERT(false && "an accepted stream was not taken");
}

static void half_closed(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text) {
    (void)stream;
    half_open *half = context;
    gw_listener *listener = half->listener;
    gw_addr from = half->from;
    forget(half);
    failed(listener, &from, why, fault, text);
}

/* Whether two addresses count as one source. IPv6 addresses do if their upper 64 bits are equal, because the
 * holder of one such address has the whole subnet. */
static bool is_same_source(const gw_addr *a, const gw_addr *b) {
    return a->family == b->family && memcmp(a->ip, b->ip, a->family == 4 ? 4 : 8) == 0;
}

/* The source with the most handshakes in progress, if they are more than GW_HALF_OPEN_SHARE; else NULL. */
static const gw_addr *greedy_source(const gw_listener *listener) {
    struct {
        const gw_addr *from;
        uint32_t count;
    } sources[GW_HALF_OPEN] = {0};
    uint32_t count = 0, most = 0;
    for (const half_open *half = listener->ring.newer; half != &listener->ring; half = half->newer) {
        uint32_t i = 0;
        while (i < count && !is_same_source(sources[i].from, &half->from)) i++;
        if (i == count) {
            sources[count].from = &half->from;
            sources[count++].count = 0;
        }
        if (++sources[i].count > sources[most].count) most = i;
    }
    return sources[most].count > GW_HALF_OPEN_SHARE ? sources[most].from : NULL;
}

static half_open *least_welcome(const gw_listener *listener) {
    const gw_addr *greedy = greedy_source(listener);
    half_open *oldest = NULL;
    for (half_open *half = listener->ring.newer; half != &listener->ring; half = half->newer) {
        if (greedy != NULL && !is_same_source(greedy, &half->from)) continue;
        if (!gw_stream_proved(half->stream)) return half;
        if (oldest == NULL) oldest = half;
    }
    GW_ASSERT(oldest != NULL);
    return oldest;
}

static void make_room(gw_listener *listener) {
    half_open *half = least_welcome(listener);
    gw_addr from = half->from;
    gw_stream_close(half->stream);
    forget(half);
    failed(listener, &from, GW_CLOSED_LOCAL, GW_FAULT_NONE,
           "too many connections at once without a handshake");
}

static void take(gw_listener *listener, int fd, const gw_addr *from) {
    gw_err err;
    if (listener->half_open_count == GW_HALF_OPEN) make_room(listener);
    half_open *half = calloc(1, sizeof *half);
    if (half == NULL) {
        close(fd);
        failed(listener, from, GW_CLOSED_LOCAL, GW_FAULT_NONE, "out of memory");
        return;
    }
    gw_stream_events events = {
        .context = half, .ready = half_ready, .message = half_message, .closed = half_closed};
    half->stream = gw_stream_answer(listener->loop, listener->local, fd, from, &events, &err);
    if (half->stream == NULL) {
        free(half);
        failed(listener, from, GW_CLOSED_LOCAL, GW_FAULT_NONE, err.text);
        return;
    }
    half->listener = listener;
    half->from = *from;
    half->newer = &listener->ring;
    half->older = listener->ring.older;
    half->older->newer = half;
    listener->ring.older = half;
    listener->half_open_count++;
    gw_stream_look(half->stream); /* a hello that has arrived already counts, however many connections wait */
}

/* Accepting. */

static void after_pause(void *context) {
    gw_listener *listener = context;
    gw_watch_change(&listener->watch, EPOLLIN);
}

bool gw_accept_lacks_resources(int why) {
    return why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS;
}

static void pause_accepting(gw_listener *listener, int why) {
    gw_err err;
    gw_addr nobody = {0};
    gw_fail_errno(&err, why, "cannot accept connections");
    failed(listener, &nobody, GW_CLOSED_LOCAL, GW_FAULT_NONE, err.text);
    if (gw_timer_set(listener->loop, &listener->pause, gw_now_ns() + pause_ns, after_pause, listener, &err))
        gw_watch_change(&listener->watch, 0);
}

static void on_ready(void *context, uint32_t events) {
    (void)events;
    gw_listener *listener = context;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage address = {0};
        socklen_t bytes = sizeof address;
        int fd = gw_reserve_spare(
            accept4(listener->fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0) {
            if (gw_accept_lacks_resources(errno)) pause_accepting(listener, errno);
            return; /* EAGAIN: there are no more; other errors belong to a connection that is gone already */
        }
        gw_addr from = gw_address_from_sockaddr((struct sockaddr *)&address);
        take(listener, fd, &from);
    }
}

static bool begin_listening(int fd, gw_err *err) {
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    if (listen(fd, BACKLOG) == 0) return true;
    int why = errno;
    getsockname(fd, (struct sockaddr *)&address, &bytes);
    gw_addr addr = gw_address_from_sockaddr((struct sockaddr *)&address);
    return refused(&addr, "TCP", why, err);
}

gw_listener *gw_listener_open(gw_loop *loop, const gw_local *local, int tcp_fd,
                              const gw_listener_events *events, gw_err *err) {
    GW_ASSERT(events->accepted != NULL);
    gw_listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for a listener");
        close(tcp_fd);
        return NULL;
    }
    listener->loop = loop;
    listener->local = local;
    listener->events = *events;
    listener->fd = tcp_fd;
    listener->ring.newer = listener->ring.older = &listener->ring;
    if (begin_listening(tcp_fd, err) &&
        gw_watch_add(loop, &listener->watch, tcp_fd, EPOLLIN, on_ready, listener, err))
        return listener;
    close(tcp_fd);
    free(listener);
    return NULL;
}

size_t gw_listener_half_open(const gw_listener *listener) {
    return listener->half_open_count;
}

void gw_listener_close(gw_listener *listener) {
    if (listener == NULL) return;
    while (listener->ring.newer != &listener->ring) {
        gw_stream_close(listener->ring.newer->stream);
        forget(listener->ring.newer);
    }
    gw_watch_remove(&listener->watch);
    gw_timer_cancel(&listener->pause);
    close(listener->fd);
    free(listener);
}
