/* The HTTP server of a running peer (libmicrohttpd, on a thread of its own, of low priority). It is read-only and
 * has no authentication: bind it to loopback or a trusted network. GET and HEAD of
 *
 *   /             the page (tools/godwit/page)
 *   /api/state    the snapshot, as `godwit status --json` prints it
 *   /api/peers    every peer with its card, of the whole flock: {"self", "peers": [{..., "card_age_s", "card"}],
 *                 "energy"}
 *   /api/series   what the job reports by step: ?keys=train/loss,run/ms&from=STEP&to=STEP&points=N
 *   /api/events   the last lines of the journal: ?since=NUMBER
 *   /api/log      the last lines of the log: ?since=NUMBER
 *   /api/stream   all of that as it changes, as server-sent events (stream.h)
 *   /metrics      for Prometheus, also as OpenMetrics where the client accepts that
 *   /healthz      200 "ok", or 503 and the reason
 *
 * Other paths give 404, other methods 405. A page of another site that has its own name lead here (DNS rebinding)
 * reads nothing: below / and /api the header Host must be an address, the name of this machine, or a name that
 * nobody can register in public (403 otherwise). More requests in a second than are served are answered by 429.
 *
 * /healthz tells whether the peer makes progress (readiness), not whether it should be restarted (liveness): it is
 * 503 also while the peer waits for others or for room on a disk, which a restart does not mend. A peer that hangs
 * ends by itself. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_HTTP_H
#define GODWIT_TOOLS_GODWIT_SHOW_HTTP_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "tools/godwit/show/api.h"

typedef struct gw_http gw_http;

/* Returns a socket bound to `addr`, where [::] is every address of both families; *bound becomes the
 * address with the port that was chosen for port 0. Connections are refused until gw_http_open. Returns -1
 * on failure. */
int gw_http_bind(const gw_addr *addr, gw_addr *bound, gw_err *err);

/* Serves on this socket, which it owns from here on, even if it fails. What the sources point to must outlive it.
 * `requests_per_s` are served in the mean, and twice as many at once, where a request counts as several if its answer
 * takes more than 5 ms of a processor; 0: no bound. Returns NULL on failure. */
gw_http *gw_http_open(int fd, const gw_api_sources *sources, uint32_t requests_per_s, gw_err *err);
void gw_http_close(gw_http *http); /* NULL is allowed */

#endif
