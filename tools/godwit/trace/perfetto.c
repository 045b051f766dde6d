#include "tools/godwit/trace/perfetto.h"

#include "core/base/assert.h"
#include "core/os/clock.h"

#include <string.h>
#include <time.h>

enum {
    FULL = 1 << 20,    /* bytes after which the buffer is written */
    SEQUENCE_ID = 1,   /* all packets are of one writer */
    STATE_CLEARED = 1, /* flags of a packet: the writer begins; */
    STATE_NEEDED = 2,  /* the packet needs the writer's begin */
    SNAPSHOT_CLOCK = 1,
    SNAPSHOT_PRIMARY = 2,
    CLOCK_ID = 1,
    CLOCK_TIME = 2,
    DEFAULTS_CLOCK = 58,
    REALTIME = 1,
    MONOTONIC = 3,
    BOOTTIME = 6,
    UNIT_COUNT = 2,
    UNIT_BYTES = 3,
};

static void flush(gw_perfetto *p) {
    if (p->buffer.failed && !p->failed)
        p->failed = !gw_fail(&p->err, GW_E_NOMEM, "out of memory for a trace");
    if (!p->failed && p->buffer.count > 0)
        p->failed = !p->write(p->context, p->buffer.bytes, p->buffer.count, &p->err);
    gw_protobuf_clear(&p->buffer);
}

static size_t begin_packet(gw_perfetto *p, uint32_t flags) {
    size_t place = gw_protobuf_begin(&p->buffer, GW_PF_TRACE_PACKET);
    gw_protobuf_varint(&p->buffer, GW_PF_PACKET_SEQUENCE, SEQUENCE_ID);
    gw_protobuf_varint(&p->buffer, GW_PF_PACKET_SEQUENCE_FLAGS, flags);
    return place;
}

static void end_packet(gw_perfetto *p, size_t place) {
    gw_protobuf_end(&p->buffer, place);
    if (p->buffer.count >= FULL || p->buffer.failed) flush(p);
}

