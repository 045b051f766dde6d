/* A thread that accepts the connections of a listening socket, one after the other, until it is closed. While
 * the process has no descriptor for a connection, the thread sleeps and tries again ten times a second,
 * because the socket stays readable. It does the same, and logs that once, where it cannot poll the
 * socket. */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_ACCEPTOR_H
#define GODWIT_TOOLS_GODWIT_THREAD_ACCEPTOR_H

#include "core/base/err.h"

#include <stdbool.h>
#include <sys/socket.h>

typedef struct gw_acceptor gw_acceptor;

/* Called on the acceptor's thread for each connection; the callback closes `fd`. */
typedef void gw_accepted(void *context, int fd, const struct sockaddr *from, socklen_t bytes);

/* Starts to accept. `listen_fd` listens and does not block; it stays the caller's, who closes it after the
 * acceptor. Returns NULL on failure. */
gw_acceptor *gw_acceptor_open(int listen_fd, gw_accepted *accepted, void *context, gw_err *err);
/* Ends the thread, after a callback under way. NULL is allowed. */
void gw_acceptor_close(gw_acceptor *acceptor);

#endif
