/* Helpers for the tests of a peer's outputs for people and programs. */
#ifndef GODWIT_TESTS_TOOLS_SHOW_RIG_H
#define GODWIT_TESTS_TOOLS_SHOW_RIG_H

#include "tools/godwit/show/snapshot.h"

#include <stddef.h>
#include <sys/socket.h>

/* Returns the snapshot of a peer in the middle of a job; the next call makes it again. */
gw_node_snapshot *rig_busy_snapshot(void);
/* Sends a request to a server of this process while there is no descriptor for the connection, and expects
 * that the server does not try all the time. Returns the answer that comes when there is one. */
void rig_ask_without_descriptors(const struct sockaddr *server, socklen_t bytes, const char *request,
                                 char *answer, size_t size);

#endif
