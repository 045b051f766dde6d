/* One simulated course of a standing flock: members that fail as the seed determines, jobs that are submitted, held, given
 * other priorities and cancelled, and the promises that hold all the while (judge.h). A run is a pure function of its
 * options. */
#ifndef GODWIT_TOOLS_SIM_FLOCK_SCENARIO_H
#define GODWIT_TOOLS_SIM_FLOCK_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SIM_FLOCK_MEMBERS = 64, SIM_FLOCK_JOBS = 128, SIM_FLOCK_COMMAND = 256, SIM_FLOCK_WHY = 400 };

/* What may happen. */
typedef enum sim_happening {
    SIM_KILL,     /* a process ends, and starts again after seconds to days */
    SIM_POWER,    /* a machine ends, with the children on it */
    SIM_OUTAGE,   /* all machines end */
    SIM_CUT,      /* two members cannot reach each other */
    SIM_PART,     /* the flock falls into two halves */
    SIM_FLAP,     /* a member starts and ends again and again */
    SIM_FILL,     /* a disk is full */
    SIM_RESTORE,  /* a disk is restored to an older state */
    SIM_LOSE,     /* a disk is lost */
    SIM_DRAIN,    /* a node takes no children for some time */
    SIM_CALM,     /* hours or days pass */
    SIM_CANCEL,   /* a job is cancelled */
    SIM_HOLD,     /* a job is held for some time */
    SIM_PRIORITY, /* a job's priority changes */
    SIM_FAIL,     /* children fail, nodes are struck, and jobs are poisonous */
    SIM_MIXED,    /* nodes are of different builds, later ones among them, classes and sizes */
    SIM_HAPPENINGS,
} sim_happening;

const char *sim_happening_name(sim_happening what);

typedef struct sim_flock_options {
    uint64_t seed;
    uint32_t members, jobs; /* 0: drawn */
    uint32_t without;       /* bits: 1 << happening */
    FILE *trace;            /* NULL: none */
} sim_flock_options;

typedef struct sim_flock_result {
    bool failed;
    char why[SIM_FLOCK_WHY];
    uint64_t at_ns; /* when it failed, or ended */
    uint32_t members, jobs;
    uint64_t starts, stops, done, failures, cancelled,
        stranded; /* stranded: jobs that no node may have, or whose record is lost */
    uint64_t messages, bytes, decisions, compared, acknowledged;
    uint64_t deaths; /* of machines, while nothing else happened */
    uint64_t happened[SIM_HAPPENINGS];
} sim_flock_result;

/* Runs it. The result is complete even if the run failed. */
void sim_flock_play(const sim_flock_options *options, sim_flock_result *result);
/* Adds the counts of one run to those of others. */
void sim_flock_result_add(sim_flock_result *all, const sim_flock_result *one);
void sim_flock_result_print(const sim_flock_result *all, uint64_t seeds, uint64_t failed);
/* Writes the command that runs it again. Returns `text`. */
const char *sim_flock_command(const sim_flock_options *options, char text[SIM_FLOCK_COMMAND]);
/* Removes happenings, members and jobs as long as the run still fails; *options and *result become those of the smallest.
 * Returns false where the run does not fail. Each run is in a process of its own. */
bool sim_flock_shrink(sim_flock_options *options, sim_flock_result *result);
/* As sim_flock_play, in a process of its own: one that ends by a signal counts as failed. */
void sim_flock_try(const sim_flock_options *options, sim_flock_result *result);

#endif
