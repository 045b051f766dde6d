/* Collects the traces of all peers of a flock: one thread for each peer, which is a client of its service. */
#ifndef GODWIT_TOOLS_GODWIT_COMMAND_TRACE_COLLECT_H
#define GODWIT_TOOLS_GODWIT_COMMAND_TRACE_COLLECT_H

#include "tools/godwit/service/client.h"
#include "tools/godwit/trace/timeline.h"

/* The spans of all peers together after which a trace ends: 250 MB of memory, and as much again for the file. */
enum { GW_COLLECT_SPANS = 6 << 20 };

typedef struct gw_collect_options {
    const char *program; /* for messages on stderr */
    const char *dir;     /* of a peer that runs here; where place.from is NULL */
    gw_client_place place;
    uint64_t duration_ns;
} gw_collect_options;

typedef struct gw_collected {
    gw_traced_peer *peers; /* those that are alive; owned */
    uint32_t count;
    bool full; /* it ended since there was too much */
} gw_collected;

/* Traces the flock until the time is over or SIGINT, SIGTERM or SIGHUP comes; these must be blocked. Peers
 * that cannot be traced are told of on stderr, and in `why`. Fails if the first peer cannot be asked, or no
 * peer has told anything. The caller frees the result, also after a failure. */
bool gw_collect(const gw_collect_options *options, gw_collected *collected, gw_err *err);
void gw_collected_free(gw_collected *collected);

#endif
