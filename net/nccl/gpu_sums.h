/* NCCL on a thread of its own, which polls the state machine of net/nccl/nccl.h, so that no other thread
 * waits for NCCL. There is one communicator at a time, that of a view: make an id (the leader), form, sum,
 * abort.
 *
 * Threads: every function may be called from any thread, but gw_gpu_sums_open and gw_gpu_sums_close must be
 * called by one. Events come on the thread of the sums, without a lock held; they must be quick and must not
 * call gw_gpu_sums_close. */
#ifndef GODWIT_NET_NCCL_GPU_SUMS_H
#define GODWIT_NET_NCCL_GPU_SUMS_H

#include "net/nccl/nccl.h"

typedef struct gw_gpu_sums gw_gpu_sums;

typedef struct gw_gpu_sums_events {
    void *context;
    /* The id that gw_gpu_sums_make_id requested. */
    void (*id_made)(void *context, const gw_nccl_id *id);
    /* A view's communicator is ready. */
    void (*formed)(void *context, const gw_fence *fence);
    /* A view's GPUs have no id or no communicator, and why. Sums of that view fail with the same reason. */
    void (*failed)(void *context, const gw_fence *fence, const gw_err *why);
    /* A GPU cannot be used any more. Called once; every sum fails from now on, and the peer should leave. */
    void (*lost)(void *context, const gw_err *why);
    /* The end of a call. Its bytes are those that a ring moves, since NCCL does not report its own. */
    gw_collective_done *done;
} gw_gpu_sums_events;

typedef struct gw_gpu_call {
    /* The view of the communicator to use; fails with GW_E_FENCED if there is one of another view. */
    gw_fence fence;
    const gw_nccl_piece *pieces; /* as in gw_nccl_sum; the array is copied */
    uint32_t piece_count;        /* pieces on each GPU */
    uint64_t token;              /* returned in the result */
} gw_gpu_call;

/* Opens the GPUs as gw_nccl_open does, and starts the thread. NULL on failure. */
gw_gpu_sums *gw_gpu_sums_open(const gw_nccl_options *options, const gw_gpu_sums_events *events, gw_err *err);
/* Aborts, waits for the thread and frees. False if NCCL does not return within `patience_ns`, or if a GPU is
 * lost, whose driver may block a thread that frees its memory. Then nothing is freed and the process must end
 * as it is. NULL is allowed. */
bool gw_gpu_sums_close(gw_gpu_sums *sums, uint64_t patience_ns);

/* The most ids that were made without a communicator being formed: each may have left a thread and a socket
 * of NCCL behind. */
enum { GW_GPU_SUMS_ORPHANS = 1024 };

/* Requests an id. `failed` reports that there can be none for this view, because GW_GPU_SUMS_ORPHANS were
 * made in vain or NCCL does not make one. An abort before it is made cancels the request. */
void gw_gpu_sums_make_id(gw_gpu_sums *sums, const gw_fence *fence);
/* Forms the communicator of the view, after ending that of another view. */
void gw_gpu_sums_form(gw_gpu_sums *sums, const gw_fence *fence, const gw_nccl_team *team);
/* Starts a sum, which waits for its view's communicator if that is not ready yet, for as long as forming may
 * take. One at a time; exactly one `done` follows. */
void gw_gpu_sums_start(gw_gpu_sums *sums, const gw_gpu_call *call);
/* Ends the call (with GW_COLLECTIVE_ABORTED), the communicator, and everything that was requested before. */
void gw_gpu_sums_abort(gw_gpu_sums *sums);

/* The time (gw_now_ns) at which the thread entered the call of NCCL in which it is, and which should return
 * at once; 0 if it is in none. If this is seconds ago, the peer can do nothing about it. */
uint64_t gw_gpu_sums_inside_since(gw_gpu_sums *sums);

/* What was interrupted so far because a member died or left, or NCCL failed. */
typedef struct gw_gpu_cuts {
    uint64_t sums;          /* sums that NCCL had begun */
    uint64_t communicators; /* communicators that were being formed */
} gw_gpu_cuts;

gw_gpu_cuts gw_gpu_sums_cut(gw_gpu_sums *sums);

#endif
