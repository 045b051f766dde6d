/* Commit: the steps that others may see, and the effects of committed steps (core/README.md, section 5,
 * "Joining, committing, ending"). Only the functions of this file write p->commit. */
#ifndef GODWIT_CORE_BRAIN_COMMIT_H
#define GODWIT_CORE_BRAIN_COMMIT_H

#include "core/brain/peer.h"

typedef struct gw_commit {
    struct {                  /* the step that was applied last, while others may not see it yet */
        bool any;             /* there is one */
        uint64_t step;        /* its number */
        uint64_t fingerprint; /* of the state after it */
        uint32_t members;     /* of the view in which it was made */
    } uncommitted;
    uint64_t step, fingerprint; /* of the newest state that others may see */
    uint64_t
        effects_step; /* number of the state whose last step's effects were last requested; 0 = of none */
} gw_commit;

/* A step has been applied here, and p->state is what came of it. */
void gw_commit_applied(gw_peer *p);
/* All members of the view hold the state that this peer holds: shows the step that led to it, once. */
void gw_commit_agreed(gw_peer *p);
/* The event COMMITTED. Effects that cannot take place end this peer. */
void gw_commit_effects(gw_peer *p, const gw_event *event);
/* The state was loaded. The effects of its last step may have been those of other bits, or of a peer that is
 * dead: they are requested again when the state is committed. */
void gw_commit_loaded(gw_peer *p);
/* The job is known to have ended with the state that p->state names, which everybody may see. */
void gw_commit_ended(gw_peer *p);

#endif
