/* The result of a simulated run: whether it failed and why, the faults that struck it, and counts of what
 * the flock did. Counts of several runs add up. */
#ifndef GODWIT_TOOLS_SIM_SETUP_RESULT_H
#define GODWIT_TOOLS_SIM_SETUP_RESULT_H

#include <stdbool.h>
#include <stdint.h>

/* The kinds of faults. */
typedef enum gw_sim_fault {
    GW_SIM_CRASH,
    GW_SIM_POWER_LOSS,
    GW_SIM_RESTART,
    GW_SIM_WIPE,
    GW_SIM_POISON_DEATH,
    GW_SIM_PAUSE,
    GW_SIM_SLOW_PEER,
    GW_SIM_SKEWED_CLOCK,
    GW_SIM_CLOCK_JUMP,
    GW_SIM_PARTITION,
    GW_SIM_ONE_WAY,
    GW_SIM_FLAP,
    GW_SIM_BLIND,
    GW_SIM_CLOG,
    GW_SIM_BREAK,
    GW_SIM_LOST_DATA,
    GW_SIM_LOST_PATH,
    GW_SIM_DROP,
    GW_SIM_DUPLICATE,
    GW_SIM_GARBLE,
    GW_SIM_LATE,
    GW_SIM_FULL_DISK,
    GW_SIM_HANGING_DISK,
    GW_SIM_SLOW_DISK,
    GW_SIM_CRAWLING_DISK,
    GW_SIM_FLIPPED_CHUNK,
    GW_SIM_MISDIRECTED,
    GW_SIM_LOST_CHUNK,
    GW_SIM_TORN_CHUNK,
    GW_SIM_FAILED_RECORD,
    GW_SIM_LOST_RECORD,
    GW_SIM_SPOILT_RECORD,
    GW_SIM_LEAVE,
    GW_SIM_STOP,
    GW_SIM_LOST_DEVICE,
    GW_SIM_FAILED_SHARD,
    GW_SIM_TORN_SHARD,
    GW_SIM_TORN_FREEZE,
    GW_SIM_FAILED_UPDATE,
    GW_SIM_FAILED_EFFECT,
    GW_SIM_FAILED_LOOK,
    GW_SIM_FAILED_PROBE,
    GW_SIM_LATE_NAME,
    GW_SIM_STALE_NAME,
    GW_SIM_OLDER_LIFE,
    GW_SIM_DAMAGED_SUM,
    GW_SIM_SPOILT_PART,
    GW_SIM_WRONG,
    GW_SIM_FLIP,
    GW_SIM_CHANGING_MACHINE,
    GW_SIM_CHANGED_SUM,
    GW_SIM_CHANGED_STATE,
    GW_SIM_LOST_CLAIM,
    GW_SIM_LOST_WORKER,
    GW_SIM_GIVEN_BACK,
    GW_SIM_OWED_SHARD,
    GW_SIM_LOST_ANSWER,
    GW_SIM_FAILED_REDUCTION,
    GW_SIM_SPLIT_REDUCTION,
    GW_SIM_NAMED_REDUCTION,
    GW_SIM_FAILED_FETCH,
    GW_SIM_GONE,
    GW_SIM_FAULTS,
} gw_sim_fault;

const char *gw_sim_fault_name(gw_sim_fault fault); /* the name in the plural */

/* Reasons for which a process may end by itself before the job is done. */
typedef enum gw_sim_excuse {
    GW_SIM_NO_EXCUSE,
    GW_SIM_LEFT,
    GW_SIM_STOPPED,
    GW_SIM_MISSED_END,
    GW_SIM_OWN_DISK,
    GW_SIM_DISKS,
    GW_SIM_DEVICE,
    GW_SIM_GAVE_UP,
    GW_SIM_REFUSED,
    GW_SIM_WRONG_BITS,
    GW_SIM_ALONE,
    GW_SIM_EXCUSES,
} gw_sim_excuse;

const char *gw_sim_excuse_name(gw_sim_excuse excuse);

typedef struct gw_sim_result {
    bool failed;
    bool endless; /* it has failed because it used too much processor time (limit.h) */
    char why[512];
    uint64_t poisoned; /* ended early, as it should: a shard was found to be poison after three deaths */
    uint64_t bad;      /* ended early, as it should, because of a sum that is not finite */
    uint64_t unseen;   /* ended early: a peer that had computed a shard wrong was left alone in that step */
    /* By the clock of the trace: when the faults ended, the first peer was done, and the run ended; 0 =
     * not yet. */
    uint64_t healed_ns, done_ns, ended_ns;
    uint64_t virtual_ns;                   /* from the start until the last life began or ended */
    uint64_t fire_ns;                      /* the part of virtual_ns with faults */
    uint64_t hauls, haul_ns, haul_fire_ns; /* long hauls, and their part of these times */
    /* Jobs, without long hauls, that were done after all faults were healed: how long after, in total and
     * at most. calm_most_share is the largest share of its bound that any job took. */
    uint64_t calmed, calm_ns, calm_most_ns;
    double calm_most_share;
    uint64_t events;
    uint64_t views, repairs, steals, resumes, steps_applied;
    uint64_t steps_shown; /* pairs of peer and step that others may see */
    uint64_t forgotten;   /* steps that were shown, and computed again because all who knew them had died */
    uint64_t disputes;    /* pairs of peer and step in which members disagreed on a shard */
    uint64_t expelled;    /* peers that ended as faulty machines */
    uint64_t mistaken;    /* verdicts on sound machines, among several that change bits */
    uint64_t microjoules; /* that all shards took, by the costs of the peers that computed them */
    uint64_t checkpoints; /* checkpoints that were reported to be complete */
    /* complete checkpoints that should have been kept and were not, with an excuse: the lives that had
     * them have ended (lost_with_lives), or never heard that they were complete or had a full disk
     * (lost_unheard) */
    uint64_t lost_with_lives, lost_unheard;
    uint64_t best_kept; /* peers that were done and named a best state, which the disks had */
    uint64_t spoilt;    /* complete checkpoints that are not whole any more because of the disks */
    /* complete checkpoints whose copies were not all demanded: a later one had been reported before
     * (told_late), or disks had lost some of their copies (told_lost) */
    uint64_t told_late, told_lost;
    /* Loads of less than there was, because lives had reported that they had nothing of it (cluster.h). */
    uint64_t untold;
    uint64_t forced;  /* views that an operator has forced */
    uint64_t waiting; /* peers that wait for ever after the others have ended, as they may */
    uint64_t faults[GW_SIM_FAULTS];
    uint64_t excused[GW_SIM_EXCUSES]; /* processes that ended by themselves, by their excuse */
} gw_sim_result;

/* Adds the counts of a result to another. */
void gw_sim_result_add(gw_sim_result *into, const gw_sim_result *one);
/* Prints the counts of `seeds` runs. */
void gw_sim_result_print(const gw_sim_result *all, uint64_t seeds, uint64_t failed);

#endif
