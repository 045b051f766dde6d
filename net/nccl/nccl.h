/* Sums over the GPUs of all members of a view by NCCL, as a state machine: begin, poll, abort. There is one
 * rank for each GPU; the GPUs of one peer are driven together (grouped calls). Communicators are
 * non-blocking, so no call here waits for another peer, and what would only end by waiting ends by a
 * deadline.
 *
 *    form -> FORMED -> sum -> SUMMED -> sum ...     at any point: ENDED (failed, or gw_nccl_abort), or LOST
 *
 * After ENDED there is no communicator, and no memory of a sum is touched any more; a new communicator may be
 * formed with a new id. After LOST the GPU cannot be used any more, because NCCL or CUDA does not release it,
 * and the process should end.
 *
 * Deadlines count this process's own time: a stretch in which it did not run (stopped, starved) counts for at
 * most GW_NCCL_GAP_NS.
 *
 * Thread: one thread makes all calls, since NCCL's groups belong to a thread. gw_nccl_abort and a poll
 * that fails may wait for NCCL's own threads to end; net/nccl/gpu_sums.h keeps that away from all other
 * threads. */
#ifndef GODWIT_NET_NCCL_NCCL_H
#define GODWIT_NET_NCCL_NCCL_H

#include "net/collective/collective.h"
#include "net/nccl/api.h"
#include "net/nccl/narrow.h"

typedef struct gw_nccl gw_nccl;

enum { GW_NCCL_GPUS = 16 }; /* most GPUs of one peer */
#define GW_NCCL_GAP_NS UINT64_C(250000000)
/* The default size of the parts of a sum. The end of a part is progress, so one part has to cross the slowest
 * network within progress_ns: for 64 MiB a rank sends and receives up to 128 MiB, which takes 5 s at 220
 * Mb/s. Later parts are queued meanwhile, so fast networks do not wait; much smaller parts would cost
 * bandwidth within a node. */
#define GW_NCCL_BUCKET_BYTES ((uint64_t)64 << 20)

/* The default size from which exact sums are narrowed (net/nccl/narrow.h). Finding the widths takes two
 * exchanges with the GPU, some 100 us, in which a link of 400 GB/s moves 40 MB. */
#define GW_NCCL_NARROW_BYTES ((uint64_t)32 << 20)

typedef struct gw_nccl_options {
    const gw_nccl_api *nccl; /* both must outlive the object */
    const gw_cuda_api *cuda;
    const int *gpus; /* their CUDA ordinals (1 to GW_NCCL_GPUS, copied); their primary contexts are used */
    uint32_t gpu_count;
    uint64_t bucket_bytes; /* a large sum is cut into parts of this size; 0: GW_NCCL_BUCKET_BYTES */
    /* A communicator that is not ready after form_ns has failed; so has a sum of which no part has ended for
     * progress_ns, and an end that takes longer than that. Until the first part of its first sum has ended, a
     * communicator has form_ns for that too, if that is longer, since NCCL makes its connections then. */
    uint64_t form_ns, progress_ns;
    /* How exact sums are narrowed; must outlive the object. NULL: they are not. Sums whose exact elements take
     * fewer than narrow_bytes are not narrowed either; 0: GW_NCCL_NARROW_BYTES. */
    const gw_nccl_narrow *narrow;
    uint64_t narrow_bytes;
} gw_nccl_options;

/* A communicator that is to be formed: `ranks` GPUs in all, this peer's from rank `first` on in the order of
 * the options. */
typedef struct gw_nccl_team {
    gw_nccl_id id;
    uint32_t ranks, first;
    bool narrow; /* every member narrows exact sums, with the same options */
} gw_nccl_team;

/* `count` elements of GPU memory, summed from every rank's `in` to every rank's `out`, which are distinct
 * memory. The contents of `in` must be complete: sums have a stream of their own, which waits for no
 * other. */
typedef struct gw_nccl_piece {
    const void *in;
    void *out;
    uint64_t count;
    gw_sum_type type;
} gw_nccl_piece;

typedef enum gw_nccl_event {
    GW_NCCL_NOTHING = 0,
    GW_NCCL_FORMED,
    GW_NCCL_SUMMED,
    GW_NCCL_ENDED, /* err says why; GW_E_ABORTED after gw_nccl_abort */
    GW_NCCL_LOST,  /* err says what hangs or has failed, with the GPU's number */
} gw_nccl_event;

/* Opens the GPUs. NULL on failure. */
gw_nccl *gw_nccl_open(const gw_nccl_options *options, gw_err *err);
/* Closes the GPUs. There must be no communicator; after LOST the GPUs are left as they are. NULL is
 * allowed. */
void gw_nccl_close(gw_nccl *nccl);

/* Makes the id of a new communicator for all its members. The caller need not be one of them. */
bool gw_nccl_make_id(const gw_nccl_api *api, gw_nccl_id *id, gw_err *err);

/* Starts forming a communicator; there must be none. Failures come by poll. */
void gw_nccl_form(gw_nccl *nccl, const gw_nccl_team *team, uint64_t now_ns);

/* Starts a sum of pieces[count] on each GPU, those of GPU g at pieces[g * count]; types and counts are equal
 * on all ranks. The array is copied. Allowed after FORMED, and not during another sum. The caller makes sure
 * that all members are about to enter, because the deadline counts from here. Failures come by poll. */
void gw_nccl_sum(gw_nccl *nccl, const gw_nccl_piece *pieces, uint32_t count, uint64_t now_ns);

/* The bytes of the elements that this peer's GPUs have given to NCCL in the last sum. */
uint64_t gw_nccl_moved_bytes(const gw_nccl *nccl);

/* Makes progress; it must be called often while something is under way. Fills in *err for ENDED and LOST. */
gw_nccl_event gw_nccl_poll(gw_nccl *nccl, uint64_t now_ns, gw_err *err);

/* Ends whatever there is: all ranks of this peer, as one group. Then poll until ENDED or LOST. No-op where
 * there is no communicator, or it is ending. */
void gw_nccl_abort(gw_nccl *nccl, uint64_t now_ns);

/* Nothing is there, nothing is under way: gw_nccl_form may be called. */
bool gw_nccl_is_idle(const gw_nccl *nccl);

#endif
