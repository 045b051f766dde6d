/* What the files of the fabric share: net/fabric/fabric.c (operations, life), net/fabric/links.c (streams and
 * links) and net/fabric/settle.c (which path a link takes). */
#ifndef GODWIT_NET_FABRIC_INSIDE_H
#define GODWIT_NET_FABRIC_INSIDE_H

#include "net/fabric/fabric.h"
#include "net/onesided/onesided.h"
#include "net/rail/path_message.h"

#include <pthread.h>

enum {
    STREAM_WORDS = 0,
    STREAM_BULK = 1,
    STREAMS = GW_PATH_FIRST_RAIL + GW_FABRIC_RAILS,
    EXTRA = 0xff, /* in the label of a stream in place of their number: it is for an extra rail */
};
_Static_assert(STREAMS <= (int)GW_PATH_STREAMS, "paths have room for all streams");

/* How a link is being settled, or was settled. Used by the control thread. */
typedef struct gw_settling {
    uint64_t link;              /* the number of the TCP link; 0: none */
    gw_detached spare[STREAMS]; /* the streams of the link but the first, until it is settled; fd -1: none */
    bool leads, settled;
    gw_path_kind kind; /* valid if settled */
    bool greeted;      /* `theirs` is filled in */
    gw_path_hello theirs;
    uint32_t tried;             /* the kinds that were tried since `theirs` came */
    uint32_t serial;            /* the number of the latest try; it rises while the link stands */
    gw_path_endpoint *endpoint; /* the endpoint that is being tried or in use; NULL: none */
    gw_err why;                 /* why no better path is used; an empty text says nothing */
    gw_err last_failure;        /* why the path failed that the last link used or tried */
    gw_timer timer;
    struct {
        uint64_t until_ns, pause_ns; /* after a failure the kind is not tried before until_ns */
        bool due; /* it is to be tried then, since it was neither offered nor tried after the failure */
    } excluded[GW_PATH_KINDS];
    bool reported; /* the log says why this pair has no path better than TCP, or no link */
    /* Why the last retry of a path beside TCP failed; the log repeats it only if it changes. */
    gw_err last_retry;
} gw_settling;

/* The state of the data link to one peer, from its first stream until it is unlinked. The control thread may
 * hold a pair without a lock and therefore frees it; without a control thread, gw_fabric_unlink does. */
typedef struct gw_pair {
    struct gw_pair *next;
    struct gw_fabric *fabric;
    gw_peer_id peer;
    /* The fields below are guarded by links_lock. */
    uint64_t attempt; /* the newest attempt, whose streams `waiting` holds or held */
    bool dialled;     /* this side dialled; attempts of the two sides are numbered separately */
    uint32_t waiting_count;
    gw_detached waiting[STREAMS]; /* fd -1: the stream has not come yet */
    gw_data_link *base;           /* the TCP link, whose stream 0 is in its rail; NULL: none */
    gw_data_link *rails;          /* the channels of the other streams; NULL: there are none (yet) */
    uint64_t announced;           /* the number of the link that the last link_up named; 0: none */
    gw_path_kind kind;            /* valid with `rails`: what they go over */
    gw_data_link
        *extras[STREAMS]; /* the extra rails, by stream number, each a link of its own; NULL: there is none */
    uint64_t extra_attempt;             /* the attempt whose streams for extra rails wait */
    gw_detached extra_waiting[STREAMS]; /* fd -1: none */
    /* The other side may replace `rails` by those of a path at any moment, so their end does not end the
     * link. */
    bool changing;
    /* The fields below are guarded by posts_lock. */
    gw_path_endpoint *direct; /* the endpoint that operations are offered to; NULL: they go by the rails */
    bool direct_over;         /* its link has ended: it takes no operations, and may only be abandoned */
    gw_settling settling;
} gw_pair;

