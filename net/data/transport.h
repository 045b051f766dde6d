/* The data plane between peers: one-sided operations on each other's memory, fetches by name, and
 * (net/data/rail.h) the messages that collectives are made of. This is the interface that every backend
 * implements; TCP is net/fabric/fabric.h. RDMA and shared memory fit below it without a change to callers.
 *
 * One-sided operations. A peer has *regions* under small numbers that are the same on every peer ("region 1
 * holds the range word"). Another peer READs, WRITEs, compare-and-swaps or fetch-adds them by (peer, region,
 * offset). No code of the owner's program runs: over RDMA the network card serves them, in shared memory the
 * asker's own CPU, over TCP the owner's data thread. There are two kinds of regions:
 *   data    READ only, any offset and length. The memory is the owner's, who keeps it unchanged while it may
 * be read. words   8-byte words, each atomic: READ, WRITE, CAS and FETCH_ADD, all 8-byte aligned. The only
 * memory that others can write; it belongs to the transport, and the owner too touches its words only by the
 *           gw_transport_word functions, which are atomic with everything that others do to them.
 * What it takes to reach a region (rkeys, addresses, descriptors) is told to the members by the transport
 * itself; callers never see it.
 *
 * A large READ of a data region, and a FETCH, is lent over RDMA: the owner's control thread tells where the
 * bytes lie and with which key, and the device takes them from there. What a fence or a withdrawal ends is
 * refused by the device.
 *
 * Fence. Every operation names the view (epoch and name) it belongs to. It takes effect only if that is the
 * view the owner's fence stands at, checked atomically with the operation; otherwise its completion says
 * GW_OP_FENCED. When gw_transport_fence has returned, no operation of another view can take effect any more.
 *
 * Tokens. Every operation carries a token of the caller's, returned by exactly one completion. Operations
 * that are outstanding at the same time are not ordered.
 *
 * Threads. Every function here may be called from any thread, unless it says otherwise. Completions and
 * link events come on the transport's own threads, several at once: handlers must be quick and must not wait.
 * They may post new operations, but must not call gw_transport_fence, _register, _withdraw, _abandon or
 * _close, and those must not be called holding a lock that a handler takes;
 * the link handlers must not call _unlink either. */
#ifndef GODWIT_NET_DATA_TRANSPORT_H
#define GODWIT_NET_DATA_TRANSPORT_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_transport gw_transport;
typedef struct gw_transport_ops gw_transport_ops; /* net/data/rail.h: what a backend implements */

enum {
    GW_MAX_REGIONS = 16,           /* region numbers are below this */
    GW_WRITE_BYTES = 4096,         /* most of one WRITE */
    GW_FETCH_MAX_BYTES = 64 << 20, /* most bytes behind one name */
};

/* The view that operations belong to. All zeros: none, nothing is served. */
typedef struct gw_fence {
    uint64_t epoch;
    gw_view_name view;
} gw_fence;

/* How a peer is reached. */
typedef enum gw_path_kind { GW_PATH_TCP = 1, GW_PATH_SHM, GW_PATH_RDMA } gw_path_kind;

typedef enum gw_op_kind {
    GW_OP_READ = 1, /* `bytes` bytes at `offset` to `buffer` */
    GW_OP_WRITE,    /* `bytes` bytes from `buffer` (copied before the call returns); at most GW_WRITE_BYTES */
    GW_OP_CAS,      /* word at `offset`: if it is `expected`, make it `operand`; value = the word found */
    GW_OP_FETCH_ADD, /* word at `offset` += `operand`; value = the word before */
    GW_OP_FETCH, /* the bytes called `name` to `buffer`, at most `bytes`; needs no fence. value = how many */
} gw_op_kind;

/* What a caller wants done. `buffer` stays the caller's and must live until the completion; a backend reads
 * or writes it in place where it can. */
typedef struct gw_op {
    gw_op_kind kind;
    uint64_t token;
    gw_peer_id peer;
    gw_fence fence;
    uint32_t region;
    uint64_t offset, bytes;
    void *buffer;
    uint64_t expected, operand;
    gw_hash name;
    /* NULL: nobody counts. What a READ or FETCH brings, over a rail or by a device, is added as it comes,
     * long before a large one is complete (and once more, where it begins again); must live until the
     * completion. */
    _Atomic uint64_t *landed;
} gw_op;

typedef enum gw_op_status {
    GW_OP_OK = 1,
    GW_OP_MISMATCH, /* CAS: not swapped; value = the word found */
    GW_OP_FENCED,   /* the owner's fence stands elsewhere: nothing happened (of a READ: buffer undefined) */
    GW_OP_DENIED,   /* no such region, out of bounds, misaligned, or not allowed there: nothing happened */
    GW_OP_NOTFOUND, /* FETCH: nothing there by that name, or more than `bytes` */
    GW_OP_UNAVAILABLE, /* FETCH: it may be there, but could not be had just now */
    GW_OP_UNREACHABLE, /* no link stood: nothing was sent, nothing happened */
    GW_OP_UNKNOWN,     /* the link broke, or the operation was abandoned: it may or may not have happened */
} gw_op_status;

typedef struct gw_completion {
    uint64_t token;
    gw_peer_id peer;
    gw_op_kind kind;
    gw_op_status status;
    uint64_t value; /* CAS, FETCH_ADD: the word found. READ of 8 bytes: the word. FETCH: the length */
} gw_completion;

