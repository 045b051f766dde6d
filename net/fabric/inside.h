/* Inside the fabric: shared by net/fabric/fabric.c (operations, life), net/fabric/links.c (streams and links)
 * and net/fabric/settle.c (which path a link takes). */
#ifndef GODWIT_NET_FABRIC_INSIDE_H
#define GODWIT_NET_FABRIC_INSIDE_H

#include "net/fabric/fabric.h"
#include "net/onesided/onesided.h"
#include "net/rail/path_message.h"

#include <pthread.h>

enum {
    STREAM_WORDS = 0,
    STREAM_BULK = 1,
    FIRST_RAIL = 2,
    STREAMS = FIRST_RAIL + GW_FABRIC_RAILS,
};
_Static_assert(STREAMS <= (int)GW_PATH_STREAMS, "paths have room for all streams");

/* How a link is being settled, or was. The control thread's. */
typedef struct gw_settling {
    uint64_t link;              /* the number of the TCP link; 0: none */
    gw_detached spare[STREAMS]; /* its streams but the first, until it is settled; fd -1: none */
    bool leads, settled;
    gw_path_kind kind; /* when settled */
    bool greeted;      /* `theirs` is filled in */
    gw_path_hello theirs;
    uint32_t tried;             /* kinds, since `theirs` came */
    uint32_t serial;            /* of the latest try; rises while the link stands */
    gw_path_endpoint *endpoint; /* that is being tried, or in use; NULL: none */
    gw_err why;                 /* not another path; empty text: nothing to say */
    gw_err last_failure;        /* the path that the last link went by, or was to */
    gw_timer timer;
    struct {
        uint64_t until_ns, pause_ns; /* after a failure that kind is left alone */
        bool due;                    /* to be tried then: nothing has offered or tried it since */
    } cooling[GW_PATH_KINDS];
    bool warned; /* the log says why this pair has no path better than TCP, or no link */
    gw_err
        last_retry; /* why the last retry of a path beside TCP failed; the log repeats it only if it changes */
} gw_settling;

/* The state of the data link to one peer, from its first stream until it is unlinked. The control thread may hold a pair without
 * a lock and therefore frees it; without a control thread, gw_fabric_unlink does. */
typedef struct gw_pair {
    struct gw_pair *next;
    struct gw_fabric *fabric;
    gw_peer_id peer;
    /* under links_lock */
    uint64_t attempt; /* that `waiting` belong to, or did: the newest */
    bool dialled;     /* by us: attempts of both sides are told apart */
    uint32_t waiting_count;
    gw_detached waiting[STREAMS]; /* fd -1: not in yet */
    gw_data_link *base;           /* the TCP link, whose stream 0 is in its rail; NULL: none */
    gw_data_link *rails;          /* the other streams' channels; NULL: there are none (yet) */
    uint64_t announced;           /* the number of the link that link_up told of last; 0: of none */
    bool changing; /* the other side may change `rails` for a path's at any moment: that they end does not
                      end the link */
    /* under posts_lock */
    gw_path_endpoint *direct; /* takes operations; NULL: they go by the rails */
    bool direct_over;         /* its link has ended: only to be abandoned */
    gw_settling settling;
} gw_pair;

typedef struct gw_fabric {
    gw_transport base; /* first */
    gw_transport_events events;
    uint32_t kinds, streams;
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
    _Atomic uint64_t direct; /* operations on words that paths took */
    _Atomic uint64_t pulled_bytes;
    /* The control thread; there is none when TCP alone is allowed. */
    gw_loop *loop;
    pthread_t control;
    bool controlled;
    gw_path_host host;
    gw_path *paths[GW_PATH_KINDS]; /* NULL: not allowed, or not to be had */
    gw_err path_errs[GW_PATH_KINDS];
} gw_fabric;

/* Posts an operation to the rails. Any thread. */
void gw_fabric_post_rails(gw_fabric *fabric, const gw_op *op);

/* What the users of a stream's rail call it, and the most payload of its messages. */
uint32_t gw_stream_rail(uint32_t stream);
uint32_t gw_stream_payload(uint32_t stream);

/* Links. Any thread. */
void gw_fabric_wake(gw_fabric *fabric);
/* With one of the locks held. */
gw_pair *gw_fabric_find(const gw_fabric *fabric, const gw_peer_id *peer);
/* Takes a pair without streams or a link out of the list, and frees it. */
void gw_fabric_drop_pair(gw_fabric *fabric, const gw_peer_id *peer);
/* Ends all links, and drops the streams that wait. */
void gw_fabric_cut_all(gw_fabric *fabric);
/* Ends the TCP link of that number, if it stands, with link_down. */
void gw_fabric_break(gw_fabric *fabric, const gw_peer_id *peer, uint64_t link, const gw_err *why);
/* Channels of TCP for streams [from, to). On failure none. */
bool gw_fabric_tcp_channels(gw_fabric *fabric, gw_detached streams[STREAMS], uint32_t from, uint32_t to,
                            gw_channel *channels[STREAMS], gw_err *err);
void gw_fabric_drop_channels(gw_fabric *fabric, gw_channel *channels[STREAMS]);
/* Says whether the other side may change the channels now. Once it may no more, a link without any is broken.
 */
void gw_fabric_changing(gw_fabric *fabric, gw_pair *pair, uint64_t link, bool changing);
/* Gives the TCP link of that number channels (NULL for stream 0; all taken, also on failure) and a path end,
 * in place of what it had, and says link_up. False: it stands no more. */
bool gw_fabric_furnish(gw_fabric *fabric, gw_pair *pair, uint64_t link, gw_path_kind kind,
                       gw_channel *channels[STREAMS], gw_path_endpoint *direct);
void gw_fabric_unlink(gw_transport *transport, const gw_peer_id *peer);
void gw_fabric_broken(void *context, gw_data_link *link, const gw_err *why); /* gw_rail_broken */

/* Settling. From any thread, with or without links_lock. */
/* A TCP link stands whose streams but the first are to be settled; takes these. */
void gw_settle_begin(gw_fabric *fabric, gw_pair *pair, uint64_t link, bool leads,
                     gw_detached streams[STREAMS]);
/* An answer for a path's end; takes the lookup. */
void gw_settle_found(gw_fabric *fabric, gw_lookup *lookup);
/* The channels that were settled on for that TCP link have broken; it ends, too. */
void gw_settle_broken(gw_fabric *fabric, gw_pair *pair, uint64_t link, const gw_err *why);
/* That TCP link has ended. */
void gw_settle_end(gw_fabric *fabric, gw_pair *pair, uint64_t link);
/* The peer was unlinked: drops its pair, if there is nothing of it by then. */
void gw_settle_drop(gw_fabric *fabric, gw_pair *pair);
void gw_settle_received(void *context, const gw_peer_id *peer, uint64_t link, const gw_path_note *note,
                        const uint8_t *bytes, uint32_t count); /* gw_onesided_received */

/* Life of the control thread: opens the paths that are allowed and can be had. */
bool gw_settle_open(gw_fabric *fabric, const gw_rdma_options *rdma, gw_err *err);
/* No link stands any more: ends the thread and all path ends. */
void gw_settle_stop(gw_fabric *fabric);
/* After the rail threads have ended. */
void gw_settle_close(gw_fabric *fabric);

#endif
