#include "net/shm/door.h"

#include "core/base/assert.h"
#include "net/loop/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static socklen_t address_of(const char name[GW_DOOR_NAME], struct sockaddr_un *at) {
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(at->sun_path + 1, name,
           GW_DOOR_NAME); /* a first byte of 0 means the abstract name space, where no file is made */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + GW_DOOR_NAME);
}

static int make_socket(gw_err *err) {
    int fd = gw_reserve_spare(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0) gw_fail_errno(err, errno, "net/shm: socket");
    return fd;
}

int gw_door_open(char name[GW_DOOR_NAME], gw_err *err) {
    uint8_t random[(GW_DOOR_NAME - 8) / 2];
    char text[GW_DOOR_NAME + 1] = "godwit-";
    randombytes_buf(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) snprintf(text + 7 + 2 * i, 3, "%02x", random[i]);
    text[GW_DOOR_NAME - 1] = '.';
    memcpy(name, text, GW_DOOR_NAME);
    int fd = make_socket(err);
    struct sockaddr_un at;
    socklen_t length = address_of(name, &at);
    if (fd < 0) return -1;
    if (bind(fd, (const struct sockaddr *)&at, length) == 0 && listen(fd, BACKLOG) == 0) return fd;
    gw_fail_errno(err, errno, "net/shm: listen");
    close(fd);
    return -1;
}

int gw_door_connect(const char name[GW_DOOR_NAME], gw_err *err) {
    struct sockaddr_un at;
    socklen_t length = address_of(name, &at);
    int fd = make_socket(err);
    if (fd < 0) return -1;
    if (connect(fd, (const struct sockaddr *)&at, length) == 0) return fd;
    gw_fail_errno(err, errno, "net/shm: connect");
    close(fd);
    return -1;
}

int gw_door_accept(int door, gw_err *err) {
    int fd = gw_reserve_spare(accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    err->code = GW_OK;
    if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        gw_fail_errno(err, errno, "net/shm: accept");
    return fd;
}

bool gw_door_is_ours(int fd, gw_err *err) {
    struct ucred who;
    socklen_t length = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        return gw_fail_errno(err, errno, "net/shm: SO_PEERCRED");
    return who.uid == geteuid() ||
           gw_fail(err, GW_E_DENIED, "net/shm: the other process is of user %u, not %u", (unsigned)who.uid,
                   (unsigned)geteuid());
}

bool gw_door_send(int fd, const gw_door_packet *packet, gw_err *err) {
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(GW_DOOR_FDS * sizeof(int))] = {0};
    struct iovec part = {(uint8_t *)(uintptr_t)packet->bytes, packet->count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    GW_ASSERT(packet->count <= GW_DOOR_BYTES && packet->fd_count <= GW_DOOR_FDS);
    if (packet->fd_count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(packet->fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(packet->fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), packet->fds, packet->fd_count * sizeof(int));
    }
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    return sent == (ssize_t)packet->count || gw_fail_errno(err, errno, "net/shm: send");
}

static void take_fds(struct msghdr *message, gw_door_packet *packet) {
    for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h != NULL; h = CMSG_NXTHDR(message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
        packet->fd_count = (uint32_t)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        GW_ASSERT(packet->fd_count <= GW_DOOR_FDS); /* the kernel had no room for more */
        memcpy(packet->fds, CMSG_DATA(h), packet->fd_count * sizeof(int));
    }
}

static bool takes_reserve(const gw_door_packet *packet) {
    bool takes = false;
    for (uint32_t i = 0; i < packet->fd_count; i++) takes |= gw_reserve_holds(packet->fds[i]);
    return takes;
}

int gw_door_receive(int fd, gw_door_packet *packet, gw_err *err) {
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(GW_DOOR_FDS * sizeof(int))];
    struct iovec part = {packet->bytes, GW_DOOR_BYTES};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    packet->count = packet->fd_count = 0;
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    int failed = got < 0 ? errno : 0;
    if (failed == EAGAIN || failed == EINTR) return 0;
    if (got == 0 || failed == ECONNRESET)
        gw_fail(err, GW_E_PEER, "net/shm: the other process closed the socket");
    else if (failed != 0)
        gw_fail_errno(err, failed, "net/shm: receive");
    if (got <= 0) return -1;
    packet->count = (uint32_t)got;
    take_fds(&message, packet);
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && !takes_reserve(packet)) return 1;
    gw_door_drop(packet);
    gw_fail(err, GW_E_INVALID, "net/shm: a packet that is too long, or no descriptors are left");
    return -1;
}

void gw_door_drop(gw_door_packet *packet) {
    for (uint32_t i = 0; i < packet->fd_count; i++) close(packet->fds[i]);
    packet->fd_count = 0;
}

bool gw_door_holds(int fd, uint64_t bytes) {
    struct stat what;
    int seals = fcntl(fd, F_GET_SEALS); /* -1: the file cannot have seals */
    return fstat(fd, &what) == 0 && (uint64_t)what.st_size == bytes && seals >= 0 &&
           (seals & F_SEAL_SHRINK) != 0;
}
