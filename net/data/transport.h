/* The data plane between peers: one-sided operations on each other's memory, fetches by name, and the
 * messages of collectives (net/data/rail.h). Every backend implements this interface. The backend of godwit
 * is net/fabric/fabric.h: TCP, with shared memory and RDMA below it.
 *
 * One-sided operations. A peer exposes *regions* under small numbers that are the same on every peer ("region
 * 1 holds the range word"). Other peers READ, WRITE, compare-and-swap or fetch-add them by (peer, region,
 * offset). No code of the owner's job runs: over RDMA the network card serves the operation, in shared memory
 * the requester's own CPU, over TCP the owner's data thread. There are two kinds of regions:
 *   data    READ only, at any offset and length. The memory belongs to the owner, which keeps it unchanged
 *           while it may be read.
 *   words   8-byte words, each atomic: READ, WRITE, CAS and FETCH_ADD, 8-byte aligned. They are the only
 *           memory that others can write. They belong to the transport; the owner too uses them only by the
 *           gw_transport_word functions, which are atomic with respect to the operations of other peers.
 * The transport itself tells the members what they need to reach a region (rkeys, addresses, descriptors).
 *
 * A large READ of a data region and a FETCH go over RDMA as a loan: the owner's control thread answers with
 * the address and the key, and the requester's device READs the bytes from there. When a fence or a
 * withdrawal ends the loan, the device refuses.
 *
 * Fence. Every operation names the view (epoch and name) that it belongs to. It takes effect only if this is
 * the view of the owner's fence, which is checked atomically with the operation; otherwise it completes with
 * GW_OP_FENCED. After gw_transport_fence has returned, no operation of another view takes effect.
 *
 * Tokens. Every operation carries a token, which exactly one completion returns. Operations that are
 * outstanding at the same time are not ordered.
 *
 * Threads. Every function here may be called from any thread, unless it says otherwise. Completions and link
 * events come on the transport's own threads, several at once: handlers must be quick and must not wait. They
 * may post new operations, but must not call gw_transport_fence, _register, _withdraw, _abandon or _close,
 * and those must not be called holding a lock that a handler takes; the link handlers must not call _unlink
 * either. */
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

/* The view that operations belong to. All zeros is no view: nothing is served. */
typedef struct gw_fence {
    uint64_t epoch;
    gw_view_name view;
} gw_fence;

static inline bool gw_fence_equal(const gw_fence *a, const gw_fence *b) {
    return a->epoch == b->epoch && gw_view_name_equal(&a->view, &b->view);
}

/* Whether `peer` is one of `members`, which need not be sorted. */
static inline bool gw_is_member(const gw_peer_id *members, uint32_t count, const gw_peer_id *peer) {
    for (uint32_t i = 0; i < count; i++)
        if (gw_peer_id_equal(&members[i], peer)) return true;
    return false;
}

/* The kinds of paths (net/rail/path.h) by which a peer is reached. */
typedef enum gw_path_kind { GW_PATH_TCP = 1, GW_PATH_SHM, GW_PATH_RDMA } gw_path_kind;

typedef enum gw_op_kind {
    GW_OP_READ = 1, /* `bytes` bytes at `offset` to `buffer` */
    GW_OP_WRITE,    /* `bytes` bytes from `buffer` (copied before the call returns); at most GW_WRITE_BYTES */
    GW_OP_CAS,      /* word at `offset`: if it is `expected`, make it `operand`; value = the word found */
    GW_OP_FETCH_ADD, /* word at `offset` += `operand`; value = the word before */
    GW_OP_FETCH, /* the bytes called `name` to `buffer`, at most `bytes`; needs no fence. value = how many */
} gw_op_kind;

/* An operation. `buffer` stays the caller's and must live until the completion; a backend reads or writes it
 * in place where it can. */
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
    /* A counter to which the bytes of a READ or FETCH are added as they arrive, long before a large one is
     * complete. Bytes that are transferred again, because a path failed, count again. It must live until the
     * completion. May be NULL. */
    _Atomic uint64_t *landed;
} gw_op;

typedef enum gw_op_status {
    GW_OP_OK = 1,
    GW_OP_MISMATCH, /* CAS: not swapped; value = the word found */
    GW_OP_FENCED,   /* the owner's fence stands elsewhere: nothing happened (of a READ: buffer undefined) */
    GW_OP_DENIED,   /* no such region, out of bounds, misaligned, or not allowed there: nothing happened */
    GW_OP_NOTFOUND, /* FETCH: nothing there by that name, or more than `bytes` */
    GW_OP_UNAVAILABLE, /* FETCH: the bytes may exist but could not be read just now */
    GW_OP_UNREACHABLE, /* there was no link: nothing was sent, so the operation has not taken effect */
    GW_OP_UNKNOWN,     /* the link broke or the operation was abandoned: it may have taken effect */
} gw_op_status;

typedef struct gw_completion {
    uint64_t token;
    gw_peer_id peer;
    gw_op_kind kind;
    gw_op_status status;
    uint64_t value; /* CAS, FETCH_ADD: the word found. READ of 8 bytes: the word. FETCH: the length */
} gw_completion;

