/* A *path* is a faster way to a peer than the TCP streams of its data link: shared memory (net/shm/shm.h) or
 * RDMA. It upgrades a link that is up. The fabric (net/fabric/fabric.h) keeps the TCP stream of small
 * operations, over which the two sides agree on the path and exchange what it needs, and which detects the
 * death of the peer. That stream is authenticated and encrypted, so a path needs no key exchange of its own.
 *
 * Life. Each side describes itself by a *card*. One side of the pair *leads*: it compares the cards, opens an
 * *endpoint* of the path, and has the other side open one. The endpoints exchange messages (`tell`,
 * `message`) until the leading one is `ready`, which means that both sides can take channels and operations. From then on all
 * rails but that of small operations have channels of the path, and operations are offered to `post`. A
 * failure is reported by `failed`: before the path is ready the pair uses another path, afterwards the link
 * goes down with this reason. A channel may detect a failure first: it breaks with GW_E_TIMEOUT or GW_E_IO if
 * the path has failed, and with any other code if the path is good (the other side has ended it, or has sent
 * garbage).
 *
 * Threads. The *control thread* runs host->loop: all functions of a path are called on it, but post and
 * abandon (any thread) and fence_begin, fence_end and word (any thread, see there). A path may use the loop
 * for its own descriptors and timers. host functions may be called from any thread. */
#ifndef GODWIT_NET_RAIL_PATH_H
#define GODWIT_NET_RAIL_PATH_H

#include "net/data/provider.h"
#include "net/data/words.h"
#include "net/loop/loop.h"
#include "net/rail/channel.h"
#include "net/rail/thread.h"

enum {
    GW_PATH_CARD_BYTES = 512,     /* longest card */
    GW_PATH_MESSAGE_BYTES = 2048, /* longest message between endpoints */
    GW_PATH_STREAMS = 10,         /* most streams of a link: 0 small operations, 1 bulk, then rails */
    GW_PATH_FIRST_RAIL = 2,       /* the first stream that is a rail for sums */
};

typedef struct gw_path gw_path;
typedef struct gw_path_endpoint gw_path_endpoint;

/* What the fabric does for its paths. */
typedef struct gw_path_host {
    struct gw_fabric *fabric;
    gw_loop *loop;
    gw_rail_thread *direct; /* the small operations' thread: for gw_rail_thread_watch */
    gw_words *words;        /* this peer's words */
    uint32_t streams;       /* channels are made for streams 1 to streams - 1 */
    uint32_t payload_most[GW_PATH_STREAMS];
    /* Sends bytes to the other side's `message`, in order; they are lost with the link. */
    void (*tell)(gw_path_endpoint *endpoint, const void *bytes, uint32_t count);
    void (*ready)(gw_path_endpoint *endpoint); /* called on the side that leads, once */
    /* Reports that the path has failed. Called once, on either side; the fabric closes the endpoint soon
     * after. */
    void (*failed)(gw_path_endpoint *endpoint, const gw_err *why);
    /* Gives the completion of an operation that `post` has started to its caller. */
    void (*completed)(gw_path_endpoint *endpoint, const gw_completion *completion);
    /* Passes an operation that `post` has started to the rails: it has not happened and cannot happen by this
     * path. */
    void (*pass)(gw_path_endpoint *endpoint, const gw_op *op);
    /* Counts bytes that the path took from the other side's memory for a FETCH or a large READ. */
    void (*pulled)(gw_path_endpoint *endpoint, uint64_t bytes);
    /* Notes that this machine can have a kind of path again, so that links need not wait to try it. Control
     * thread. */
    void (*usable)(struct gw_fabric *fabric, gw_path_kind kind);
    /* Asks this peer's provider for what the other side requests (name, capacity and id filled in). `found`
     * gets the answer on the control thread, if the endpoint still exists. Takes the lookup. */
    void (*look_up)(gw_path_endpoint *endpoint, gw_lookup *lookup);
} gw_path_host;

