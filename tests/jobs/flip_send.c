/* Preloaded into a peer: a bit of a sum flips, once, when a large message is sent; what is large belongs to
 * sums. FLIP_SEND="WHERE N": "wire": on its way, in the N-th of them or a later one; "own" or "received": in
 * the very memory that it is sent from, in the N-th of those from what the peer has added up itself, or from
 * what it has received of others. "WHERE N again": not once, but in every one from then on. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { LARGE = 4096, MOST_TAKEN = 256 };

/* Memory in the order in which it was taken. The two buffers of sums are of one length, and the peer's own is
 * the earlier one. */
static struct {
    const char *at;
    size_t bytes;
} taken[MOST_TAKEN];
static atomic_size_t taken_count;

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    void *(*real)(void *, size_t, int, int, int, off_t) =
        (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    void *result = real(at, bytes, protection, flags, fd, offset);
    size_t i =
        (flags & MAP_ANONYMOUS) != 0 && result != MAP_FAILED ? atomic_fetch_add(&taken_count, 1) : MOST_TAKEN;
    if (i >= MOST_TAKEN) return result;
    taken[i].at = result;
    taken[i].bytes = bytes;
    return result;
}

static bool is_taken_again(size_t i, size_t from, size_t to) {
    while (from < to && taken[from].bytes != taken[i].bytes) from++;
    return from < to;
}

static const char *where(const char *at) {
    size_t count = atomic_load(&taken_count);
    if (count > MOST_TAKEN) count = MOST_TAKEN;
    size_t i = count; /* the latest: what was there before has been given back */
    while (i > 0 && (at < taken[i - 1].at || at >= taken[i - 1].at + taken[i - 1].bytes)) i--;
    if (i == 0) return "elsewhere";
    if (is_taken_again(i - 1, i, count)) return "own";
    return is_taken_again(i - 1, 0, i - 1) ? "received" : "elsewhere";
}

static atomic_bool flipped;

static bool is_the_one(const char *bytes, size_t count, bool *on_wire) {
    static atomic_long seen;
    const char *wanted = getenv("FLIP_SEND");
    char place[16], again[16] = "";
    long which;
    if (wanted == NULL || count < LARGE || sscanf(wanted, "%15s %ld %15s", place, &which, again) < 2)
        return false;
    *on_wire = strcmp(place, "wire") == 0;
    if (!*on_wire && strcmp(place, where(bytes)) != 0) return false;
    bool once = strcmp(again, "again") != 0;
    return atomic_fetch_add(&seen, 1) + 1 >= which && !(once && atomic_load(&flipped));
}

/* With one bit changed in the middle. It may be that not so much of it is sent now. */
static ssize_t send_flipped(ssize_t (*real)(int, const struct msghdr *, int), int fd,
                            const struct msghdr *message, size_t largest, int flags) {
    struct iovec parts[1024];
    struct msghdr changed = *message;
    size_t before = 0, middle = message->msg_iov[largest].iov_len / 2;
    memcpy(parts, message->msg_iov, message->msg_iovlen * sizeof parts[0]);
    for (size_t i = 0; i < largest; i++) before += parts[i].iov_len;
    unsigned char *copy = malloc(parts[largest].iov_len);
    if (copy == NULL) abort();
    memcpy(copy, parts[largest].iov_base, parts[largest].iov_len);
    copy[middle] ^= 4;
    parts[largest].iov_base = copy;
    changed.msg_iov = parts;
    ssize_t sent = real(fd, &changed, flags);
    free(copy);
    if (sent > (ssize_t)(before + middle)) atomic_store(&flipped, true);
    return sent;
}

static ssize_t send_all(int fd, const struct msghdr *message, int flags) {
    ssize_t (*real)(int, const struct msghdr *, int) =
        (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    size_t largest = 0;
    bool on_wire;
    if (message->msg_iovlen == 0 || message->msg_iovlen > 1024) return real(fd, message, flags);
    for (size_t i = 1; i < message->msg_iovlen; i++)
        if (message->msg_iov[i].iov_len > message->msg_iov[largest].iov_len) largest = i;
    char *bytes = message->msg_iov[largest].iov_base;
    size_t count = message->msg_iov[largest].iov_len;
    if (!is_the_one(bytes, count, &on_wire)) return real(fd, message, flags);
    if (on_wire) return send_flipped(real, fd, message, largest, flags);
    atomic_store(&flipped, true);
    bytes[count / 2] ^= 4;
    return real(fd, message, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    return send_all(fd, message, flags);
}

/* What is encrypted goes this way. */
ssize_t send(int fd, const void *bytes, size_t count, int flags) {
    struct iovec part = {(void *)(size_t)bytes, count};
    return send_all(fd, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, flags);
}
