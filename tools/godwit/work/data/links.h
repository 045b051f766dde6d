/* The data links of a peer: one to each peer with which a control link stands, and what goes over them:
 * one-sided operations behind the fence, fetches, collectives.
 *
 * Of two peers with a control link the one with the lower id dials the streams of the data link, and dials
 * them again while the control link is up. Streams leave the loop once they are authenticated, and then
 * belong to the transport.
 *
 * Threads: the loop's unless a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_DATA_LINKS_H
#define GODWIT_TOOLS_GODWIT_WORK_DATA_LINKS_H

#include "core/record/view.h"
#include "net/collective/collective.h"
#include "net/data/transport.h"
#include "net/link/stream.h"
#include "net/loop/loop.h"
#include "net/rdma/rdma.h"

#include <stdatomic.h>

/* The regions that every peer shares: its range word; the index of its shard payload and the payload itself
 * (work/payload/read.h). */
enum { GW_REGION_RANGE = 1, GW_REGION_PAYLOAD_INDEX, GW_REGION_PAYLOAD };

typedef struct gw_data_links gw_data_links;

/* One operation under way. The caller embeds it in what `done` needs; `done` is called once, on a thread
 * of the transport. */
typedef struct gw_data_op gw_data_op;
struct gw_data_op {
    void (*done)(gw_data_op *op, const gw_completion *completion);
    struct data_link *from; /* set by gw_data_links_post */
};

/* The state of the data link to a peer with which a control link stands. */
typedef struct gw_data_link_state {
    bool stands;
    const char *why; /* if it does not stand */
    bool own_fault;  /* likewise: the fault is this peer's own */
    /* Links so far that ended as the peer did not acknowledge what was sent (GW_E_UNHEARD). */
    uint32_t unheard;
} gw_data_link_state;

/* On the loop: the state of a data link, when it may have changed. */
typedef void gw_data_link_changed(void *context, const gw_peer_id *peer, const gw_data_link_state *state);

typedef struct gw_data_links_options {
    uint32_t kinds;       /* the paths that may be used: GW_FABRIC_TCP | ... */
    uint32_t rails;       /* as in gw_fabric_options; other peers' must be the same */
    uint32_t extra_rails; /* as in gw_fabric_options */
    gw_rdma_options rdma;
    uint32_t time_scale_percent;     /* of all times */
    uint64_t silence_ns;             /* as in gw_fabric_options */
    gw_data_link_changed *on_change; /* may be NULL */
    void *changed_context;
} gw_data_links_options;

/* `local` must outlive the links. The provider answers other peers' fetches; `done` gets the ends of
 * collective calls. NULL on failure; GW_E_USAGE if this machine has no RDMA device of the given name. */
gw_data_links *gw_data_links_open(gw_loop *loop, const gw_local *local, const gw_data_links_options *options,
                                  const gw_fetch_provider *provider, gw_collective_done *done,
                                  void *done_context, gw_err *err);
/* The first step of closing. No stream or timer of the loop is left, and no peer is reached any more:
 * outstanding operations complete, later ones complete as unreachable, and gw_data_links_wait returns.
 * Threads that fetch come to an end thereby. NULL is allowed. */
void gw_data_links_stop(gw_data_links *links);
/* Ends all connections and threads; every operation has completed afterwards. NULL is allowed. */
void gw_data_links_close(gw_data_links *links);

/* The control link to a peer came up. */
void gw_data_links_follow(gw_data_links *links, const gw_remote *remote);
/* The control link to a peer went down: a data link that stands stays, but is not dialled again. */
void gw_data_links_unfollow(gw_data_links *links, const gw_peer_id *peer);
/* The peer is not wanted any more: ends its data link. */
void gw_data_links_drop(gw_data_links *links, const gw_peer_id *peer);
/* Takes over a data stream that the listener accepted. */
void gw_data_links_adopt(gw_data_links *links, gw_stream *stream);
/* Calls on_change for this peer, if its control link is up. */
void gw_data_links_report(gw_data_links *links, const gw_peer_id *peer);
/* The life of the peer whose control link came up last; zeros if none did, or if it was dropped long ago. */
void gw_data_links_life(const gw_data_links *links, const gw_peer_id *peer, gw_incarnation *life);
/* The path that data take to this peer; 0: no data link stands. */
gw_path_kind gw_data_links_path(gw_data_links *links, const gw_peer_id *peer);
/* How long a peer is left alone before it is dialled again, when its last `short_lived` links in a row did
 * not last: from 10 ms, doubling up to 10 s. Any thread. */
uint64_t gw_data_links_pause_ns(uint32_t short_lived);

/* Serves the members of `view` only; NULL: serves nobody. False: the fence could not be moved, and nobody
 * is served (gw_transport_fence). */
bool gw_data_links_fence(gw_data_links *links, const gw_view *view, gw_err *err);
gw_transport *gw_data_links_transport(gw_data_links *links);
gw_collective *gw_data_links_collective(gw_data_links *links);

/* Any thread: starts *request, whose token this function sets. `op` must live until its `done`. */
void gw_data_links_post(gw_data_links *links, gw_op *request, gw_data_op *op);
/* Any thread: bytes of FETCHes that have come from `peer` (NULL: from all peers), those of unfinished ones
 * included. */
uint64_t gw_data_links_landed(gw_data_links *links, const gw_peer_id *peer);
/* Any thread: all outstanding operations on `peer` (NULL: on all peers) complete with GW_OP_UNKNOWN. */
void gw_data_links_abandon(gw_data_links *links, const gw_peer_id *peer);
/* Any thread that may wait: waits until data links to all of `members` but `self` stand, *stop is set, the
 * links are stopped, or `patience_ns` has passed. False if not all stand; *missing is one that does not. */
bool gw_data_links_wait(gw_data_links *links, const gw_peer_id *members, uint32_t count,
                        const gw_peer_id *self, const atomic_bool *stop, uint64_t patience_ns,
                        gw_peer_id *missing);
/* Any thread: wakes gw_data_links_wait after *stop was set. */
void gw_data_links_wake(gw_data_links *links);

/* Any thread: a link to a peer, of that kind ("control link"), has ended because bits changed on the way.
 * Counts it, and logs it at a limited rate. */
void gw_data_links_report_corrupt(gw_data_links *links, const char *kind, const gw_peer_id *peer,
                                  const char *why);
/* Any thread: how many links have ended so. */
uint64_t gw_data_links_corrupt(gw_data_links *links);

/* Any thread: gw_fabric_busy_since and gw_fabric_files_since of the transport. */
uint64_t gw_data_links_busy_since(gw_data_links *links);
uint64_t gw_data_links_files_since(gw_data_links *links);

#endif
