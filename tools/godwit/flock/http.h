/* The queue of a flock for browsers: `godwit up --http`. GET and HEAD of
 *
 *   /            a page of nodes and jobs, which reloads itself; it has no script
 *   /api/queue   the same as JSON: {"flock", "node", "nodes": [...], "jobs": [...]}
 *   /healthz     200 "ok", or 503 where this node takes no jobs
 *
 * It shows names and states, and never command lines, environments, directories or what jobs write. It changes nothing and
 * asks for no password: bind it to loopback or a trusted network. The header Host must be an address or a name of this
 * machine, as of the page of a job (tools/godwit/show/http.h).
 *
 * Thread: the loop's; a thread of the server asks the loop for what it shows, at most once a second. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_HTTP_H
#define GODWIT_TOOLS_GODWIT_FLOCK_HTTP_H

#include "core/base/err.h"
#include "net/loop/loop.h"

#include <jansson.h>

typedef struct gw_queue_http gw_queue_http;

/* Makes what is shown, on the loop's thread: {"flock", "node", "ready", "nodes": [...], "jobs": [...]}. */
typedef json_t *gw_queue_http_make(void *context);

/* Serves on a socket of gw_http_bind, which it owns from here on, even if it fails. NULL on failure. */
gw_queue_http *gw_queue_http_open(gw_loop *loop, int fd, gw_queue_http_make *make, void *context,
                                  gw_err *err);
void gw_queue_http_close(gw_queue_http *http); /* NULL is allowed */

/* The page of such an object, which the caller frees. Any thread. */
char *gw_queue_http_page(const json_t *queue);

#endif
