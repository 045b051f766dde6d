/* What tests of what people and machines see of a peer have in common. */
#ifndef GODWIT_TESTS_TOOLS_CONSOLE_RIG_H
#define GODWIT_TESTS_TOOLS_CONSOLE_RIG_H

#include "tools/godwit/snapshot.h"

/* That of a peer in the middle of a job; the next call makes it anew. */
gw_node_snapshot *rig_busy_snapshot(void);
/* Of the processor, by this process so far. */
double rig_cpu_seconds(void);

#endif
