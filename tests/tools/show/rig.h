/* What tests of what people and machines see of a peer have in common. */
#ifndef GODWIT_TESTS_TOOLS_SHOW_RIG_H
#define GODWIT_TESTS_TOOLS_SHOW_RIG_H

#include "tools/godwit/show/snapshot.h"

#include <stddef.h>
#include <sys/socket.h>

/* That of a peer in the middle of a job; the next call makes it anew. */
gw_node_snapshot *rig_busy_snapshot(void);
/* Asks a server of this process, while there is no descriptor to take the
 * connection with: expects that it does not try all the time. The answer is what comes when there is one. */
void rig_ask_without_descriptors(const struct sockaddr *server, socklen_t bytes, const char *request,
                                 char *answer, size_t size);

#endif
