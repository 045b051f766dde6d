/* The sums of a peer whose device lies on GPUs: the view's communicator (net/nccl/gpu_team.h) and the
 * thread that drives NCCL (net/nccl/gpu_sums.h), tied to the peer's loop.
 *
 * Sums go by NCCL while all members are ready for it (gw_gpus_ready). The caller asks them all, in a small
 * all-reduce on host memory that is also the barrier before the deadlines of NCCL count. When NCCL has
 * failed several times in a row, this peer is not ready, and sums go through host memory. After a pause it
 * takes part in forming a communicator again, beside these sums, and is ready once there is one. After one
 * more failure the pause is twice as long.
 *
 * Threads: the loop's, unless a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_GPUS_H
#define GODWIT_TOOLS_GODWIT_WORK_GPUS_H

#include "net/loop/loop.h"
#include "net/nccl/gpu_sums.h"
#include "net/nccl/gpu_team.h"

enum {
    GW_GPUS_FAILURES = 3 /* NCCL pauses after so many failed sums in a row */
};

typedef struct gw_gpus gw_gpus;

typedef struct gw_gpus_options {
    const gw_nccl_api *nccl;
    const gw_cuda_api *cuda;
    const int *ordinals; /* CUDA's numbers of this peer's GPUs */
    uint32_t count;
    gw_loop *loop;
    gw_peer_id self;
    uint32_t time_scale_percent;
    const gw_nccl_narrow *narrow; /* how exact sums are narrowed; NULL: they are not */
    uint64_t narrow_bytes;        /* as in gw_nccl_options; all peers have the same */
    uint64_t retry_ns;            /* the first pause of NCCL, doubled by each further failure; 0 = a minute */
    void *context;                /* of the functions that follow */
    /* Sends a message on a control link; drops it silently if none stands. */
    void (*send)(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length);
    /* On the thread of the sums: a call of gw_gpus_start is done. */
    gw_collective_done *done;
    /* On the thread of the sums: a GPU can be used no more, and this peer should leave. */
    void (*lost)(void *context, const gw_err *why);
} gw_gpus_options;

/* NULL on failure. */
gw_gpus *gw_gpus_open(const gw_gpus_options *options, gw_err *err);
/* To be called when the loop runs no more. False: NCCL does not return, or a GPU is lost, and the process
 * must end as it is. NULL is allowed. */
bool gw_gpus_close(gw_gpus *gpus, uint64_t patience_ns);

/* This peer is in this view from now on. Ends a sum that is under way. */
void gw_gpus_install(gw_gpus *gpus, const gw_view *view);
/* This peer is in no view. Ends a sum that is under way, and the communicator. */
void gw_gpus_leave(gw_gpus *gpus);
/* A control link to a peer came up. */
void gw_gpus_linked(gw_gpus *gpus, const gw_peer_id *peer);
/* Takes a message that begins with GW_GPU_TEAM_MARK. */
void gw_gpus_hear(gw_gpus *gpus, const gw_peer_id *from, const uint8_t *bytes, size_t length);

/* Any thread. Whether this peer can sum by NCCL now. */
bool gw_gpus_ready(gw_gpus *gpus);
/* Any thread. A sum by NCCL was right. */
void gw_gpus_trust(gw_gpus *gpus);
/* Any thread. A sum by NCCL failed its checks: NCCL pauses at once, because sums through host memory show
 * between which peers bits change (net/collective/collective.h). The pause doubles each time until a sum
 * is right. */
void gw_gpus_distrust(gw_gpus *gpus);

/* Any thread. Starts a sum; one call of `done` follows. All members must start the same. */
void gw_gpus_start(gw_gpus *gpus, const gw_gpu_call *call);
/* Any thread. Ends a sum that was started. */
void gw_gpus_abort(gw_gpus *gpus);

/* Since when (gw_now_ns) NCCL has been in a call that should return at once; 0 = it is in none. */
uint64_t gw_gpus_inside_since(gw_gpus *gpus);
/* Any thread. Numbers of sums and communicators that were cut short. */
gw_gpu_cuts gw_gpus_cut(gw_gpus *gpus);

#endif
