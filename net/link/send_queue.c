#include "net/link/send_queue.h"

#include "core/base/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { VECTORS = 16 };

struct gw_send_block {
    gw_send_block *next;
    size_t count, sent;
    uint8_t bytes[];
};

size_t gw_send_queue_bytes(const gw_send_queue *queue) {
    return queue->bytes;
}

/* The bytes of a sealed message. A message of no bytes is one empty record. */
static size_t sealed_bytes(const gw_cipher *seal, size_t count) {
    size_t most = seal->payload_most, records = count == 0 ? 1 : (count + most - 1) / most;
    return count + records * gw_record_bytes(seal, 0);
}

bool gw_send_queue_push(gw_send_queue *queue, gw_cipher *seal, const void *message, size_t count, size_t most,
                        gw_err *err) {
    size_t total = sealed_bytes(seal, count), at = 0;
    if (total > most || queue->bytes > most - total)
        return gw_fail(err, GW_E_LIMIT, "%zu bytes wait unsent already, and %zu more would be over %zu",
                       queue->bytes, total, most);
    gw_send_block *block = malloc(sizeof *block + total);
    if (block == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a message of %zu bytes", count);
    const uint8_t *from = message;
    do {
        size_t payload = count < seal->payload_most ? count : seal->payload_most;
        count -= payload;
        if (!gw_record_seal(seal, from, payload, count > 0, block->bytes + at, err)) {
            free(block);
            return false;
        }
        from += payload;
        at += gw_record_bytes(seal, payload);
    } while (count > 0);
    GW_ASSERT(at == total);
    block->next = NULL;
    block->count = total;
    block->sent = 0;
    if (queue->last == NULL)
        queue->first = block;
    else
        queue->last->next = block;
    queue->last = block;
    queue->bytes += total;
    return true;
}

static void drop_first(gw_send_queue *queue) {
    gw_send_block *first = queue->first;
    queue->first = first->next;
    if (queue->first == NULL) queue->last = NULL;
    free(first);
}

static void taken(gw_send_queue *queue, size_t count) {
    GW_ASSERT(count <= queue->bytes);
    queue->bytes -= count;
    while (count > 0) {
        gw_send_block *first = queue->first;
        size_t left = first->count - first->sent, part = left < count ? left : count;
        first->sent += part;
        count -= part;
        if (first->sent == first->count) drop_first(queue);
    }
}

int gw_send_queue_flush(gw_send_queue *queue, int fd) {
    while (queue->first != NULL) {
        struct iovec vectors[VECTORS];
        struct msghdr message = {.msg_iov = vectors};
        for (gw_send_block *at = queue->first; at != NULL && message.msg_iovlen < VECTORS; at = at->next)
            vectors[message.msg_iovlen++] =
                (struct iovec){.iov_base = at->bytes + at->sent, .iov_len = at->count - at->sent};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EWOULDBLOCK ? EAGAIN : errno;
        taken(queue, (size_t)sent);
    }
    return 0;
}

void gw_send_queue_clear(gw_send_queue *queue) {
    while (queue->first != NULL) drop_first(queue);
    queue->bytes = 0;
}
