#include "net/link/udp.h"

#include "core/base/assert.h"
#include "net/loop/address.h"
#include "net/secure/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 32, SLOT_BYTES = GW_DATAGRAM_BYTES + 1, BUFFER_BYTES = 4 << 20 };

struct gw_udp {
    gw_watch watch;
    int fd, family;
    gw_udp_received *received;
    void *context;
    bool delivering, closed; /* closed: by the callback, after which the object is freed */
    struct mmsghdr messages[BATCH];
    struct iovec slots[BATCH];
    struct sockaddr_storage senders[BATCH];
    uint8_t bytes[BATCH][SLOT_BYTES];
};

static int receive_batch(gw_udp *udp) {
    for (int i = 0; i < BATCH; i++) {
        udp->slots[i] = (struct iovec){.iov_base = udp->bytes[i], .iov_len = SLOT_BYTES};
        udp->messages[i].msg_hdr = (struct msghdr){.msg_name = &udp->senders[i],
                                                   .msg_namelen = sizeof udp->senders[i],
                                                   .msg_iov = &udp->slots[i],
                                                   .msg_iovlen = 1};
    }
    return recvmmsg(udp->fd, udp->messages, BATCH, MSG_DONTWAIT, NULL);
}

/* Receives one batch per turn, so that a flood does not starve the loop's other work. Errors are ignored
 * (ECONNREFUSED reports that an earlier datagram was not deliverable): gossip detects dead peers by their
 * silence. */
static void ready(void *context, uint32_t events) {
    (void)events;
    gw_udp *udp = context;
    int count = receive_batch(udp);
    udp->delivering = true;
    for (int i = 0; i < count && !udp->closed; i++) {
        gw_addr from = gw_address_from_sockaddr((const struct sockaddr *)&udp->senders[i]);
        udp->received(udp->context, &from, udp->bytes[i], udp->messages[i].msg_len);
    }
    udp->delivering = false;
    if (udp->closed) free(udp);
}

/* Discards datagrams that arrived before the socket was served: they may be minutes old, and their senders
 * dead. The number is bounded because more may arrive meanwhile. */
static void forget_early(int fd) {
    enum { MOST = 1 << 16 };
    char byte;
    for (int i = 0; i < MOST; i++)
        if (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno != ECONNREFUSED) return;
}

gw_udp *gw_udp_open(gw_loop *loop, int fd, gw_udp_received *received, void *context, gw_err *err) {
    GW_ASSERT(received != NULL);
    gw_udp *udp = calloc(1, sizeof *udp);
    struct sockaddr_storage bound = {0};
    socklen_t bound_bytes = sizeof bound;
    int buffer = BUFFER_BYTES; /* bursts of gossip; the kernel may grant less */
    if (udp == NULL)
        gw_fail(err, GW_E_NOMEM, "no memory for a datagram socket");
    else if (getsockname(fd, (struct sockaddr *)&bound, &bound_bytes) != 0)
        gw_fail_errno(err, errno, "cannot ask for a socket's address");
    else {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        udp->fd = fd;
        udp->family = bound.ss_family;
        udp->received = received;
        udp->context = context;
        forget_early(fd);
        if (gw_watch_add(loop, &udp->watch, fd, EPOLLIN, ready, udp, err)) return udp;
    }
    free(udp);
    close(fd);
    return NULL;
}

void gw_udp_send(gw_udp *udp, const gw_addr *to, const uint8_t *bytes, size_t count) {
    GW_ASSERT(count <= GW_DATAGRAM_BYTES && !udp->closed);
    struct sockaddr_storage address;
    socklen_t length = gw_address_for_socket(to, udp->family, &address);
    if (length == 0) return;
    ssize_t sent;
    do sent = sendto(udp->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    while (sent < 0 && errno == EINTR);
}

void gw_udp_close(gw_udp *udp) {
    if (udp == NULL) return;
    gw_watch_remove(&udp->watch);
    close(udp->fd);
    udp->closed = true;
    if (!udp->delivering) free(udp);
}
