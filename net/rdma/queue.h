/* One reliable-connected queue pair with a completion queue of its own.
 *
 * Work is posted in any amount: what does not fit the device's queue waits here, and what is longer than a
 * message of the device is split. Every piece of work ends with exactly one `done`, in the order posted.
 * Receives (without memory: they carry immediates only) are always posted.
 *
 * A queue pair breaks as a whole. The first completion that is not good says why (gw_rdma_queue_trouble);
 * what was posted behind it is flushed. When the other side refused the work (its keys are of another fence),
 * neither that nor anything behind it has happened; after any other break nobody knows.
 *
 * Thread: one at a time; the calls that make and connect it come before any other. */
#ifndef GODWIT_NET_RDMA_QUEUE_H
#define GODWIT_NET_RDMA_QUEUE_H

#include "net/rdma/memory.h"

typedef struct gw_rdma_queue gw_rdma_queue;

typedef enum gw_rdma_verb {
    GW_RDMA_WRITE = 1,
    GW_RDMA_WRITE_SAYING, /* with the immediate; at most one message of the device */
    GW_RDMA_READ,
    GW_RDMA_CAS,       /* 8 bytes at `local` = the word found; also of FETCH_ADD */
    GW_RDMA_FETCH_ADD, /* adds `operand` */
} gw_rdma_verb;

/* The poster's, and must live until `done`. */
typedef struct gw_rdma_work {
    gw_rdma_verb verb;
    bool
        unsignalled; /* need not complete soon: `done` comes with that of later work, or when much has gathered */
    uint32_t immediate;
    uint8_t *local; /* WRITEs of at most gw_rdma_queue_inline bytes need no lkey */
    uint32_t lkey, rkey;
    uint64_t bytes, remote;
    uint64_t expected, operand;
    struct gw_rdma_work *next; /* the queue's */
    uint64_t posted_bytes;     /* the queue's */
} gw_rdma_work;

typedef enum gw_rdma_outcome {
    GW_RDMA_DONE = 1,
    GW_RDMA_REFUSED, /* by the other side: nothing happened */
    GW_RDMA_BROKEN,  /* it may or may not have happened */
} gw_rdma_outcome;

typedef struct gw_rdma_handlers {
    void *context;
    void (*done)(void *context, gw_rdma_work *work, gw_rdma_outcome outcome);
    /* A WRITE with immediate of `bytes` bytes has come. */
    void (*said)(void *context, uint32_t immediate, uint32_t bytes);
} gw_rdma_handlers;

typedef struct gw_rdma_queue_options {
    uint32_t send_depth;    /* work requests at the device */
    uint32_t receive_depth; /* immediates that may arrive between two polls */
    uint32_t inline_bytes;  /* wished for; the device may grant less */
    bool lends;             /* the other side may READ by it, and nothing else */
} gw_rdma_queue_options;

/* Holds `memory`. NULL on failure. */
gw_rdma_queue *gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options, gw_err *err);
/* Destroys the queue pair: when this returns nothing it was sent can take effect here any more. Work that is
 * not done is forgotten, with no `done`. NULL is allowed. */
void gw_rdma_queue_close(gw_rdma_queue *queue);

/* Reset -> ready to send, to the queue pair that the connection manager's id has been told of. The receives
 * are posted before the other side can send. */
bool gw_rdma_queue_connect(gw_rdma_queue *queue, struct rdma_cm_id *id, gw_err *err);
/* The same, to itself: a loop through the device. */
bool gw_rdma_queue_connect_self(gw_rdma_queue *queue, gw_err *err);
uint32_t gw_rdma_queue_number(const gw_rdma_queue *queue);
/* The queue pair itself, for measurements of what all this adds to it. */
struct ibv_qp *gw_rdma_queue_pair(const gw_rdma_queue *queue);
uint32_t gw_rdma_queue_inline(const gw_rdma_queue *queue);

/* After a break it goes on being accepted, and ends with GW_RDMA_BROKEN at the next poll. */
void gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work);
/* Handles what has completed and posts what waits; returns how many completions there were. */
uint32_t gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers);
/* From now on the next completion makes the descriptor readable, once. Poll after it and before sleeping:
 * what completed earlier makes no event. False: it cannot be, do not sleep. */
bool gw_rdma_queue_arm(gw_rdma_queue *queue);
int gw_rdma_queue_fd(const gw_rdma_queue *queue);
/* Work was posted that is not done. */
bool gw_rdma_queue_is_busy(const gw_rdma_queue *queue);
/* NULL while it is good. GW_E_TIMEOUT: nobody answers; GW_E_IO: this side's device; GW_E_PEER: the other side
 * has refused it (*refused, which may be NULL) or has ended the connection. */
const gw_err *gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused);
/* Takes the other side's rights away: from now on every READ, WRITE and atomic that comes by this queue pair
 * is refused, whatever its key. For connected queue pairs that nobody posts to or polls: any thread. False:
 * it is not to be had. */
bool gw_rdma_queue_bar(gw_rdma_queue *queue, gw_err *err);
/* Moves the queue pair to its error state: all work will complete as broken, with this reason. */
void gw_rdma_queue_break(gw_rdma_queue *queue, const gw_err *why);

#endif
