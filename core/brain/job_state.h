/* The state of the job that a peer holds, and where the job ends. Every room of the brain reads p->state; only the
 * functions of this file write it. */
#ifndef GODWIT_CORE_BRAIN_JOB_STATE_H
#define GODWIT_CORE_BRAIN_JOB_STATE_H

#include "core/brain/peer.h"

typedef struct gw_job_state {
    bool present;  /* the state is in memory here; without one, `step` and `fingerprint` are of the last */
    uint64_t step; /* the steps done in that state, which is the number of the step in progress */
    uint64_t fingerprint; /* of that state */
    bool ended, stopped;  /* state number `end_step` is the job's last one; because a user stopped the job */
    uint64_t
        end_step; /* of the state that `ended` and `stopped` are about: the view may begin with a state that
                             this peer has yet to fetch */
} gw_job_state;

/* This peer holds the state after `step` steps. It is present where `sound`, and otherwise must not be used. */
void gw_job_state_take(gw_peer *p, uint64_t step, uint64_t fingerprint, bool sound);
/* The step in progress has been applied. */
void gw_job_state_advance(gw_peer *p, uint64_t fingerprint);
/* What this peer holds may be wrong, and counts for nothing. */
void gw_job_state_drop(gw_peer *p);
/* The job is known to end with this state, though this peer may not hold it. */
void gw_job_state_name(gw_peer *p, uint64_t step, uint64_t fingerprint);
/* Whether state number `step` is the job's last one, and whether that is because a user stopped the job. */
void gw_job_state_set_end(gw_peer *p, uint64_t step, bool ended, bool stopped);

#endif