typedef struct gw_fabric {
    gw_transport base; /* first */
    gw_transport_events events;
    uint32_t kinds, streams, most_streams; /* of a link, and of one with all extra rails */
    uint64_t settle_ns, retry_ns;
    gw_rail_thread *rails[STREAMS]; /* by stream number */
    gw_onesided *words, *bulk;
    gw_provider *provider;
    gw_regions regions;          /* changed inside the gates of both one-sided rails */
    pthread_mutex_t change_lock; /* one change of regions or fence at a time */
    pthread_mutex_t links_lock;  /* before posts_lock */
    pthread_rwlock_t posts_lock;
    gw_pair *pairs; /* changed under both locks */
    uint64_t link_numbers;
    _Atomic uint64_t direct; /* operations on words that paths have executed */
    _Atomic uint64_t pulled_bytes;
    /* The control thread; there is none if only TCP is allowed. */
    gw_loop *loop;
    pthread_t control;
    bool controlled;
    gw_path_host host;
    gw_path *paths[GW_PATH_KINDS]; /* NULL: the path is not allowed, or this machine cannot have it */
    gw_err path_errs[GW_PATH_KINDS];
} gw_fabric;

/* Posts an operation to the rails. Any thread. */
void gw_fabric_post_rails(gw_fabric *fabric, const gw_op *op);

/* The number of a stream's rail as its users know it, and the most payload of its messages. */
uint32_t gw_stream_rail(uint32_t stream);
uint32_t gw_stream_payload(uint32_t stream);

/* Links. The functions may be called from any thread. */
void gw_fabric_wake(gw_fabric *fabric);
/* Finds the pair of a peer. Called with links_lock or posts_lock held. */
gw_pair *gw_fabric_find(const gw_fabric *fabric, const gw_peer_id *peer);
/* Takes a pair without streams or a link out of the list, and frees it. */
void gw_fabric_drop_pair(gw_fabric *fabric, const gw_peer_id *peer);
/* Ends all links, and drops the streams that wait. */
void gw_fabric_cut_all(gw_fabric *fabric);
/* Ends the TCP link of that number, if it stands, with link_down. */
void gw_fabric_break(gw_fabric *fabric, const gw_peer_id *peer, uint64_t link, const gw_err *why);
/* Opens TCP channels for the streams [from, to). On failure it leaves none. */
bool gw_fabric_tcp_channels(gw_fabric *fabric, gw_detached streams[STREAMS], uint32_t from, uint32_t to,
                            gw_channel *channels[STREAMS], gw_err *err);
void gw_fabric_drop_channels(gw_fabric *fabric, gw_channel *channels[STREAMS]);
/* Notes whether the other side may change the channels now. A link that has no channels when it no longer may
 * is broken. */
void gw_fabric_changing(gw_fabric *fabric, gw_pair *pair, uint64_t link, bool changing);
/* Gives the TCP link of that number channels (NULL for stream 0; all are taken, on failure too) and a path
 * endpoint in place of what it had, and calls link_up. False if the link no longer stands. */
bool gw_fabric_furnish(gw_fabric *fabric, gw_pair *pair, uint64_t link, gw_path_kind kind,
                       gw_channel *channels[STREAMS], gw_path_endpoint *direct);
void gw_fabric_unlink(gw_transport *transport, const gw_peer_id *peer);
void gw_fabric_broken(void *context, gw_data_link *link, const gw_err *why); /* gw_rail_broken */

/* Settling. The functions may be called from any thread, with or without links_lock. */
/* Begins to settle the streams of a TCP link, all but the first; takes them. */
void gw_settle_begin(gw_fabric *fabric, gw_pair *pair, uint64_t link, bool leads,
                     gw_detached streams[STREAMS]);
/* Takes the answer to a lookup of a path's endpoint. */
void gw_settle_found(gw_fabric *fabric, gw_lookup *lookup);
/* Notes that the channels of a settled link have broken; the TCP link ends too. */
void gw_settle_broken(gw_fabric *fabric, gw_pair *pair, uint64_t link, const gw_err *why);
/* Notes that the TCP link has ended. */
void gw_settle_end(gw_fabric *fabric, gw_pair *pair, uint64_t link);
/* Notes that the peer was unlinked: drops its pair if nothing is left of it by then. */
void gw_settle_drop(gw_fabric *fabric, gw_pair *pair);
void gw_settle_received(void *context, const gw_peer_id *peer, uint64_t link, const gw_path_note *note,
                        const uint8_t *bytes, uint32_t count); /* gw_onesided_received */

/* Opens the paths that are allowed and that this machine can have, and starts the control thread. */
bool gw_settle_open(gw_fabric *fabric, const gw_rdma_options *rdma, gw_err *err);
/* Ends the control thread and all path endpoints. No link may stand. */
void gw_settle_stop(gw_fabric *fabric);
/* Closes the paths. Called after the rail threads have ended. */
void gw_settle_close(gw_fabric *fabric);

#endif