/* Serves FETCH: `find` finds the bytes called `name`. On GW_OP_OK, *bytes and *length stand until `release`,
 * which is called once with the same `bytes` (any transport thread). Else GW_OP_NOTFOUND or
 * GW_OP_UNAVAILABLE. Called on two threads of its own, off the hot path: on one for names of which
 * `in_memory` says that to find them takes no file, so that they wait for no disk; on the other, where it may
 * read a file, for all others. `in_memory` (NULL: none is) goes by the name alone, whether or not it is
 * there; any transport thread. */
typedef struct gw_fetch_provider {
    void *context;
    gw_op_status (*find)(void *context, const gw_peer_id *asker, const gw_hash *name, const void **bytes,
                         uint64_t *length);
    void (*release)(void *context, const void *bytes, uint64_t length);
    bool (*in_memory)(void *context, const gw_hash *name);
} gw_fetch_provider;

typedef struct gw_transport_events {
    void *context;
    void (*completed)(void *context, const gw_completion *completion);
    /* A link to `peer` stands; `link` numbers it (numbers rise), `kind` says how it goes. */
    void (*link_up)(void *context, const gw_peer_id *peer, uint64_t link, gw_path_kind kind);
    /* Link `link` to `peer` is gone: its outstanding operations have completed with GW_OP_UNKNOWN or will at
     * once, and collectives through it have failed or will. Said once a link, unless gw_transport_unlink or a
     * newer link ended it; also of one that could not be brought up, whose number was never said, and which
     * has ended the one before: nothing stands after a number that is not below link_up's last. `why` is
     * valid during the call. */
    void (*link_down)(void *context, const gw_peer_id *peer, uint64_t link, const gw_err *why);
} gw_transport_events;

/* A data region: makes [memory, memory + bytes) readable by members of the fence's view. The memory is the
 * caller's and must live until it is withdrawn. Fails with GW_E_LIMIT or GW_E_INVALID, or when the number is
 * taken. */
bool gw_transport_register(gw_transport *transport, uint32_t region, const void *memory, uint64_t bytes,
                           gw_err *err);
/* Ends it, synchronously: afterwards no operation touches the memory. No-op for a number that is not in use.
 */
void gw_transport_withdraw(gw_transport *transport, uint32_t region);

/* A words region of `count` words, all 0, until the transport is closed; some thousand words in all. Not
 * while anybody may fence or use the number. */
bool gw_transport_share_words(gw_transport *transport, uint32_t region, uint64_t count, gw_err *err);
/* What the owner does to word `index` of such a region. Swaps if the word is *expected, else (false) puts the
 * word there. */
uint64_t gw_transport_word_load(gw_transport *transport, uint32_t region, uint64_t index);
void gw_transport_word_store(gw_transport *transport, uint32_t region, uint64_t index, uint64_t value);
bool gw_transport_word_swap(gw_transport *transport, uint32_t region, uint64_t index, uint64_t *expected,
                            uint64_t desired);

/* Moves the fence, synchronously. `fence` NULL or zeros: nothing is served. Only `members[count]` are served;
 * the array is copied. False: this machine refuses the memory that it takes. The old fence has ended all the
 * same, and nothing is served: a peer that goes on so would keep its flock waiting. */
bool gw_transport_fence(gw_transport *transport, const gw_fence *fence, const gw_peer_id *members,
                        uint32_t count, gw_err *err);

/* Starts an operation; its completion may come before this returns. */
void gw_transport_post(gw_transport *transport, const gw_op *op);

/* Completes every outstanding operation on `peer` (NULL: on all), synchronously: with GW_OP_UNKNOWN, or
 * GW_OP_UNREACHABLE when it was not sent yet. What still arrives for it is dropped, and its buffer no longer
 * touched. How a peer resolves its steals when it freezes. The completions come from inside this call. A peer
 * may leave FETCHes unanswered for ever, as its disk hangs: after many that were abandoned its link ends. */
void gw_transport_abandon(gw_transport *transport, const gw_peer_id *peer);

/* Ends the link to a peer, if there is one, and forgets how the paths to it fared. Outstanding operations
 * complete with GW_OP_UNKNOWN; no link_down. */
void gw_transport_unlink(gw_transport *transport, const gw_peer_id *peer);

/* True: a worker is idle, so the data thread that serves and completes small operations polls for a while
 * after each thing it did (up to 0.1 ms, in which a busy flock's next one comes) instead of sleeping at once:
 * a wake-up costs more than the operation. Off at first. Any thread. */
void gw_transport_spin(gw_transport *transport, bool spin);

/* What was done since the transport was opened. Operations are counted where they were done, once each. */
typedef struct gw_transport_counts {
    uint64_t direct;       /* of this peer's own: by a path, with no thread of the other peer's */
    uint64_t served;       /* of other peers': by this peer's threads */
    uint64_t pulled_bytes; /* of FETCHes and large READs: taken from other peers' memory by a device */
} gw_transport_counts;

gw_transport_counts gw_transport_count(gw_transport *transport);

/* Ends all links and threads; outstanding operations complete first. Regions are withdrawn. Not to be called
 * while a collective (net/collective/collective.h) is open on it. */
void gw_transport_close(gw_transport *transport);

/* "ok", "mismatch", ... */
const char *gw_op_status_name(gw_op_status status);
/* "tcp", "shm", "rdma" */
const char *gw_path_kind_name(gw_path_kind kind);

#endif
