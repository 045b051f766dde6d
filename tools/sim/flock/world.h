/* Members of a standing flock under virtual time: the real exchanges and deciders of core/flock on a network, disks and
 * children that are stand-ins. What fails and when is the caller's: a scenario's (scenario.h), or a test's.
 *
 *   network   members keep links as core/flock/links.h says. Messages of a link arrive in order; it breaks when an end of it
 *             ends or the pair is cut, and what was on its way is lost. Who is live is told to each member after a delay of its own, as gossip would tell it
 *   disk      a record is durable some time after it has changed, unless the disk is full or the process ends before
 *   children  run for as long as the fate says that the caller gives them, and outlive their member but not its machine
 *
 * Thread: one at a time. Running out of memory, and what breaks an invariant of core/flock, ends the process. */
#ifndef GODWIT_TOOLS_SIM_FLOCK_WORLD_H
#define GODWIT_TOOLS_SIM_FLOCK_WORLD_H

#include "core/flock/decide.h"
#include "core/flock/exchange.h"
#include "core/flock/losses.h"
#include "core/rng.h"
#include "tools/sim/engine/engine.h"

#include <stdio.h>

enum { SIM_FLOCK_BUILDS = 2, SIM_FLOCK_PENDING = 16 };

#define SIM_FLOCK_MS     UINT64_C(1000000)
#define SIM_FLOCK_SECOND UINT64_C(1000000000)
#define SIM_FLOCK_NEVER  UINT64_MAX

/* How a child ends, if nothing ends it before. */
typedef enum sim_verdict {
    SIM_CHILD_DONE,
    SIM_CHILD_FAILED, /* its round has failed */
    SIM_CHILD_FATAL,  /* it would fail alike everywhere */
    SIM_CHILD_STRUCK, /* its node is to blame */
    SIM_CHILD_LEFT,   /* it ends, and that says nothing of its job */
} sim_verdict;

typedef struct sim_fate {
    uint64_t runs_ns; /* SIM_FLOCK_NEVER: it does not end by itself */
    sim_verdict verdict;
} sim_fate;

typedef struct sim_child {
    gw_job_record_id job;
    gw_allot_need need;
    uint32_t round;
    uint64_t serial, started_ns;
    bool leaving, ended; /* ended: not accounted for in the job's record yet */
    sim_verdict verdict;
} sim_child;

/* A submission or cancellation that waits for a second disk. */
typedef struct sim_pending {
    gw_job_record_id id;
    bool cancel, durable;
    uint64_t after;     /* states of records before it */
    uint32_t elsewhere; /* 1 + the member that holds it; 0: none does yet */
} sim_pending;

typedef struct sim_known {
    gw_peer_id id;
    uint64_t seen_ns;
} sim_known;

typedef struct sim_member {
    struct sim_flock *of;
    uint32_t number;
    gw_peer_id id;
    bool alive;          /* its process runs */
    bool full;           /* its disk takes no writes */
    bool ahead;          /* its messages are of a version that others do not read */
    uint64_t decided_ns; /* when it has decided last */
    uint64_t lives;      /* processes so far: what was planned for one does not happen to the next */
    uint64_t alive_ns;   /* since when its process runs, or does not */
    uint64_t past_ns;    /* when it passed its gate in this life; SIM_FLOCK_NEVER: it has not */
    uint64_t decide_ns;  /* when it decides next */
    bool follows;        /* it is to look soon to which members it keeps links */
    uint64_t tick_ns;    /* when its exchange is looked at next */
    uint64_t aged_ns;    /* when it has dropped specifications of old jobs last */
    uint32_t dropped;    /* how many it has dropped */
    gw_job_records *records, *disk;
    gw_exchange *exchange;
    gw_decider *decider;
    gw_sides *sides;
    gw_losses losses;        /* on its disk */
    uint64_t doubtful_until; /* in ns */
    uint32_t returns;        /* to the larger side, that are counted */
    gw_claims claims;
    sim_child *children;
    uint32_t child_count, child_room;
    sim_known *known; /* on its disk: members that it has met, and when it saw them last */
    uint32_t known_count, known_room;
    sim_pending pending[SIM_FLOCK_PENDING];
    uint32_t pending_count;
    uint32_t starts, stops, held;
} sim_member;

/* What the world tells; each may be NULL. None may change the world, but for `fate`, which draws. */
typedef struct sim_flock_events {
    void *context;
    /* Asked when a child starts. NULL: children do not end by themselves. */
    sim_fate (*fate)(void *context, const sim_member *m, const gw_job_record_id *job, uint32_t round);
    void (*started)(void *context, const sim_member *m, const sim_child *child);
    void (*stopped)(void *context, const sim_member *m, const sim_child *child); /* it is asked to end */
    void (*decided)(void *context, const sim_member *m);
    /* A submission or cancellation is on the disks of these two members. */
    void (*acknowledged)(void *context, const sim_pending *what, const sim_member *a, const sim_member *b);
} sim_flock_events;

