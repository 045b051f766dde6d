/* The action REDUCE: the sums of a step. The compute helper prepares and checks them; the threads of the
 * data links, or NCCL, carry them. The loop ends a reduction early when the brain freezes. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_REDUCE_H
#define GODWIT_TOOLS_GODWIT_WORK_REDUCE_H

#include "core/record/view.h"
#include "tools/godwit/receipt/receipts.h"
#include "tools/godwit/thread/helper.h"
#include "tools/godwit/work/data/links.h"
#include "tools/godwit/work/engine.h"
#include "tools/godwit/work/gpus.h"

/* Shared by the loop, the compute helper and the threads that carry sums. One reduction runs at a time. */
typedef struct gw_reduction {
    gw_engine *engine; /* The pointers are borrowed. */
    gw_data_links *data_links;
    gw_gpus *gpus; /* NULL: sums go through host memory */
    gw_helper *compute;
    gw_mailbox *mail;
    gw_receipts *receipts; /* learn of each right sum; NULL: nobody does */
    gw_peer_id self;
    bool fast, verify; /* as the options --reduce and --verify say */
    uint32_t time_scale_percent;

    /* Results of the reduction's collective calls. The lock guards them while calls are pending. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t pending; /* collective calls that are not done */
    bool failed, aborted;
    gw_err err;         /* why the first call failed */
    gw_peer_id suspect; /* the peer at which it failed; zeros = not known */
    bool bits_changed; /* the suspect's part came with other bits than it had (net/collective/collective.h) */
    uint64_t sent_bytes, received_bytes, saved_bytes;

    bool begun;               /* the loop's: there has been a reduction */
    uint64_t step;            /* the loop's: of the last reduction */
    atomic_bool stop;         /* the brain froze: the reduction must end soon */
    _Atomic uint64_t stop_ns; /* when `stop` was set */
    _Atomic uint64_t
        alone_ns; /* since when the compute helper has waited for no other peer; 0 = it waits for one */
    atomic_bool underway; /* from the action until its mail is delivered */
    /* The begin and the step of the reduction that runs, for a trace (core/os/trace.h). The begin is 0 while none
     * runs. Any thread reads them. */
    _Atomic uint64_t traced_ns, traced_step;
    atomic_int place; /* gw_place of the latest sums of several members; 0 = none yet */
} gw_reduction;

/* Loop: begins a REDUCE of `step` in a view, which ends with the event REDUCED. */
void gw_reduction_begin(gw_reduction *reduction, const gw_view *view, uint64_t step, const gw_action *action);
/* Loop: makes the reduction under way end soon. */
void gw_reduction_stop(gw_reduction *reduction);
/* Any thread: a collective call is done; the context is the gw_reduction. */
gw_collective_done gw_reduction_call_done;

#endif
