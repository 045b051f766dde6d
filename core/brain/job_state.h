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
    gw_best best; /* of the state */
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

/* Replaces the record of the best state, as a view or a checkpoint says; NULL: nothing has been evaluated.
 * With exact sums a step has one state, so a checkpoint of that best state which this peer knows to be
 * whole stays known, although the others, from which it was parted, could not save one. */
void gw_job_state_set_best(gw_peer *p, const gw_best *best);
/* Takes over the leader's best value (GW_SLOT_BEST), so that all members compare alike. */
void gw_job_state_adopt_best(gw_peer *p, int64_t word);
/* The step just applied was an evaluation with this value. */
void gw_job_state_evaluated(gw_peer *p, double value);
/* A checkpoint in the lineage of the state is whole. */
void gw_job_state_note_checkpoint(gw_peer *p, const gw_checkpoint_ref *whole);
/* Whether the state that this peer holds is the best one, and no checkpoint of it is whole. */
bool gw_job_state_is_unsaved_best(const gw_peer *p);

#endif
