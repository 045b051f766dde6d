/* Preloaded into a peer: a bit of a sum flips on its way. Once, in the FLIP_SEND-th large message that this
 * process sends; what is large belongs to sums. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LARGE = 4096 };

static bool is_the_one(size_t bytes) {
    static atomic_long seen;
    const char *which = getenv("FLIP_SEND");
    return which != NULL && bytes >= LARGE && atomic_fetch_add(&seen, 1) + 1 == atol(which);
}

/* The message with one bit changed in the middle of its largest part. */
static ssize_t send_flipped(ssize_t (*real)(int, const struct msghdr *, int), int fd,
                            const struct msghdr *message, int flags) {
    struct iovec parts[1024];
    struct msghdr changed = *message;
    size_t largest = 0;
    if (message->msg_iovlen > 1024) return real(fd, message, flags);
    memcpy(parts, message->msg_iov, message->msg_iovlen * sizeof parts[0]);
    for (size_t i = 1; i < message->msg_iovlen; i++)
        if (parts[i].iov_len > parts[largest].iov_len) largest = i;
    unsigned char *copy = malloc(parts[largest].iov_len);
    if (copy == NULL) abort();
    memcpy(copy, parts[largest].iov_base, parts[largest].iov_len);
    copy[parts[largest].iov_len / 2] ^= 4;
    parts[largest].iov_base = copy;
    changed.msg_iov = parts;
    ssize_t sent = real(fd, &changed, flags);
    free(copy);
    return sent;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    ssize_t (*real)(int, const struct msghdr *, int) =
        (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    size_t bytes = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) bytes += message->msg_iov[i].iov_len;
    return is_the_one(bytes) ? send_flipped(real, fd, message, flags) : real(fd, message, flags);
}
