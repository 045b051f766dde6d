/* NCCL on a thread of its own: what net/nccl/nccl.h does by polling happens here by itself, so that nobody
 * else waits for NCCL. One communicator at a time, that of a view: make an id (the leader), form, sum, abort.
 *
 * Threads: every function may be called from any thread, _open and _close from one. Events come on the thread
 * of the sums, with no lock held; they must be quick and must not call gw_gpu_sums_close. */
#ifndef GODWIT_NET_NCCL_GPU_SUMS_H
#define GODWIT_NET_NCCL_GPU_SUMS_H

#include "net/nccl/nccl.h"

typedef struct gw_gpu_sums gw_gpu_sums;

typedef struct gw_gpu_sums_events {
    void *context;
    /* The id asked for by gw_gpu_sums_make_id. */
    void (*id_made)(void *context, const gw_nccl_id *id);
    /* A view's communicator is there. */
    void (*formed)(void *context, const gw_fence *fence);
    /* What a view's GPUs cannot do and why: no id, no communicator. Sums of that view fail with the same. */
    void (*failed)(void *context, const gw_fence *fence, const gw_err *why);
    /* A GPU can be used no more: once, and every sum fails from now on. The peer should leave. */
    void (*lost)(void *context, const gw_err *why);
    gw_collective_done
        *done; /* of a call. Bytes are those that a ring moves: NCCL does not say what it does */
} gw_gpu_sums_events;

typedef struct gw_gpu_call {
    gw_fence fence;              /* of the communicator to use: GW_E_FENCED if another view's is there */
    const gw_nccl_piece *pieces; /* as in gw_nccl_sum; the array is copied */
    uint32_t piece_count;        /* on each GPU */
    uint64_t token;              /* given back */
} gw_gpu_call;

/* As gw_nccl_open, and starts the thread. */
gw_gpu_sums *gw_gpu_sums_open(const gw_nccl_options *options, const gw_gpu_sums_events *events, gw_err *err);
/* Aborts, waits for the thread and frees. False: NCCL does not return within `patience_ns`, or a GPU is lost,
 * whose driver may keep whoever frees its memory. Then nothing is freed, and the process must end as it is.
 * NULL is allowed. */
bool gw_gpu_sums_close(gw_gpu_sums *sums, uint64_t patience_ns);

/* The most ids without a communicator: each may have left a thread and a socket of NCCL's behind. */
enum { GW_GPU_SUMS_ORPHANS = 1024 };

/* Wants an id; `failed` tells of this view that there can be none, as GW_GPU_SUMS_ORPHANS were made in vain,
 * or NCCL does not make one. An abort may come before it is made: then none is. */
void gw_gpu_sums_make_id(gw_gpu_sums *sums, const gw_fence *fence);
/* Forms the view's communicator, after ending that of another view. */
void gw_gpu_sums_form(gw_gpu_sums *sums, const gw_fence *fence, const gw_nccl_team *team);
/* Starts a sum, which waits for its view's communicator if that is not there yet (as long as forming may
 * take). One at a time. Exactly one `done` follows. */
void gw_gpu_sums_start(gw_gpu_sums *sums, const gw_gpu_call *call);
/* Ends a call (GW_COLLECTIVE_ABORTED), the communicator, and what was asked for before. */
void gw_gpu_sums_abort(gw_gpu_sums *sums);

/* For how long NCCL has been in one call that should return at once; 0 = it is not in one. A peer in which
 * this grows beyond seconds can do nothing about it. */
uint64_t gw_gpu_sums_inside_since(gw_gpu_sums *sums);

/* What did not come to its end so far, as a member died or left, or NCCL failed. */
typedef struct gw_gpu_cuts {
    uint64_t sums;          /* that NCCL was at */
    uint64_t communicators; /* that were forming */
} gw_gpu_cuts;

gw_gpu_cuts gw_gpu_sums_cut(gw_gpu_sums *sums);

#endif
