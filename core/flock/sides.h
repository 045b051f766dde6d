/* The two sides of a flock of which members are away: dead, or cut off, and nobody can tell these apart. One side is that of
 * this member and all that are live for it; the other one is that of the members which are away, and were seen within a day.
 *
 * The others may live and go on. Lest both sides start the same command, the lesser side starts none that the other
 * side may know of, until those that are away are so for a time that the user says (--takeover). The lesser side is the one
 * without more than half of the members that were seen; of two halves it is the one without the lowest id. Members that
 * have left in order do not count, nor do those that take no jobs as they are drained.
 *
 * Pure; one thread at a time. Times are nanoseconds of any monotonic clock. */
#ifndef GODWIT_CORE_FLOCK_SIDES_H
#define GODWIT_CORE_FLOCK_SIDES_H

#include "core/flock/claims.h"

#define GW_SIDES_SEEN_NS     UINT64_C(86400000000000) /* a member that is away counts for so long */
#define GW_SIDES_TAKEOVER_NS UINT64_C(600000000000)   /* --takeover, if nothing is said */
#define GW_SIDES_BRIEF_NS    UINT64_C(5000000000)     /* a member that starts again is back in less */

typedef struct gw_sides gw_sides;

/* Running out of memory ends the process. */
gw_sides *gw_sides_open(const gw_peer_id *self);
void gw_sides_close(gw_sides *sides); /* NULL is allowed */

/* A member was known before this one started, and was seen last so long ago: it is away until it is live. */
void gw_sides_known(gw_sides *sides, const gw_peer_id *member, uint64_t ago_ns, uint64_t now_ns);
/* A member is live, in this life (gw_same_life). */
void gw_sides_live(gw_sides *sides, const gw_peer_id *member, const gw_incarnation *life);
/* A member is live no more. `claims` is its list as it was told last, and is copied; NULL: none is known. */
void gw_sides_lost(gw_sides *sides, const gw_peer_id *member, const gw_claims *claims, uint64_t now_ns);
/* A member has left in order. */
void gw_sides_left(gw_sides *sides, const gw_peer_id *member);

/* Whether this member's side is the lesser one. `lists` are the claims of live members, its own among them. */
bool gw_sides_is_lesser(const gw_sides *sides, const gw_claims *const *lists, uint32_t count,
                        uint64_t now_ns);
/* Until when a member that was lost just now, and has told that it runs the job, may come back to it: it may only be
 * starting again, and what it runs goes on. 0: there is none. */
uint64_t gw_sides_run_until(const gw_sides *sides, const gw_job_record_id *job, uint64_t now_ns);
/* How often a member that was away has come back in the life in which it was lost: the two had been cut off from each other.
 * The process of a member that comes back in another life had ended. */
uint32_t gw_sides_met_again(const gw_sides *sides);
/* Until when a job that is known here since `since_ns` may be that of members that are away: they have claimed it, or it
 * was known here before they were lost. 0: it is not. */
uint64_t gw_sides_taken_until(const gw_sides *sides, const gw_job_record_id *job, uint64_t since_ns,
                              uint64_t takeover_ns, uint64_t now_ns);

#endif
