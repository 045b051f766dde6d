/* The sums of a peer whose device lies on GPUs: the view's communicator (net/nccl/gpu_team.h) and the thread
 * that drives NCCL (net/nccl/gpu_sums.h), tied to the peer's loop.
 *
 * Sums go by NCCL while all members can (gw_gpus_ready); it is the caller's to ask them all, in a small
 * all-reduce on host memory that is also the barrier before NCCL's deadlines count. Where NCCL is missing
 * here, or has failed several times in a row, this peer says no, and sums go through host memory. After a
 * while it takes part in forming a communicator again, beside these sums, and says yes once that is there;
 * one more failure, and the next while is twice as long.
 *
 * Threads: the loop's, unless a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_GPUS_H
#define GODWIT_TOOLS_GODWIT_WORK_GPUS_H

#include "net/loop/loop.h"
#include "net/nccl/gpu_sums.h"
#include "net/nccl/gpu_team.h"

enum {
    GW_GPUS_FAILURES = 3 /* in a row: after so many sums that NCCL failed it is left alone for a while */
};

typedef struct gw_gpus gw_gpus;

typedef struct gw_gpus_options {
    const gw_nccl_api *nccl;
    const gw_cuda_api *cuda;
    const int *ordinals; /* CUDA's, of this peer's GPUs */
    uint32_t count;
    gw_loop *loop;
    gw_peer_id self;
    uint32_t time_scale_percent;
    uint64_t retry_ns; /* until NCCL that was given up is tried again, doubling; 0: a minute */
    void *context;     /* of what follows */
    /* On a control link; dropped silently where none stands. */
    void (*send)(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length);
    /* The thread of the sums: a call of gw_gpus_start is done. */
    gw_collective_done *done;
    /* The thread of the sums: a GPU can be used no more, this peer should leave. */
    void (*lost)(void *context, const gw_err *why);
} gw_gpus_options;

/* NULL on failure. */
gw_gpus *gw_gpus_open(const gw_gpus_options *options, gw_err *err);
/* The loop runs no more. False: NCCL does not return, or a GPU is lost, and the process must end as it is.
 * NULL is allowed. */
bool gw_gpus_close(gw_gpus *gpus, uint64_t patience_ns);

/* This peer is in this view; in none, which ends a sum and the communicator. */
void gw_gpus_install(gw_gpus *gpus, const gw_view *view);
void gw_gpus_leave(gw_gpus *gpus);
/* A control link to a peer came up. */
void gw_gpus_linked(gw_gpus *gpus, const gw_peer_id *peer);
/* A message that begins with GW_GPU_TEAM_MARK. */
void gw_gpus_hear(gw_gpus *gpus, const gw_peer_id *from, const uint8_t *bytes, size_t length);

/* Any thread. Whether this peer can sum by NCCL now. */
bool gw_gpus_ready(gw_gpus *gpus);
/* Any thread. A sum that came about was right. */
void gw_gpus_trust(gw_gpus *gpus);
/* Any thread. It failed its checks: NCCL is left alone for a while at once, as sums through host memory tell
 * between whom bits change (net/collective/collective.h), and for longer each time before one is right. */
void gw_gpus_distrust(gw_gpus *gpus);

/* Any thread. Starts a sum; one `done` follows. All members are about to do the same. */
void gw_gpus_start(gw_gpus *gpus, const gw_gpu_call *call);
/* Any thread. Ends a sum that was started. */
void gw_gpus_abort(gw_gpus *gpus);

/* Since when NCCL is in a call that should return at once; 0 = it is in none. */
uint64_t gw_gpus_inside_since(gw_gpus *gpus);
/* Any thread. Sums and communicators that did not come to their end. */
gw_gpu_cuts gw_gpus_cut(gw_gpus *gpus);

#endif
