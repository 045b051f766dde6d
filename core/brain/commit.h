/* Commit: the steps that others may see, and the effects of committed steps (core/README.md, section 5,
 * "Joining, committing, ending"). Only the functions of this file write p->commit. */
#ifndef GODWIT_CORE_BRAIN_COMMIT_H
#define GODWIT_CORE_BRAIN_COMMIT_H

#include "core/brain/peer.h"

typedef struct gw_commit {
    /* The step that was applied last, if others may not see it yet. */
    struct {
        bool any;             /* there is such a step */
        uint64_t step;        /* number of the step */
        uint64_t fingerprint; /* of the state after the step */
        uint32_t members;     /* of the view in which the step was made */
    } uncommitted;
    uint64_t step, fingerprint; /* of the newest state that others may see */
    uint64_t effects_step; /* the effects of the last step of this state have been requested; 0 = of none */
} gw_commit;

/* A step has been applied here, with p->state as its result. */
void gw_commit_applied(gw_peer *p);
/* All members of the view hold the state that this peer holds. The step that led to it is shown, once. */
void gw_commit_agreed(gw_peer *p);
/* Handles the event COMMITTED. This peer ends if the effects cannot take place. */
void gw_commit_effects(gw_peer *p, const gw_event *event);
/* A state was loaded. The effects of its last step may not have taken place, as the peers that made it may be
 * dead, or may have been those of other bits. They are therefore requested again when the state is
 * committed. */
void gw_commit_loaded(gw_peer *p);
/* The job has ended with the state that p->state names, which others may see. */
void gw_commit_ended(gw_peer *p);

#endif
