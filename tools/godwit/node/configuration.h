/* What a run is, in lines "name=value" for people who look at its curves later. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_CONFIGURATION_H
#define GODWIT_TOOLS_GODWIT_NODE_CONFIGURATION_H

#include "tools/godwit/node/job.h"

/* Returns the lines: job, command, peer and device, the job from which it goes on, and then the lines of the
 * identity. The caller frees; NULL = out of memory. The job is identified (gw_node_job_identify). */
char *gw_node_configuration(const gw_node_job *job, const gw_peer_id *self, const char *compute_class);

#endif
