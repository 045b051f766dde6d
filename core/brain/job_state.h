/* The state of the job that this peer holds, and where the job ends. Every room of the brain reads p->state;
 * only this file writes it. */
#ifndef GODWIT_CORE_BRAIN_JOB_STATE_H
#define GODWIT_CORE_BRAIN_JOB_STATE_H

#include "core/brain/peer.h"

typedef struct gw_job_state {
    bool present;  /* the state is in memory and counts; otherwise the members below describe the last one */
    uint64_t step; /* steps done in the state, which is also the number of the step in progress */
    uint64_t fingerprint; /* of the state */
    /* The state after `end_step` steps is the job's last one, because all steps are done or because a user
     * stopped the job. A view can begin with a last state that this peer has yet to fetch. */
    bool ended, stopped;
    uint64_t end_step;
} gw_job_state;

/* This peer holds the state after `step` steps. If it is not `sound`, it counts for nothing. */
void gw_job_state_take(gw_peer *p, uint64_t step, uint64_t fingerprint, bool sound);
/* The step in progress has been applied. */
void gw_job_state_advance(gw_peer *p, uint64_t fingerprint);
/* The state that this peer holds may be wrong and counts for nothing. */
void gw_job_state_drop(gw_peer *p);
/* Names the state with which the job has ended, whether this peer holds it or not. */
void gw_job_state_name(gw_peer *p, uint64_t step, uint64_t fingerprint);
/* Notes whether the state after `step` steps is the job's last one, and whether a user stopped the job. */
void gw_job_state_set_end(gw_peer *p, uint64_t step, bool ended, bool stopped);

#endif
