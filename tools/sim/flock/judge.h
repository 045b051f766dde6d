/* The promises of a standing flock, which are checked all the while.
 *
 *   over      a child starts only where its job is not known to be over, and `started` is durable; and nowhere if members
 *             that its member has been linked with for long know that the job is over, unless time alone has opened the gate
 *   room      children on a node need no more than it has, those that are asked to end among them
 *   kept      what was acknowledged is known to all at the end, while one of its two disks lives
 *   alike     members that know the same records, lives and claims find the same allotment
 *   told      what a member of a later build tells is known to others with what they do not understand
 *   least     a death among members at rest moves no job below its least for the sake of a job that does not outrank it
 *   often     members at rest run a job no more often than its most
 *   apart     a member on the lesser side starts no command that it knew when it lost one that runs it, while that one is
 *             away for less than takeover
 *   waits     at the end, when all is healed, every job ends that some node may have
 */
#ifndef GODWIT_TOOLS_SIM_FLOCK_JUDGE_H
#define GODWIT_TOOLS_SIM_FLOCK_JUDGE_H

#include "tools/sim/flock/scenario.h"
#include "tools/sim/flock/world.h"

/* What the judge knows of a job. */
typedef struct sim_judged_job {
    gw_job_record_id id;
    gw_job_spec spec; /* without its pointers */
    uint64_t over_ns
        [SIM_FLOCK_MEMBERS]; /* since when each member knows that it is over; SIM_FLOCK_NEVER: it does not */
    uint64_t
        known_ns[SIM_FLOCK_MEMBERS]; /* since when each member knows of it; SIM_FLOCK_NEVER: it does not */
    bool kept, kept_cancel;          /* acknowledged */
    uint32_t later;                  /* fields of later builds that its record has */
    bool on_disk[SIM_FLOCK_MEMBERS]; /* of the submission, when it was acknowledged, and not lost since */
    bool cancel_on_disk[SIM_FLOCK_MEMBERS];
    uint32_t ran_elsewhere; /* before the last death */
} sim_judged_job;

typedef struct sim_judge {
    sim_flock *world;
    sim_flock_result *result;
    sim_judged_job jobs[SIM_FLOCK_JOBS];
    uint32_t job_count;
    uint64_t disturbed_ns; /* when something has happened last */
    uint64_t slow_ns;      /* when timers were late last */
    bool watches_death;
    uint32_t dead; /* the member whose death is watched */
    bool disk_was_lost[SIM_FLOCK_MEMBERS];
} sim_judge;

/* Points the world's events here. */
void sim_judge_open(sim_judge *judge, sim_flock_events *events, sim_flock_result *result);
void sim_judge_fail(sim_judge *judge, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_judge_submitted(sim_judge *judge, const gw_job_record_id *id, const gw_job_spec *spec);
/* Something has happened: members are not at rest. */
void sim_judge_disturbed(sim_judge *judge);
/* A member's process has ended, or its disk is another one: it knows nothing until it decides again. */
void sim_judge_forgets(sim_judge *judge, uint32_t number);
/* A disk was lost (records NULL), or was restored to what it was. */
void sim_judge_disk(sim_judge *judge, uint32_t number, const gw_job_records *records);
/* A member is about to end; if all are at rest, what follows is watched. */
void sim_judge_death(sim_judge *judge, uint32_t number);
/* All members have just decided: compares what they found, and looks at how often jobs run. */
void sim_judge_compare(sim_judge *judge);
/* Whether no job is left that some node may have. `why` becomes what is waited for. */
bool sim_judge_finished(sim_judge *judge, char why[SIM_FLOCK_WHY]);
/* The end: everything is healed, and has settled. */
void sim_judge_end(sim_judge *judge);

#endif
