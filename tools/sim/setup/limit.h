/* The processor time that a seed may take, so that a brain that loops for ever is found like other faults. */
#ifndef GODWIT_TOOLS_SIM_SETUP_LIMIT_H
#define GODWIT_TOOLS_SIM_SETUP_LIMIT_H

#include "tools/sim/setup/options.h"

#include <signal.h>

enum {
    GW_SIM_LIMIT_S = 600,        /* for most machines and builds; the longest seeds take some seconds */
    GW_SIM_OVER_LIMIT = SIGPROF, /* the signal that ends a process over the limit, unless it is caught */
    GW_SIM_LIMIT_TEXT = 64
};

/* Limits this process, from now on, to the time of a seed with these options. The process must have no
 * other thread. */
void gw_sim_limit(const gw_sim_options *options);
/* Writes "it takes more than 600 s of processor time". Returns `text`. */
const char *gw_sim_limit_say(const gw_sim_options *options, char text[GW_SIM_LIMIT_TEXT]);

#endif
