/* One reliable-connected (RC) queue pair with a completion queue of its own.
 *
 * Any amount of work may be posted: what does not fit the device's queue waits here, and what is longer than
 * a message of the device is split. Every piece of work ends with exactly one `done`, in the order of
 * posting. Receives (without memory: they carry immediates only) are always posted.
 *
 * A queue pair breaks as a whole. The first bad completion says why (gw_rdma_queue_trouble); work posted
 * behind it is flushed. If the other side has refused the work, because its key is of another fence, neither
 * that work nor any behind it has happened. After any other break that is unknown.
 *
 * Thread: one at a time. The calls that make and connect a queue pair come before all others. */
#ifndef GODWIT_NET_RDMA_QUEUE_H
#define GODWIT_NET_RDMA_QUEUE_H

#include "net/rdma/memory.h"

#include <errno.h>
#include <sys/epoll.h>

typedef struct gw_rdma_queue gw_rdma_queue;

typedef enum gw_rdma_verb {
    GW_RDMA_WRITE = 1,
    GW_RDMA_WRITE_IMMEDIATE, /* with the immediate; at most one message of the device long */
    GW_RDMA_READ,
    GW_RDMA_CAS,       /* the 8 bytes at `local` become the word found; also for FETCH_ADD */
    GW_RDMA_FETCH_ADD, /* adds `operand` to the word */
} gw_rdma_verb;

/* A piece of work. It belongs to the caller and must live until `done`. */
typedef struct gw_rdma_work {
    gw_rdma_verb verb;
    /* It need not complete soon: `done` comes with that of later work, or when much has gathered. */
    bool unsignalled;
    uint32_t immediate;
    uint8_t *local; /* WRITEs of at most gw_rdma_queue_inline bytes need no lkey */
    uint32_t lkey, rkey;
    uint64_t bytes, remote;
    uint64_t expected, operand;
    struct gw_rdma_work *next; /* used by the queue */
    uint64_t posted_bytes;     /* used by the queue */
} gw_rdma_work;

typedef enum gw_rdma_outcome {
    GW_RDMA_DONE = 1,
    GW_RDMA_REFUSED, /* the other side has refused it: nothing has happened */
    GW_RDMA_BROKEN,  /* it may or may not have happened */
} gw_rdma_outcome;

typedef struct gw_rdma_handlers {
    void *context;
    void (*done)(void *context, gw_rdma_work *work, gw_rdma_outcome outcome);
    /* A WRITE with immediate of `bytes` bytes has arrived. NULL if the queue pair has a receive_depth of
     * 0. */
    void (*received)(void *context, uint32_t immediate, uint32_t bytes);
} gw_rdma_handlers;

typedef struct gw_rdma_queue_options {
    uint32_t send_depth;    /* most work requests at the device */
    uint32_t receive_depth; /* most immediates that may arrive between two polls */
    uint32_t inline_bytes;  /* bytes that a request can carry; the device may grant less */
    bool lends;             /* the other side may READ by it and do nothing else */
} gw_rdma_queue_options;

/* Opens an unconnected queue pair. Holds `memory`. NULL on failure. */
gw_rdma_queue *gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options, gw_err *err);
/* Destroys the queue pair: when this returns, nothing that was sent to it can take effect here any more.
 * Unfinished work is forgotten, without a `done`. NULL is allowed. */
void gw_rdma_queue_close(gw_rdma_queue *queue);

/* Connects the queue pair (from reset to ready to send) with the one that the connection manager's id names.
 * The receives are posted before the other side can send. */
bool gw_rdma_queue_connect(gw_rdma_queue *queue, struct rdma_cm_id *id, gw_err *err);
/* Connects the queue pair with itself, which makes a loopback through the device. */
bool gw_rdma_queue_connect_self(gw_rdma_queue *queue, gw_err *err);
uint32_t gw_rdma_queue_number(const gw_rdma_queue *queue);
/* The queue pair itself, for measurements of what this layer adds to it. */
struct ibv_qp *gw_rdma_queue_pair(const gw_rdma_queue *queue);
uint32_t gw_rdma_queue_inline(const gw_rdma_queue *queue);

/* Posts work. After a break work is still accepted, and ends with GW_RDMA_BROKEN at the next poll. */
void gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work);
/* Handles completions and posts waiting work; returns the number of completions. */
uint32_t gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers);
/* Makes the next completion make the descriptor readable, once. Poll after this call and before sleeping,
 * since earlier completions make no event. False if it cannot be done: the caller must not sleep. */
bool gw_rdma_queue_arm(gw_rdma_queue *queue);
int gw_rdma_queue_fd(const gw_rdma_queue *queue);
/* Whether work was posted that is not done. */
bool gw_rdma_queue_is_busy(const gw_rdma_queue *queue);
/* Why the queue pair has broken; NULL while it is good. GW_E_TIMEOUT: nobody answers; GW_E_IO: this side's
 * device has failed; GW_E_PEER: the other side has refused work (*refused, which may be NULL) or has ended
 * the connection. */
const gw_err *gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused);
/* Takes the other side's rights away: from now on every READ, WRITE and atomic that comes by this queue pair
 * is refused, whatever its key. For connected queue pairs that nobody posts to or polls. False if the device
 * cannot do it. Any thread. */
bool gw_rdma_queue_bar(gw_rdma_queue *queue, gw_err *err);
/* Moves the queue pair to its error state: all work completes as broken, with this reason. */
void gw_rdma_queue_break(gw_rdma_queue *queue, const gw_err *why);

/* Opens a queue pair whose completions `epoll_fd` reports, edge-triggered. NULL on failure. */
static inline gw_rdma_queue *gw_rdma_queue_open_watched(gw_rdma_memory *memory,
                                                        const gw_rdma_queue_options *options, int epoll_fd,
                                                        gw_err *err) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    gw_rdma_queue *queue = gw_rdma_queue_open(memory, options, err);
    if (queue == NULL || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, gw_rdma_queue_fd(queue), &event) == 0)
        return queue;
    gw_fail_errno(err, errno, "net/rdma: epoll_ctl");
    gw_rdma_queue_close(queue);
    return NULL;
}

/* As gw_rdma_queue_poll; after a break it polls on until the rest of the work has come, which the device
 * flushes at once, so that it is reported with the break. */
static inline uint32_t gw_rdma_queue_poll_flushed(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    enum { FLUSH_POLLS = 100000 };
    uint32_t count = gw_rdma_queue_poll(queue, handlers);
    for (uint32_t polls = 0;
         polls < FLUSH_POLLS && gw_rdma_queue_trouble(queue, NULL) != NULL && gw_rdma_queue_is_busy(queue);
         polls++)
        gw_rdma_queue_poll(queue, handlers);
    return count;
}

#endif
