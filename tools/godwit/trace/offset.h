/* The offset between the clocks of a peer and of the client that traces it, from the four times of a request
 * and its answer, as NTP has it (RFC 5905, section 8). The half of a round's way bounds the error, however
 * unlike its two directions are; so the shortest rounds count. Clocks drift, so an offset is a straight line
 * between a round at the begin and one at the end of a trace. Pure. */
#ifndef GODWIT_TOOLS_GODWIT_TRACE_OFFSET_H
#define GODWIT_TOOLS_GODWIT_TRACE_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

/* One round: the client has sent and received by its clock, the peer received and sent by its own. */
typedef struct gw_trace_round {
    uint64_t sent_ns, peer_received_ns, peer_sent_ns, received_ns;
} gw_trace_round;

/* The shortest round of each end of a trace; all zero, there is none. */
typedef struct gw_trace_offset {
    struct {
        uint64_t at_ns, way_ns; /* by the client's clock; `at_ns` 0: no round */
        int64_t offset_ns;      /* to be added to the client's time */
    } first, last;
} gw_trace_offset;

/* Notes a round of the begin (or with `late`, of the end) of a trace. One whose times make no sense is
 * passed over. */
void gw_trace_offset_note(gw_trace_offset *offset, const gw_trace_round *round, bool late);
/* The client's time for a time of the peer. */
uint64_t gw_trace_offset_apply(const gw_trace_offset *offset, uint64_t peer_ns);
/* What is to be added to the client's clock for the peer's, in the middle of the trace. */
int64_t gw_trace_offset_ns(const gw_trace_offset *offset);
/* The most that times may be wrong by, near the rounds. UINT64_MAX: there is no round. */
uint64_t gw_trace_offset_error_ns(const gw_trace_offset *offset);

#endif