static void put_clock(gw_protobuf *m, uint32_t id, clockid_t clock) {
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    size_t place = gw_protobuf_begin(m, SNAPSHOT_CLOCK);
    gw_protobuf_varint(m, CLOCK_ID, id);
    gw_protobuf_varint(m, CLOCK_TIME, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    gw_protobuf_end(m, place);
}

/* The first packet, which is the same in every file. */
static void put_first(gw_perfetto *p) {
    gw_protobuf *m = &p->buffer;
    size_t packet = begin_packet(p, STATE_CLEARED);
    gw_protobuf_varint(m, GW_PF_PACKET_FIRST, 1);
    size_t defaults = gw_protobuf_begin(m, GW_PF_PACKET_DEFAULTS);
    gw_protobuf_varint(m, DEFAULTS_CLOCK, MONOTONIC);
    gw_protobuf_end(m, defaults);
    end_packet(p, packet);
}

size_t gw_perfetto_mark(uint8_t mark[GW_PERFETTO_MARK]) {
    gw_perfetto p = {.write = NULL};
    put_first(&p);
    size_t length = p.buffer.count;
    GW_ASSERT_MEMORY(!p.buffer.failed);
    GW_ASSERT(length <= GW_PERFETTO_MARK);
    memcpy(mark, p.buffer.bytes, length);
    gw_protobuf_free(&p.buffer);
    return length;
}

void gw_perfetto_open(gw_perfetto *p, gw_perfetto_write *write, void *context) {
    *p = (gw_perfetto){.write = write, .context = context};
    gw_protobuf *m = &p->buffer;
    put_first(p);
    size_t packet = begin_packet(p, STATE_NEEDED);
    size_t snapshot = gw_protobuf_begin(m, GW_PF_PACKET_CLOCKS);
    put_clock(m, MONOTONIC, CLOCK_MONOTONIC);
    put_clock(m, BOOTTIME, CLOCK_BOOTTIME);
    put_clock(m, REALTIME, CLOCK_REALTIME);
    gw_protobuf_varint(m, SNAPSHOT_PRIMARY, BOOTTIME);
    gw_protobuf_end(m, snapshot);
    end_packet(p, packet);
}

bool gw_perfetto_close(gw_perfetto *p, gw_err *err) {
    flush(p);
    gw_protobuf_free(&p->buffer);
    if (p->failed) *err = p->err;
    return !p->failed;
}

/* Tracks. */

/* Begins a packet that describes a track; two messages are to be ended. */
static size_t begin_track(gw_perfetto *p, uint64_t track, size_t *packet) {
    *packet = begin_packet(p, STATE_NEEDED);
    size_t place = gw_protobuf_begin(&p->buffer, GW_PF_PACKET_TRACK);
    gw_protobuf_varint(&p->buffer, GW_PF_TRACK_UUID, track);
    return place;
}

static void end_track(gw_perfetto *p, size_t place, size_t packet) {
    gw_protobuf_end(&p->buffer, place);
    end_packet(p, packet);
}

void gw_perfetto_process(gw_perfetto *p, uint64_t track, uint32_t process, const char *name) {
    size_t packet, place = begin_track(p, track, &packet);
    size_t inner = gw_protobuf_begin(&p->buffer, GW_PF_TRACK_PROCESS);
    gw_protobuf_varint(&p->buffer, GW_PF_PROCESS_PID, process);
    gw_protobuf_text(&p->buffer, GW_PF_PROCESS_NAME, name);
    gw_protobuf_end(&p->buffer, inner);
    end_track(p, place, packet);
}

void gw_perfetto_thread(gw_perfetto *p, uint64_t track, uint32_t process, uint32_t thread, const char *name) {
    size_t packet, place = begin_track(p, track, &packet);
    size_t inner = gw_protobuf_begin(&p->buffer, GW_PF_TRACK_THREAD);
    gw_protobuf_varint(&p->buffer, GW_PF_THREAD_PID, process);
    gw_protobuf_varint(&p->buffer, GW_PF_THREAD_TID, thread);
    gw_protobuf_text(&p->buffer, GW_PF_THREAD_NAME, name);
    gw_protobuf_end(&p->buffer, inner);
    end_track(p, place, packet);
}

void gw_perfetto_track(gw_perfetto *p, uint64_t track, uint64_t parent, const char *name) {
    size_t packet, place = begin_track(p, track, &packet);
    gw_protobuf_varint(&p->buffer, GW_PF_TRACK_PARENT, parent);
    gw_protobuf_text(&p->buffer, GW_PF_TRACK_NAME, name);
    end_track(p, place, packet);
}

void gw_perfetto_counter(gw_perfetto *p, uint64_t track, uint64_t parent, const char *name, bool bytes) {
    size_t packet, place = begin_track(p, track, &packet);
    gw_protobuf_varint(&p->buffer, GW_PF_TRACK_PARENT, parent);
    gw_protobuf_text(&p->buffer, GW_PF_TRACK_NAME, name);
    size_t inner = gw_protobuf_begin(&p->buffer, GW_PF_TRACK_COUNTER);
    gw_protobuf_varint(&p->buffer, GW_PF_COUNTER_UNIT, bytes ? UNIT_BYTES : UNIT_COUNT);
    gw_protobuf_end(&p->buffer, inner);
    end_track(p, place, packet);
}

/* Events. */

static size_t begin_event(gw_perfetto *p, uint64_t track, uint64_t at_ns, uint32_t type, size_t *packet) {
    *packet = begin_packet(p, STATE_NEEDED);
    gw_protobuf_varint(&p->buffer, GW_PF_PACKET_TIMESTAMP, at_ns);
    size_t place = gw_protobuf_begin(&p->buffer, GW_PF_PACKET_EVENT);
    gw_protobuf_varint(&p->buffer, GW_PF_EVENT_TYPE, type);
    gw_protobuf_varint(&p->buffer, GW_PF_EVENT_TRACK, track);
    return place;
}

static void put_note(gw_protobuf *m, const gw_perfetto_note *note) {
    size_t place = gw_protobuf_begin(m, GW_PF_EVENT_NOTE);
    gw_protobuf_text(m, GW_PF_NOTE_NAME, note->name);
    if (note->text != NULL)
        gw_protobuf_text(m, GW_PF_NOTE_STRING, note->text);
    else
        gw_protobuf_varint(m, GW_PF_NOTE_INT, (uint64_t)note->number);
    gw_protobuf_end(m, place);
}

static void put_event(gw_perfetto *p, const gw_perfetto_event *event, uint32_t type) {
    gw_protobuf *m = &p->buffer;
    size_t packet, place = begin_event(p, event->track, event->at_ns, type, &packet);
    gw_protobuf_text(m, GW_PF_EVENT_NAME, event->name);
    gw_protobuf_text(m, GW_PF_EVENT_CATEGORY, event->category);
    if (event->flow != GW_FLOW_NONE)
        gw_protobuf_fixed64(m, event->flow == GW_FLOW_BEGINS ? GW_PF_EVENT_FLOW : GW_PF_EVENT_FLOW_END,
                            event->flow_id);
    for (uint32_t i = 0; i < event->note_count; i++) put_note(m, &event->notes[i]);
    gw_protobuf_end(m, place);
    end_packet(p, packet);
}

void gw_perfetto_begin(gw_perfetto *p, const gw_perfetto_event *event) {
    put_event(p, event, GW_PF_TYPE_BEGIN);
}

void gw_perfetto_instant(gw_perfetto *p, const gw_perfetto_event *event) {
    put_event(p, event, GW_PF_TYPE_INSTANT);
}

void gw_perfetto_end(gw_perfetto *p, uint64_t track, uint64_t at_ns) {
    size_t packet, place = begin_event(p, track, at_ns, GW_PF_TYPE_END, &packet);
    gw_protobuf_end(&p->buffer, place);
    end_packet(p, packet);
}

void gw_perfetto_count(gw_perfetto *p, uint64_t track, uint64_t at_ns, int64_t value) {
    size_t packet, place = begin_event(p, track, at_ns, GW_PF_TYPE_COUNTER, &packet);
    gw_protobuf_varint(&p->buffer, GW_PF_EVENT_VALUE, (uint64_t)value);
    gw_protobuf_end(&p->buffer, place);
    end_packet(p, packet);
}