/* One side of a path between two peers. Every kind's object begins with this. */
struct gw_path_endpoint {
    gw_path *path;
    gw_peer_id peer;
    uint64_t link;   /* the number of the TCP link below */
    uint32_t serial; /* the number of this try; the same on both sides */
    bool leads;
};

typedef enum gw_path_posted {
    GW_PATH_DONE = 1, /* `completion` is filled in */
    GW_PATH_STARTED,  /* host->completed will be called (or has been) */
    GW_PATH_PASS,     /* the operation was not done and goes by the rails */
} gw_path_posted;

typedef struct gw_path_ops {
    gw_path_kind kind;
    /* Writes the card (host and device identity, addresses) and returns its length; 0 if this machine cannot
     * have the path now, and *why says why. */
    uint32_t (*card)(gw_path *, uint8_t bytes[GW_PATH_CARD_BYTES], gw_err *why);
    /* Whether a peer with this card can be reached this way. */
    bool (*suits)(gw_path *, const uint8_t *card, uint32_t count, gw_err *why);
    /* Opens an endpoint like `as` (peer, link, serial and leads filled in) for the peer with this card. NULL
     * on failure. */
    gw_path_endpoint *(*open)(gw_path *, const gw_path_endpoint *as, const uint8_t *card, uint32_t count,
                              gw_err *err);
    /* Takes bytes from the other side's endpoint. They come from another process and must be checked. */
    void (*message)(gw_path_endpoint *, const uint8_t *bytes, uint32_t count);
    /* Gives the channel for a stream (1 to streams - 1), once for each when the endpoint is ready; its
     * peer.rail is `rail` and its peer.link `link`. Channels belong to their rail threads, which may close
     * them after the endpoint, so what they share with it is freed with the last of them. */
    gw_channel *(*channel)(gw_path_endpoint *, uint32_t stream, uint32_t rail, gw_err *err);
    /* Executes or starts an operation. Never called after or during `close_endpoint`. */
    gw_path_posted (*post)(gw_path_endpoint *, const gw_op *op, gw_completion *completion);
    /* As gw_transport_abandon: completions come from inside. NULL: nothing is ever outstanding. */
    void (*abandon)(gw_path_endpoint *);
    /* Takes the answer to a host->look_up. NULL: the path never looks up. */
    void (*found)(gw_path_endpoint *, gw_lookup *lookup);
    /* Completes outstanding operations with GW_OP_UNKNOWN, reports nothing any more, and frees the
     * endpoint. */
    void (*close_endpoint)(gw_path_endpoint *);
    /* The owner's side of gw_transport_fence, in this order: fence_begin for every path (ends what
     * non-members can reach this peer's memory by), then the words are moved to fresh memory, then fence_end,
     * which makes the new memory known to the members. One fence at a time, on any thread, with the gates of
     * streams 0 and 1 held: do not wait for those threads. Either may be NULL. */
    void (*fence_begin)(gw_path *, const gw_fence *fence, const gw_peer_id *members, uint32_t count);
    void (*fence_end)(gw_path *, const gw_fence *fence, const gw_peer_id *members, uint32_t count);
    /* Adds a data region of this peer that others may READ by the path if the fence lets them; remove_region
     * removes it, after which the path does not touch the memory. Any thread; may be NULL. */
    void (*add_region)(gw_path *, uint32_t region, const void *memory, uint64_t bytes);
    void (*remove_region)(gw_path *, uint32_t region);
    /* The path's atomicity domain, if this peer's words are to be in it; then everything that touches the
     * words on this machine goes through it (net/data/words.h). Called once, when the fabric is opened. May
     * be NULL or return NULL. */
    const gw_word_domain *(*domain)(gw_path *);
    /* Closes the path. No endpoint may be left. */
    void (*close)(gw_path *);
} gw_path_ops;

/* Every kind's object begins with this. */
struct gw_path {
    const gw_path_ops *ops;
    const gw_path_host *host; /* must outlive the path */
};

#endif