typedef struct sim_flock_config {
    uint32_t count;
    uint64_t seed;
    uint64_t message_least_ns, message_most_ns; /* on the way */
    uint64_t notice_least_ns, notice_most_ns;   /* until a death or a return is seen */
    uint64_t disk_least_ns, disk_most_ns;
    uint64_t leave_least_ns, leave_most_ns; /* until a child that is asked to end has ended */
    uint64_t gate_ns, takeover_ns;
    uint64_t rest_ns; /* between two decisions of a member, at least */
    bool mixed;       /* some lives of members are of later builds, which tell more in their claims */
    sim_flock_events events;
} sim_flock_config;

typedef struct sim_link {
    bool up, sees;  /* sees: the first member takes the second one for live */
    uint64_t up_ns; /* since when it is up */
    uint64_t
        lost_ns; /* when the first took the second for dead last; 0: never in this life, or it was drained */
    uint32_t breaks;   /* messages that were sent before the last one are lost */
    uint64_t last_ns;  /* when the last message arrives */
    bool kept;         /* the first member keeps it (core/flock/links.h) */
    uint64_t asked_ns; /* when the first member asked for it last, though it does not keep it */
    uint32_t
        known_at; /* 1 + the place of the second member among those that the first one has met; 0: it has not */
} sim_link;

typedef struct sim_flock {
    sim_flock_config config;
    gw_sim_engine *engine;
    gw_rng rng;
    uint32_t count;
    sim_member *members;
    sim_link *links; /* of each ordered pair */
    bool *cut;       /* of each ordered pair */
    uint64_t sent, sent_bytes, children, saves, decisions;
    uint64_t
        slow_ns; /* timers of the members fire so much later than they are due: for hours in which little happens */
    FILE *trace; /* NULL: none */
} sim_flock;

/* Makes members that have never met and do not run. */
sim_flock *sim_flock_open(const sim_flock_config *config);
void sim_flock_close(sim_flock *w);
uint64_t sim_flock_now(const sim_flock *w);
/* Lets time pass. */
void sim_flock_run(sim_flock *w, uint64_t ns);
uint64_t sim_flock_between(sim_flock *w, uint64_t least, uint64_t most);
bool sim_flock_chance(sim_flock *w, double probability);
void sim_flock_say(const sim_flock *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
sim_link *sim_flock_link(const sim_flock *w, uint32_t a, uint32_t b);

/* All members have met before. */
void sim_flock_introduce(sim_flock *w);
/* Starts a member's process: its records are those of its disk. */
void sim_flock_start(sim_flock *w, uint32_t number);
/* Ends it. Its children go on unless its machine ends too. */
void sim_flock_kill(sim_flock *w, uint32_t number, bool machine);
void sim_flock_cut(sim_flock *w, uint32_t a, uint32_t b, bool cut);
/* While a disk is full, it keeps what it has. */
void sim_flock_fill(sim_flock *w, uint32_t number, bool full);
/* Puts these records in the place of those on the disk of a member that does not run. NULL: none, and the member comes back
 * as one that nobody knows, and that knows nobody. */
void sim_flock_restore(sim_flock *w, uint32_t number, const gw_job_records *records);
void sim_flock_drain(sim_flock *w, uint32_t number, bool drained);

/* Joins what a member knows of a job with this change. */
void sim_flock_change(sim_flock *w, uint32_t number, const gw_job_record *change);
/* As sim_flock_change; acknowledged when it is on two disks. */
void sim_flock_put(sim_flock *w, uint32_t number, const gw_job_record *change);
/* Writes, signs and submits a job at a member; its counter is set. */
gw_job_record_id sim_flock_submit(sim_flock *w, uint32_t number, gw_job_spec *spec);
/* The child of a job ends well at a member, now. */
void sim_flock_done(sim_flock *w, uint32_t number, const gw_job_record_id *id);
/* The child of a job that runs at a member; NULL: none does. Valid until its children change. */
const sim_child *sim_flock_child(const sim_flock *w, uint32_t number, const gw_job_record_id *id);
/* How many members run a child of the job that was not asked to end. */
uint32_t sim_flock_running(const sim_flock *w, const gw_job_record_id *id);
/* Whether all members that run know the same of all jobs. */
bool sim_flock_agree(const sim_flock *w);

/* For world.c: what member.c does when a process begins and ends, and when a message has come. */
void sim_member_open(sim_member *m);
void sim_member_close(sim_member *m);
void sim_member_decide_soon(sim_member *m);
void sim_member_follow_exchange(sim_member *m);
/* A member needs a link to another one for a while. */
void sim_flock_reach(sim_flock *w, uint32_t from, uint32_t to);

#endif
