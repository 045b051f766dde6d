/* The send queue of a stream: sealed records that the kernel has not taken yet. Thread: its stream's. */
#ifndef GODWIT_NET_LINK_SEND_QUEUE_H
#define GODWIT_NET_LINK_SEND_QUEUE_H

#include "core/base/err.h"
#include "net/secure/record.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct gw_send_block gw_send_block;

/* The queue. All zeros is the initial state. */
typedef struct gw_send_queue {
    gw_send_block *first, *last;
    size_t bytes;
} gw_send_queue;

/* Seals one message, cut into records, and queues it. Fails with GW_E_LIMIT if more than `most` bytes would
 * wait, and with GW_E_NOMEM; then nothing is sealed. */
bool gw_send_queue_push(gw_send_queue *queue, gw_cipher *seal, const void *message, size_t count, size_t most,
                        gw_err *err);
/* Writes to the socket. Returns 0 when everything is written, EAGAIN when the socket takes no more, or the
 * errno of a failure. */
int gw_send_queue_flush(gw_send_queue *queue, int fd);
size_t gw_send_queue_bytes(const gw_send_queue *queue);
void gw_send_queue_clear(gw_send_queue *queue);

#endif
