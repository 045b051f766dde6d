/* The data plane of a peer: connections that follow its control links, the fence, one-sided operations.
 *
 * Of two peers with a control link the one with the lower id dials the data streams, and dials again while
 * the control link is up. Streams leave the loop once they are authenticated and belong to the transport.
 *
 * Threads: the loop's unless a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_DATA_WIRES_H
#define GODWIT_TOOLS_GODWIT_WORK_DATA_WIRES_H

#include "core/record/view.h"
#include "net/collective/collective.h"
#include "net/data/transport.h"
#include "net/link/stream.h"
#include "net/loop/loop.h"
#include "net/rdma/rdma.h"

#include <stdatomic.h>

/* What a peer's regions hold, everywhere: its range word; the index of its shard payload and the payload
 * itself (work/payload/read.h). */
enum { GW_REGION_RANGE = 1, GW_REGION_PAYLOAD_INDEX, GW_REGION_PAYLOAD };

typedef struct gw_wires gw_wires;

/* One operation under way: embed it in what `done` needs. `done` comes on a transport thread, once. */
typedef struct gw_wire_op gw_wire_op;
struct gw_wire_op {
    void (*done)(gw_wire_op *op, const gw_completion *completion);
    struct gw_wire *from; /* gw_wires_post's */
};

/* On the loop: whether a data link stands to a peer whose control link does, when that may have changed;
 * where not, why, and whether that is a fault of this peer's own. */
typedef void gw_wires_told(void *context, const gw_peer_id *peer, bool stands, const char *why,
                           bool own_fault);

/* By which paths data go, and how patient they are. */
typedef struct gw_wires_options {
    uint32_t kinds; /* GW_FABRIC_TCP | ... */
    gw_rdma_options rdma;
    uint32_t time_scale_percent;
    uint64_t silence_ns; /* as in gw_fabric_options */
    gw_wires_told *told; /* may be NULL */
    void *told_context;
} gw_wires_options;

/* `local` must outlive the wires. The provider answers others' fetches. */
gw_wires *gw_wires_open(gw_loop *loop, const gw_local *local, const gw_wires_options *options,
                        const gw_fetch_provider *provider, gw_collective_done *done, void *done_context,
                        gw_err *err);
/* First step of closing: no stream or timer of the loop is left, and no peer is reached any more: what is
 * outstanding completes, what is started later is unreachable, and nobody waits for connections. Who fetches
 * thus comes to an end. NULL is allowed. */
void gw_wires_stop(gw_wires *wires);
/* Ends all connections and threads; every operation has completed afterwards. NULL is allowed. */
void gw_wires_close(gw_wires *wires);

/* The control link to a peer came up. */
void gw_wires_follow(gw_wires *wires, const gw_remote *remote);
/* Tells anew whether its data link stands. */
void gw_wires_tell(gw_wires *wires, const gw_peer_id *peer);
/* It went down: data connections that stand stay, but are not dialled again. */
void gw_wires_unfollow(gw_wires *wires, const gw_peer_id *peer);
/* The life of the peer whose control link came up last; zeros if none did, or it was dropped long ago. */
void gw_wires_life(const gw_wires *wires, const gw_peer_id *peer, gw_incarnation *life);
/* How data go to this peer; 0: no data connection stands. */
gw_path_kind gw_wires_path(gw_wires *wires, const gw_peer_id *peer);
/* The peer is not wanted any more: ends its data connections. */
void gw_wires_drop(gw_wires *wires, const gw_peer_id *peer);
/* How long a peer is left alone before it is dialled again, whose last `vain` links in a row did not last: it
 * doubles from 10 ms to 10 s. Any thread. */
uint64_t gw_wires_pause_ns(uint32_t vain);
/* A data stream that the listener accepted. */
void gw_wires_adopt(gw_wires *wires, gw_stream *stream);

/* Serves the members of `view` only; NULL: nobody. False: nobody, as gw_transport_fence says. */
bool gw_wires_fence(gw_wires *wires, const gw_view *view, gw_err *err);
gw_transport *gw_wires_transport(gw_wires *wires);

/* Any thread: starts *request, whose token this sets. `op` must live until its `done`. */
void gw_wires_post(gw_wires *wires, gw_op *request, gw_wire_op *op);
/* Any thread: bytes of FETCHes that have come over rails from `peer` (NULL: from anybody), those of
 * unfinished ones too. */
uint64_t gw_wires_landed(gw_wires *wires, const gw_peer_id *peer);
/* Any thread: what is outstanding on `peer` (NULL: on anybody) completes with GW_OP_UNKNOWN. */
void gw_wires_abandon(gw_wires *wires, const gw_peer_id *peer);
/* Any thread that may wait: until data connections to all of `members` but `self` stand, *stop is set, the
 * wires are stopped, or `patience_ns` has passed. False then; *missing is one without a connection. */
bool gw_wires_wait(gw_wires *wires, const gw_peer_id *members, uint32_t count, const gw_peer_id *self,
                   const atomic_bool *stop, uint64_t patience_ns, gw_peer_id *missing);
/* Wakes gw_wires_wait after *stop was set. Any thread. */
void gw_wires_wake(gw_wires *wires);

/* Any thread: the link of that kind ("control link") to a peer has ended because what came by it is not what
 * was sent. The log gets it, at a limited rate, and it is counted: */
void gw_wires_tell_corrupt(gw_wires *wires, const char *kind, const gw_peer_id *peer, const char *why);
uint64_t gw_wires_corrupt(gw_wires *wires);

/* Any thread: gw_fabric_busy_since, gw_fabric_files_since. */
uint64_t gw_wires_busy_since(gw_wires *wires);
uint64_t gw_wires_files_since(gw_wires *wires);
gw_collective *gw_wires_collective(gw_wires *wires);

#endif
