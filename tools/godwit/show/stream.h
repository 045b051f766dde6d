/* /api/stream: what the page shows, as server-sent events, once a second at most, while somebody reads.
 *
 * The first event of a stream is "whole": {"boot", "state", "peers": {ID: row}, "series": {"last", "cuts"}, "events",
 * "log"}, with the last lines. After it each event is "change": {"state", "peers"} are merge patches (RFC 7386) of
 * those before, {"series": {"last", "cuts", "new": {NAME: columns}}} has the points of new steps (which take the place
 * of points that they overlap), "events" and "log" have the new lines. What is not in an event has not changed. A
 * client that was away for some seconds, and says by Last-Event-ID where it was, gets the changes since then, and
 * otherwise "whole" again.
 *
 * The last event is made when the server ends: where the peer has ended for good, its state has "outcome" (and "reason")
 * and its events the line "done".
 *
 * At most GW_STREAMS clients are served; the next one gets 503. All read the same texts, so that a reader costs one
 * copy. One that falls behind by more than a few events is dropped, and may come again.
 *
 * Threads: open, stop and close on the main thread; answers on the server's. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_STREAM_H
#define GODWIT_TOOLS_GODWIT_SHOW_STREAM_H

#include "tools/godwit/show/api.h"

#include <microhttpd.h>

enum { GW_STREAMS = 16 };

typedef struct gw_streams gw_streams;

/* The sources are borrowed. Returns NULL on failure. */
gw_streams *gw_streams_open(const gw_api_sources *sources, gw_err *err);
/* Ends all streams, after a last event; waits for a second at most until their readers have taken it. It is called
 * before the server stops. NULL is allowed. */
void gw_streams_stop(gw_streams *streams);
/* After the server has stopped. NULL is allowed. */
void gw_streams_close(gw_streams *streams);

/* Returns a response that streams to this connection, whose last event had the id `last_id` (NULL: it has read none).
 * NULL: there are too many streams, or memory runs out. */
struct MHD_Response *gw_streams_response(gw_streams *streams, struct MHD_Connection *connection,
                                         const char *last_id);

#endif