/* The provider serves FETCHes. `find` finds the bytes called `name` and returns GW_OP_OK, GW_OP_NOTFOUND or
 * GW_OP_UNAVAILABLE. After GW_OP_OK, *bytes and *length stay valid until `release`, which is called once, on
 * any transport thread. `find` runs on two threads of its own, off the hot path: one for names that
 * `in_memory` says are found without a file, which therefore never wait for a disk, and one for all other
 * names, where it may read files. `in_memory` judges the name alone, whether or not there is anything by that
 * name; it may be NULL (no name is in memory) and runs on any transport thread. */
typedef struct gw_fetch_provider {
    void *context;
    gw_op_status (*find)(void *context, const gw_peer_id *requester, const gw_hash *name, const void **bytes,
                         uint64_t *length);
    void (*release)(void *context, const void *bytes, uint64_t length);
    bool (*in_memory)(void *context, const gw_hash *name);
} gw_fetch_provider;

typedef struct gw_transport_events {
    void *context;
    void (*completed)(void *context, const gw_completion *completion);
    /* A data link to `peer` is up. `link` is its number (numbers rise), `kind` the path that it takes. */
    void (*link_up)(void *context, const gw_peer_id *peer, uint64_t link, gw_path_kind kind);
    /* Data link `link` to `peer` is down. Its outstanding operations complete with GW_OP_UNKNOWN and
     * collectives through it fail, before this call or soon after it. Called once per link, unless
     * gw_transport_unlink or a newer link has ended it. It is also called for a link that could not be
     * brought up, whose number link_up has not given, and which has ended the link before it: no link is up
     * after a number that is at least that of the last link_up. `why` is valid during the call. */
    void (*link_down)(void *context, const gw_peer_id *peer, uint64_t link, const gw_err *why);
} gw_transport_events;

/* Registers a data region: members of the fence's view may READ [memory, memory + bytes). The memory is the
 * caller's and must live until the region is withdrawn. Fails with GW_E_LIMIT for a bad number and with
 * GW_E_INVALID if the number is in use or there is no memory. */
bool gw_transport_register(gw_transport *transport, uint32_t region, const void *memory, uint64_t bytes,
                           gw_err *err);
/* Withdraws a data region, synchronously: afterwards no operation touches its memory. Does nothing for an
 * unused number. */
void gw_transport_withdraw(gw_transport *transport, uint32_t region);

/* Makes a words region of `count` zeros, which lasts until the transport is closed. There is room for some
 * thousand words in all. It must not be called while another thread may move the fence or use the number. */
bool gw_transport_share_words(gw_transport *transport, uint32_t region, uint64_t count, gw_err *err);
/* The owner's atomic operations on word `index` of a words region. gw_transport_word_swap stores `desired` if
 * the word is *expected; otherwise it returns false and sets *expected to the word. */
uint64_t gw_transport_word_load(gw_transport *transport, uint32_t region, uint64_t index);
void gw_transport_word_store(gw_transport *transport, uint32_t region, uint64_t index, uint64_t value);
bool gw_transport_word_swap(gw_transport *transport, uint32_t region, uint64_t index, uint64_t *expected,
                            uint64_t desired);

/* Moves the fence, synchronously. From now on only `members[count]` (copied) are served; with `fence` NULL or
 * zeros nobody is. Fails when out of memory. The old fence has ended all the same and nobody is served, so
 * the peer must not go on: others would wait for it. */
bool gw_transport_fence(gw_transport *transport, const gw_fence *fence, const gw_peer_id *members,
                        uint32_t count, gw_err *err);

/* Starts an operation; its completion may come before this returns. */
void gw_transport_post(gw_transport *transport, const gw_op *op);

/* Abandons every outstanding operation on `peer` (NULL: on all peers), synchronously: each completes from
 * inside this call, with GW_OP_UNREACHABLE if it was not sent yet, else with GW_OP_UNKNOWN. Later answers are
 * dropped, and the buffers are not touched any more. A peer resolves its steals this way when it freezes for
 * a view change. A peer whose disk hangs may never answer FETCHes; after many abandoned ones its link is
 * ended. */
void gw_transport_abandon(gw_transport *transport, const gw_peer_id *peer);

/* Ends the data link to a peer, if there is one, and discards the history of failed paths to it. Outstanding
 * operations complete with GW_OP_UNKNOWN. There is no link_down. */
void gw_transport_unlink(gw_transport *transport, const gw_peer_id *peer);

/* Switches polling on or off; initially it is off. Switched on while a worker is idle, it makes the data
 * thread of small operations poll for up to 0.1 ms after each event instead of sleeping at once, because a
 * wake-up costs more than the operation. Any thread. */
void gw_transport_spin(gw_transport *transport, bool spin);

/* Counters since the transport was opened. Each operation is counted once, at the peer that executed it. */
typedef struct gw_transport_counts {
    uint64_t direct; /* this peer's operations that a path executed without a thread of the other peer */
    uint64_t served; /* other peers' operations that this peer's threads executed */
    uint64_t pulled_bytes; /* bytes of FETCHes and large READs that a device took from other peers' memory */
} gw_transport_counts;

gw_transport_counts gw_transport_count(gw_transport *transport);

/* Ends all links and threads and withdraws the regions; outstanding operations complete first. Must not be
 * called while a collective (net/collective/collective.h) is open on the transport. */
void gw_transport_close(gw_transport *transport);

/* "ok", "mismatch", ... */
const char *gw_op_status_name(gw_op_status status);
/* "tcp", "shm", "rdma" */
const char *gw_path_kind_name(gw_path_kind kind);

#endif
