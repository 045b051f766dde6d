/* A trace as Perfetto reads it (https://perfetto.dev/docs/reference/trace-packet-proto): a list of packets in
 * protobuf's wire format, with tracks and the events on them. Times are CLOCK_MONOTONIC of the machine that
 * writes; a snapshot of its clocks lets Perfetto show dates.
 *
 * Events of a track are written in the order of their times, and spans of one track lie one in another. A
 * failure to write stays: write all, then look once. A gw_perfetto belongs to one thread. */
#ifndef GODWIT_TOOLS_GODWIT_TRACE_PERFETTO_H
#define GODWIT_TOOLS_GODWIT_TRACE_PERFETTO_H

#include "core/base/err.h"
#include "tools/godwit/text/protobuf.h"

/* Writes bytes to the file. */
typedef bool gw_perfetto_write(void *context, const void *bytes, size_t count, gw_err *err);

typedef struct gw_perfetto {
    gw_perfetto_write *write;
    void *context;
    gw_protobuf buffer; /* what was not written yet */
    bool failed;
    gw_err err; /* why */
} gw_perfetto;

/* A number or a text beside an event. */
typedef struct gw_perfetto_note {
    const char *name;
    const char *text; /* NULL: it is the number */
    int64_t number;
} gw_perfetto_note;

typedef enum gw_perfetto_flow { GW_FLOW_NONE, GW_FLOW_BEGINS, GW_FLOW_ENDS } gw_perfetto_flow;

typedef struct gw_perfetto_event {
    uint64_t track, at_ns;
    const char *name, *category;
    gw_perfetto_flow flow;
    uint64_t flow_id;
    const gw_perfetto_note *notes;
    uint32_t note_count;
} gw_perfetto_event;

/* Begins a trace: the clocks. */
void gw_perfetto_open(gw_perfetto *p, gw_perfetto_write *write, void *context);
/* Writes what waits. False: something could not be written. Frees the memory. */
bool gw_perfetto_close(gw_perfetto *p, gw_err *err);

/* Tracks. Ids (of tracks, processes, threads) are the caller's, and unique in the file. */
void gw_perfetto_process(gw_perfetto *p, uint64_t track, uint32_t process, const char *name);
void gw_perfetto_thread(gw_perfetto *p, uint64_t track, uint32_t process, uint32_t thread, const char *name);
void gw_perfetto_track(gw_perfetto *p, uint64_t track, uint64_t parent, const char *name);
/* A track of numbers; `bytes`: they are bytes, and not a count. */
void gw_perfetto_counter(gw_perfetto *p, uint64_t track, uint64_t parent, const char *name, bool bytes);

void gw_perfetto_begin(gw_perfetto *p, const gw_perfetto_event *event);
void gw_perfetto_end(gw_perfetto *p, uint64_t track, uint64_t at_ns);
void gw_perfetto_instant(gw_perfetto *p, const gw_perfetto_event *event);
void gw_perfetto_count(gw_perfetto *p, uint64_t track, uint64_t at_ns, int64_t value);

/* Numbers of fields and values of the schema, for what reads such a file. */
/* Writes the bytes with which each file begins, by which it is known as one of these; returns their number. */
enum { GW_PERFETTO_MARK = 64 };
size_t gw_perfetto_mark(uint8_t mark[GW_PERFETTO_MARK]);

enum {
    GW_PF_TRACE_PACKET = 1,
    GW_PF_PACKET_CLOCKS = 6,
    GW_PF_PACKET_TIMESTAMP = 8,
    GW_PF_PACKET_SEQUENCE = 10,
    GW_PF_PACKET_EVENT = 11,
    GW_PF_PACKET_SEQUENCE_FLAGS = 13,
    GW_PF_PACKET_DEFAULTS = 59,
    GW_PF_PACKET_TRACK = 60,
    GW_PF_PACKET_FIRST = 87,
    GW_PF_TRACK_UUID = 1,
    GW_PF_TRACK_NAME = 2,
    GW_PF_TRACK_PROCESS = 3,
    GW_PF_TRACK_THREAD = 4,
    GW_PF_TRACK_PARENT = 5,
    GW_PF_TRACK_COUNTER = 8,
    GW_PF_PROCESS_PID = 1,
    GW_PF_PROCESS_NAME = 6,
    GW_PF_THREAD_PID = 1,
    GW_PF_THREAD_TID = 2,
    GW_PF_THREAD_NAME = 5,
    GW_PF_COUNTER_UNIT = 3,
    GW_PF_EVENT_NOTE = 4,
    GW_PF_EVENT_TYPE = 9,
    GW_PF_EVENT_TRACK = 11,
    GW_PF_EVENT_CATEGORY = 22,
    GW_PF_EVENT_NAME = 23,
    GW_PF_EVENT_VALUE = 30,
    GW_PF_EVENT_FLOW = 47,
    GW_PF_EVENT_FLOW_END = 48,
    GW_PF_NOTE_INT = 4,
    GW_PF_NOTE_STRING = 6,
    GW_PF_NOTE_NAME = 10,
    GW_PF_TYPE_BEGIN = 1,
    GW_PF_TYPE_END = 2,
    GW_PF_TYPE_INSTANT = 3,
    GW_PF_TYPE_COUNTER = 4,
};

#endif
