/* The HTTP server of a running peer (libmicrohttpd, on a thread of its own): GET /api/state (JSON), /metrics
 * (Prometheus's text format, or OpenMetrics where the header Accept asks for it), /healthz (200 "ok", or 503
 * and the reason). Other paths give 404, other methods 405. It is read-only and has no authentication: bind
 * it to loopback or a trusted network.
 *
 * /healthz tells whether the peer makes progress (readiness), not whether it should be restarted
 * (liveness): it is 503 also while the peer waits for others or for room on a disk, which a restart does
 * not mend. A peer that hangs ends by itself. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_HTTP_H
#define GODWIT_TOOLS_GODWIT_SHOW_HTTP_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "tools/godwit/show/snapshot.h"

typedef struct gw_http gw_http;

/* Returns a socket bound to `addr`, where [::] is every address of both families; *bound becomes the
 * address with the port that was chosen for port 0. Connections are refused until gw_http_open. Returns -1
 * on failure. */
int gw_http_bind(const gw_addr *addr, gw_addr *bound, gw_err *err);

/* Serves on this socket, which it owns from here on, even if it fails. The board must outlive it. Returns
 * NULL on failure. */
gw_http *gw_http_open(int fd, gw_board *board, gw_err *err);
void gw_http_close(gw_http *http); /* NULL is allowed */

#endif
