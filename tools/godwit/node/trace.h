/* What a trace (core/os/trace.h) has of the loop's thread: the brain's requests, how long they take, and what
 * it has noticed. To be called while somebody reads; the loop's thread. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_TRACE_H
#define GODWIT_TOOLS_GODWIT_NODE_TRACE_H

#include "core/brain/world.h"

/* Requests under way, of which each has one at most. */
typedef struct gw_node_trace {
    uint64_t freeze_ns, save_ns; /* since when; 0 = none is under way, or nobody read when it began */
    gw_token save;
    uint64_t save_step;
    uint32_t save_chunks;
} gw_node_trace;

/* An action is about to be carried out. */
void gw_node_trace_action(gw_node_trace *trace, const gw_action *action);
/* An event is about to be given to the brain, which is at this step. */
void gw_node_trace_event(gw_node_trace *trace, const gw_event *event, uint64_t step);
/* A freeze has ended, of a view of this epoch. */
void gw_node_trace_frozen(gw_node_trace *trace, uint64_t epoch);

#endif
