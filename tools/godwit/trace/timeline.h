/* What several peers have recorded, on one clock and as tracks of one file: a process for each peer, with a
 * track for each of its threads, and for its steps, its steals, the flock, and its checkpoints. What no peer
 * knows by itself is added: since when all members were in a reduction, and from whom a thief has stolen. */
#ifndef GODWIT_TOOLS_GODWIT_TRACE_TIMELINE_H
#define GODWIT_TOOLS_GODWIT_TRACE_TIMELINE_H

#include "core/base/id.h"
#include "tools/godwit/trace/batch.h"
#include "tools/godwit/trace/offset.h"
#include "tools/godwit/trace/perfetto.h"

enum { GW_TRACED_NAME_TEXT = 100, GW_TRACED_WHY_TEXT = 200 };

/* What a peer has told. */
typedef struct gw_traced_peer {
    gw_peer_id id;
    char name[GW_TRACED_NAME_TEXT]; /* for people */
    char why[GW_TRACED_WHY_TEXT];   /* why it ended before the trace; empty: it did not */
    gw_trace_offset offset;
    uint64_t from_ns, to_ns; /* by the client's clock; both 0: nothing came from it */
    uint64_t lost;           /* records that did not come in time */
    uint32_t workers;
    gw_trace_thread threads[GW_TRACE_THREADS];
    uint32_t thread_count;
    gw_trace_span *spans; /* by the peer's clock; owned */
    uint64_t span_count, span_room;
    gw_trace_unended *open; /* of the last batch; owned */
    uint32_t open_count;
} gw_traced_peer;

/* Adds a batch, whose members it takes. Fails with GW_E_NOMEM. */
bool gw_traced_peer_add(gw_traced_peer *peer, gw_trace_batch *batch, gw_err *err);
void gw_traced_peer_free(gw_traced_peer *peer);

/* Writes the file. The spans of the peers are on the client's clock afterwards, and cut to the time of their
 * traces. Fails as `write` does, or with GW_E_NOMEM. */
bool gw_timeline_write(gw_traced_peer *peers, uint32_t count, gw_perfetto_write *write, void *context,
                       gw_err *err);

/* Categories of the spans that a summary counts (tools/godwit/trace/summary.h), and of the one that says from
 * when to when a peer was traced. */
#define GW_TRACE_IS_COMPUTE "compute"
#define GW_TRACE_IS_WAIT    "wait"
#define GW_TRACE_IS_REDUCE  "reduce"
#define GW_TRACE_IS_APPLY   "apply"
#define GW_TRACE_IS_DEALT   "dealt"
#define GW_TRACE_IS_HOP     "hop"
#define GW_TRACE_IS_PACK    "pack"
#define GW_TRACE_IS_TRACED  "traced"
/* Names of its notes. */
#define GW_TRACE_WORKERS "workers"
#define GW_TRACE_LOST    "records lost"
#define GW_TRACE_OFFSET  "clock offset (ns)"
#define GW_TRACE_ERROR   "clock error at most (ns)"
#define GW_TRACE_WHY     "ended early"

#endif
