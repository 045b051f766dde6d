/* All-reduce on host memory over any transport (net/data/rail.h). Large sums use a ring reduce-scatter and
 * all-gather, pipelined in chunks (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters
 * of workstations", 2009); small sums use recursive doubling (Thakur, Rabenseifner and Gropp, "Optimization
 * of collective communication operations in MPICH", 2005). Both work for any number of members.
 *
 * The sum is out of place: inputs are only read, so they can be reduced again after a failure. All members
 * call with the same tag, type, element count and ordered list of members. Float sums depend on the members
 * and their order, but have the same bytes on all members.
 *
 * Checksums protect the sum: bits that change in a member's memory while they wait to be sent, or on their
 * way, fail the call of the member that receives them (net/collective/part.h). A change of a member's input
 * before it is read, or of the output after the call, is not detected here.
 *
 * Integers travel in fewer bytes where bytes cost more than packing, and all members know how to read them:
 * the same elements arrive (core/vector/pack.h).
 *
 * Large sums may be shared among several rails, each with a thread and a stream to each peer of its own. How many
 * each member can use, the ENTER messages tell; where links have more than all of them need to have
 * (gw_transport_ops.sure_rails), the member of rank 0 finds out which number is the fastest (net/collective/lanes.h).
 *
 * Calls are queued, and run and complete in the order in which they were started; a later call may send while
 * an earlier one still receives. Every message carries the tag of its call. Messages of an earlier call or of
 * another view are dropped; those of a call that this member has not started yet wait unread in the network.
 * Only the ENTER messages of a large call wait in this way.
 *
 * Threads: any, but gw_collective_open and gw_collective_close must be called by one. `done` is called on a
 * transport thread and must be quick; it may call gw_collective_start and gw_collective_abort. */
#ifndef GODWIT_NET_COLLECTIVE_COLLECTIVE_H
#define GODWIT_NET_COLLECTIVE_COLLECTIVE_H

#include "core/vector/sum.h"
#include "net/data/transport.h"

enum { GW_COLLECTIVE_MEMBERS = 1024 };             /* most members of one call */
#define GW_COLLECTIVE_ELEMENTS ((uint64_t)1 << 40) /* most elements of one call */

typedef struct gw_collective gw_collective;

/* A piece of the vector: `count` elements, summed from every member's `in` to every member's `out`. `in` and
 * `out` are equal or wholly disjoint memory, aligned to the element. */
typedef struct gw_collective_piece {
    const void *in;
    void *out;
    uint64_t count;
} gw_collective_piece;

/* The identity of an all-reduce. Tags rise from call to call, compared by epoch, step, attempt and bucket in
 * this order; the view's name distinguishes views of one epoch. */
typedef struct gw_collective_tag {
    gw_fence fence;
    uint64_t step;
    uint32_t attempt, bucket;
} gw_collective_tag;

typedef struct gw_collective_call {
    gw_collective_tag tag;
    gw_sum_type type;
    const gw_peer_id *members;         /* copied */
    uint32_t member_count, rank;       /* rank: this peer's index in members */
    const gw_collective_piece *pieces; /* the array is copied; the memory must stand until `done` */
    uint32_t piece_count;
    /* The call fails after this long without progress, once all members have entered. A small sum is done as
     * soon as all have entered, and has no deadline. */
    uint32_t progress_ms;
    uint64_t token; /* returned in the result */
} gw_collective_call;

typedef enum gw_collective_status {
    GW_COLLECTIVE_OK = 1,
    GW_COLLECTIVE_ABORTED, /* ended by gw_collective_abort */
    GW_COLLECTIVE_FAILED,  /* err says why; all calls that were started fail */
} gw_collective_status;

typedef struct gw_collective_result {
    uint64_t token;
    gw_collective_status status;
    gw_peer_id suspect; /* FAILED: the member with which the call failed, or zeros */
    /* The bits that the suspect sent changed: that member, this peer or the way between them changes bits. If
     * the suspect is zeros, this peer's own memory does. */
    bool changed;
    const gw_err *err;   /* FAILED: valid during the call; else NULL */
    uint64_t elapsed_ns; /* from the call's turn until its end */
    uint64_t sent_bytes,
        received_bytes;   /* bytes of payload to and from other members, also of a call that failed */
    uint64_t saved_bytes; /* how many more would have been sent if nothing were packed */
    uint32_t rails;       /* on which it ran; 0: it has one member */
} gw_collective_result;

typedef void gw_collective_done(void *context, const gw_collective_result *result);

/* Opens the collectives of a transport, which has one. `context` is passed to `done`. */
bool gw_collective_open(gw_transport *transport, gw_collective_done *done, void *context,
                        gw_collective **collective, gw_err *err);

/* Starts an all-reduce. If it returns true exactly one `done` follows, perhaps before the return. Members
 * that enter early wait for the others without a deadline, and the links stay up meanwhile. A call needs a
 * link to every other member: it fails if one is missing, or breaks before the end. A call of a single member
 * copies the input to the output. Fails with GW_E_INVALID for a tag that does not rise, for a bad rank and
 * for sizes out of bounds. */
bool gw_collective_start(gw_collective *collective, const gw_collective_call *call, gw_err *err);

/* Ends all calls that were started and are not done, each with GW_COLLECTIVE_ABORTED in its own `done`, after
 * which the call's memory is not touched any more. New calls (with a higher tag) may be started at once. */
void gw_collective_abort(gw_collective *collective);

/* Aborts, waits for the last `done`, and frees. It must not be called from `done`. */
void gw_collective_close(gw_collective *collective);

#endif
