#include "tools/godwit/trace/offset.h"

#include <stdbool.h>

void gw_trace_offset_note(gw_trace_offset *offset, const gw_trace_round *round, bool late) {
    if (round->received_ns < round->sent_ns || round->peer_sent_ns < round->peer_received_ns) return;
    uint64_t whole_ns = round->received_ns - round->sent_ns;
    uint64_t inside_ns = round->peer_sent_ns - round->peer_received_ns;
    if (inside_ns > whole_ns || round->sent_ns == 0) return;
    uint64_t way_ns = whole_ns - inside_ns;
    bool better = late ? offset->last.at_ns == 0 || way_ns < offset->last.way_ns
                       : offset->first.at_ns == 0 || way_ns < offset->first.way_ns;
    if (!better) return;
    /* Differences wrap around where one clock is ahead of the other. */
    uint64_t there = round->peer_received_ns - round->sent_ns,
             back = round->peer_sent_ns - round->received_ns;
    int64_t offset_ns = (int64_t)there - (int64_t)(there - back) / 2;
    uint64_t at_ns = round->sent_ns + whole_ns / 2;
    if (late) {
        offset->last.at_ns = at_ns;
        offset->last.way_ns = way_ns;
        offset->last.offset_ns = offset_ns;
    } else {
        offset->first.at_ns = at_ns;
        offset->first.way_ns = way_ns;
        offset->first.offset_ns = offset_ns;
    }
}

/* The drift of a clock, as a share of the time that passes. No clock is off by a hundredth: a peer that tells
 * so is not believed. */
static double drift_of(const gw_trace_offset *offset) {
    if (offset->first.at_ns == 0 || offset->last.at_ns <= offset->first.at_ns) return 0;
    double span = (double)(offset->last.at_ns - offset->first.at_ns);
    double drift =
        (double)(int64_t)((uint64_t)offset->last.offset_ns - (uint64_t)offset->first.offset_ns) / span;
    return drift > -0.01 && drift < 0.01 ? drift : 0;
}

/* The offset at a time of the client. */
static int64_t offset_at(const gw_trace_offset *offset, uint64_t client_ns) {
    bool early = offset->first.at_ns != 0;
    uint64_t at_ns = early ? offset->first.at_ns : offset->last.at_ns;
    uint64_t offset_ns = (uint64_t)(early ? offset->first.offset_ns : offset->last.offset_ns);
    double passed = (double)(int64_t)(client_ns - at_ns);
    return (int64_t)(offset_ns + (uint64_t)(int64_t)(passed * drift_of(offset)));
}

uint64_t gw_trace_offset_apply(const gw_trace_offset *offset, uint64_t peer_ns) {
    bool early = offset->first.at_ns != 0;
    uint64_t about = peer_ns - (uint64_t)(early ? offset->first.offset_ns : offset->last.offset_ns);
    return peer_ns - (uint64_t)offset_at(offset, about);
}

int64_t gw_trace_offset_ns(const gw_trace_offset *offset) {
    uint64_t from = offset->first.at_ns != 0 ? offset->first.at_ns : offset->last.at_ns;
    uint64_t to = offset->last.at_ns > from ? offset->last.at_ns : from;
    return offset_at(offset, from + (to - from) / 2);
}

uint64_t gw_trace_offset_error_ns(const gw_trace_offset *offset) {
    if (offset->first.at_ns == 0 && offset->last.at_ns == 0) return UINT64_MAX;
    uint64_t way_ns = offset->first.way_ns > offset->last.way_ns ? offset->first.way_ns : offset->last.way_ns;
    return way_ns / 2 + 1;
}
