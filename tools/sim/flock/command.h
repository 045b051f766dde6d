/* `godwit sim --flock`: runs seeds of a standing flock, and reports what happened. */
#ifndef GODWIT_TOOLS_SIM_FLOCK_COMMAND_H
#define GODWIT_TOOLS_SIM_FLOCK_COMMAND_H

#include "tools/sim/flock/scenario.h"

typedef struct sim_flock_request {
    sim_flock_options options; /* their seed is the first one */
    uint64_t last;             /* seed */
    uint32_t minutes,
        jobs; /* minutes: 0 = the seeds up to the last one; else so long, in so many processes */
    bool keep_going, shrink;
} sim_flock_request;

/* Reads names of happenings, separated by commas, into the bits of options->without. False: one is not known. */
bool sim_flock_read_spared(const char *text, uint32_t *without);
/* Runs them. Returns the exit code. The process must have no other thread. */
int sim_flock_run_seeds(const sim_flock_request *request);

#endif
