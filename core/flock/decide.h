/* What a member does about jobs: which it claims, starts, stops and lets go, by the records of all jobs, the claims of
 * all live members, and the allotment (allot.h) that follows from both.
 *
 * A job is to be placed when it is not over, not held, and the jobs that it comes after are done, or else others that try
 * these again (records.h). The latter is a rule of version 2 of the allotment: while a live member knows version 1 alone, such
 * a job is not placed, so that all place the same ones; where it runs, it goes on. The member claims a job that the
 * allotment gives it, and starts a child when every live member has heard of the claim, or after GW_DECIDE_CLAIM_NS, if
 * the allotment still says so: two members that know different things learn of each other before they do one job's work
 * twice. A child whose job is over, held, or given to others is asked to end at once, and
 * no other one starts in its place before it has ended.
 * A command that may run where members are away is not started on the lesser side of the flock before they are away for
 * `takeover_ns` (sides.h): its effects would happen twice. On the other side one that ran on a member which is lost is
 * started GW_SIDES_BRIEF_NS later, as that member may only be starting again. One that runs on this side goes on. Jobs of
 * steps, whose result is the same however often they run, and maps, of which one row of each task counts, are not held
 * back.
 * While a live member is unreadable (exchange.h), every job may run there: it is placed on no node but those that say
 * that they run it.
 * While the member is not past its gate (exchange.h), it starts and stops nothing.
 *
 * Before the first child of a job starts anywhere, its record says so (`started`), and that is durable: the caller is
 * asked for it by GW_DO_MARK.
 *
 * Pure, with state: what was decided before. Thread: one at a time. */
#ifndef GODWIT_CORE_FLOCK_DECIDE_H
#define GODWIT_CORE_FLOCK_DECIDE_H

#include "core/flock/claims.h"
#include "core/flock/records.h"
#include "core/flock/sides.h"
#include "core/flock/spec.h"

#define GW_DECIDE_CLAIM_NS UINT64_C(2000000000)

typedef struct gw_decider gw_decider;

typedef enum gw_wait_reason {
    GW_WAIT_NOT,      /* it runs, or is about to */
    GW_WAIT_HELD,     /* somebody holds it */
    GW_WAIT_AFTER,    /* a job that it comes after is not over, or one that tries that again */
    GW_WAIT_BROKEN,   /* a job that it comes after was not done, nor any that tries it again */
    GW_WAIT_LATER,    /* its specification is of a later version, or not known here yet */
    GW_WAIT_NO_BUILD, /* no live node that takes jobs has the build that it began under */
    GW_WAIT_NO_NODE,  /* no live node may have it: of another class, too small, drained, or struck */
    GW_WAIT_ROOM,     /* other jobs have the nodes that may have it */
    GW_WAIT_AWAY,     /* it may run on members that are away */
    GW_WAIT_NEWER,    /* it may run on live members that are unreadable */
    GW_WAIT_OLDER,    /* a live member knows no rule by which it may be placed */
    GW_WAIT_FEW,      /* fewer live nodes than it needs may have it */
    GW_WAIT_BACK,     /* it may run on members that are back just now, and have not told yet */
} gw_wait_reason;

typedef enum gw_do_kind {
    GW_DO_MARK = 1, /* make `started` durable in the job's record, and decide again */
    GW_DO_START,    /* start a child of this round */
    GW_DO_STOP,     /* ask the child to end */
} gw_do_kind;

typedef struct gw_do {
    gw_do_kind kind;
    gw_job_record_id job;
    const gw_job_spec *spec; /* START; valid until the next decision */
    uint32_t round;          /* START */
    gw_wait_reason waited;   /* START: as gw_job_view has it */
} gw_do;

/* A child of this member. */
typedef struct gw_decide_child {
    gw_job_record_id job;
    bool leaving; /* it was asked to end */
    uint16_t port;
} gw_decide_child;

typedef struct gw_decide_input {
    uint64_t now_ns;
    const gw_job_records *records;
    const gw_claims *const *members; /* live ones whose claims are known, this member's own among them */
    uint32_t member_count;
    bool unreadable; /* a live member is (exchange.h) */
    const gw_decide_child *children;
    uint32_t child_count;
    bool past_gate;
    uint64_t heard;        /* all live members know this member's claims up to this number */
    const gw_sides *sides; /* NULL: nobody is away */
    uint64_t takeover_ns;  /* GW_SIDES_TAKEOVER_NS, or what the user says */
} gw_decide_input;

typedef struct gw_job_view {
    const gw_job_spec *spec; /* NULL: not known */
    gw_wait_reason reason;
    gw_job_record_id after; /* AFTER, BROKEN, OLDER: which, or the one that tries it again */
    gw_wait_reason waited;  /* why it waited last, since it ran anywhere; NOT: it did not */
    /* AWAY, BACK: it may start then, if those members do not tell that they run it. Otherwise, if it is not 0, it goes on where it runs until then,
     * and nowhere else. */
    uint64_t until_ns;
    uint32_t placed; /* nodes that the allotment gives it */
    uint32_t able;   /* live nodes that may have it */
} gw_job_view;

/* Running out of memory ends the process. */
gw_decider *gw_decider_open(const gw_peer_id *self);
void gw_decider_close(gw_decider *decider); /* NULL is allowed */

/* Decides. *claims, this member's own list, is changed: its number rises where it has to be told. Calls `act` for what is
 * to be done, which must not call the decider. Returns when to decide again at the latest. */
typedef void gw_decide_act(void *context, const gw_do *action);
uint64_t gw_decide(gw_decider *decider, const gw_decide_input *input, gw_claims *claims, gw_decide_act *act,
                   void *context);

/* What the last decision has found of a job. */
gw_job_view gw_decider_view(const gw_decider *decider, const gw_job_record_id *id);
/* How often the side of this member was the lesser one (sides.h), and then was not any more, as members came back from which
 * it had been cut off. Before it is past its gate it only gets to know the others. */
uint32_t gw_decider_returns(const gw_decider *decider);
/* The specification of a job that is not over, or has a child here, as it was read; NULL: it is not known, or of a later
 * version. Valid until the next decision. */
const gw_job_spec *gw_decider_spec(const gw_decider *decider, const gw_job_record_id *id);

#endif
