/* The HTTP server of a running peer (libmicrohttpd, a thread of its own): GET /api/state (JSON), /metrics
 * (Prometheus), /healthz (200 "ok" or 503 and why). Other paths 404, other methods 405. Read only, no
 * authentication: bind it to loopback or a trusted network.
 *
 * /healthz tells whether the peer makes progress (readiness), not whether to restart it (liveness): 503 also
 * while it waits for others or for room on a disk, which a restart does not mend. A peer that hangs ends by
 * itself. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_HTTP_H
#define GODWIT_TOOLS_GODWIT_SHOW_HTTP_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "tools/godwit/show/snapshot.h"

typedef struct gw_http gw_http;

/* A socket that has `addr`; *bound is that with the port that was chosen for 0. Who connects is refused until
 * it is served. -1 on failure. */
int gw_http_bind(const gw_addr *addr, gw_addr *bound, gw_err *err);

/* Serves at this socket, which it takes, also when it fails. The board must outlive it. NULL on failure. */
gw_http *gw_http_open(int fd, gw_board *board, gw_err *err);
void gw_http_close(gw_http *http); /* NULL is allowed */

#endif
