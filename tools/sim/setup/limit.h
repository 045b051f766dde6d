/* How much of processor time a seed may take: a brain that loops for ever is found as other faults are. */
#ifndef GODWIT_TOOLS_SIM_SETUP_LIMIT_H
#define GODWIT_TOOLS_SIM_SETUP_LIMIT_H

#include "tools/sim/setup/options.h"

#include <signal.h>

enum {
    GW_SIM_LIMIT_S = 600,        /* of most machines and builds; the longest seeds take some seconds */
    GW_SIM_OVER_LIMIT = SIGPROF, /* ends a process that has taken more, unless it is caught */
    GW_SIM_LIMIT_TEXT = 64
};

/* From now on this process may take as much as a seed of these options may. Thread: the only one. */
void gw_sim_limit(const gw_sim_options *options);
/* "it takes more than 600 s of processor time". Returns `text`. */
const char *gw_sim_limit_say(const gw_sim_options *options, char text[GW_SIM_LIMIT_TEXT]);

#endif
