/* The sockets in a member's directory, by which processes of its user on this machine speak with it: flock.sock (door.h) and
 * relay.sock (relay.h). Any thread. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_SOCKET_H
#define GODWIT_TOOLS_GODWIT_FLOCK_SOCKET_H

#include "core/base/err.h"

/* Listens on a socket of this type (socket(2)) with mode 0600, in place of one that a dead process has left. The caller holds
 * the directory's lock. Returns a descriptor that does not block, or -1. */
int gw_flock_listen(const char *directory, const char *name, int type, int backlog, gw_err *err);
/* Connects to such a socket; `type` may have SOCK_NONBLOCK. Returns a descriptor, or -1: GW_E_NOTFOUND where nobody
 * listens. */
int gw_flock_knock(const char *directory, const char *name, int type, gw_err *err);

#endif
