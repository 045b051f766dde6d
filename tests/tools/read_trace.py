"""Reads a trace by the schema of Perfetto's own package, strictly, and prints as JSON what is in it.

usage: read_trace.py FILE

The trace is refused where a packet has a field that the schema does not know or needs what is not said before, an event
has no track, the times of a track go back, spans do not lie one in another or do not end, or a flow lacks an end.
"""

import collections
import json
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

Event = schema.TrackEvent
MONOTONIC = schema.BUILTIN_CLOCK_MONOTONIC


def check(holds, text):
    if not holds:
        raise SystemExit(f"the trace is wrong: {text}")


def check_known(message):
    """Every field, of inner messages too, is one of the schema's."""
    unknown = unknown_fields.UnknownFieldSet(message)
    check(len(unknown) == 0, f"{message.DESCRIPTOR.name} has fields {[field.field_number for field in unknown]}")
    for descriptor, value in message.ListFields():
        if descriptor.type != descriptor.TYPE_MESSAGE:
            continue
        for one in value if descriptor.is_repeated else [value]:
            check_known(one)


def parse(path):
    trace = schema.Trace()
    with open(path, "rb") as file:
        data = file.read()
    check(trace.ParseFromString(data) == len(data), "bytes are left over")
    return trace


class Reader:
    def __init__(self):
        self.tracks = {}  # uuid -> (descriptor)
        self.stacks = collections.defaultdict(list)
        self.latest = collections.defaultdict(int)
        self.spans = []  # of each: process, track, name, category, begin, end, notes
        self.instants = []
        self.flows = collections.defaultdict(list)  # id -> (time, process, whether it ends there)
        self.counters = collections.defaultdict(list)

    def add_track(self, track):
        check(track.uuid != 0 and track.uuid not in self.tracks, f"the track {track.uuid} is there twice")
        check(track.parent_uuid == 0 or track.parent_uuid in self.tracks, f"the parent of {track.uuid} comes later")
        self.tracks[track.uuid] = track

    def process_of(self, uuid):
        track = self.tracks[uuid]
        if track.HasField("process"):
            return track.process.process_name
        if track.HasField("thread"):
            (name,) = [t.process.process_name for t in self.tracks.values()
                       if t.HasField("process") and t.process.pid == track.thread.pid]
            return name
        return self.process_of(track.parent_uuid)

    def name_of(self, uuid):
        track = self.tracks[uuid]
        return track.thread.thread_name if track.HasField("thread") else track.name

    def add_event(self, at, event):
        uuid = event.track_uuid
        check(uuid in self.tracks, f"an event on the track {uuid}, which is not described before")
        check(at >= self.latest[uuid], f"the times of the track {self.name_of(uuid)} go back")
        self.latest[uuid] = at
        if event.type == Event.TYPE_COUNTER:
            check(self.tracks[uuid].HasField("counter"), "a number on a track without a counter")
            self.counters[f"{self.process_of(uuid)}: {self.name_of(uuid)}"].append(event.counter_value)
            return
        check(not self.tracks[uuid].HasField("counter"), "a span on a track of numbers")
        if event.type == Event.TYPE_SLICE_END:
            check(self.stacks[uuid], f"a span of {self.name_of(uuid)} ends that has not begun")
            begun = self.stacks[uuid].pop()
            self.spans.append([*begun, at])
            return
        check(event.name and len(event.categories) == 1, "an event without a name or category")
        notes = {note.name: note.string_value or note.int_value for note in event.debug_annotations}
        what = [self.process_of(uuid), self.name_of(uuid), event.name, event.categories[0], notes, at]
        for flow in event.flow_ids:
            self.flows[flow].append([at, what[0], False])
        for flow in event.terminating_flow_ids:
            self.flows[flow].append([at, what[0], True])
        if event.type == Event.TYPE_SLICE_BEGIN:
            self.stacks[uuid].append(what)
        else:
            check(event.type == Event.TYPE_INSTANT, f"an event of type {event.type}")
            self.instants.append(what)

    def finish(self):
        for uuid, stack in self.stacks.items():
            check(not stack, f"spans of {self.name_of(uuid)} do not end: {[what[2] for what in stack[:3]]}")
        for flow, ends in self.flows.items():
            check([ends[0][2], ends[-1][2], len(ends)] == [False, True, 2] or
                  sorted(end[2] for end in ends) == [False, True], f"the flow {flow} lacks an end: {ends}")
            begin, end = sorted(ends, key=lambda one: one[2])
            check(begin[0] <= end[0], f"the flow {flow} ends before it begins")
            check(begin[1] != end[1], f"the flow {flow} stays in {begin[1]}")
        ids = [t.thread.tid for t in self.tracks.values() if t.HasField("thread")]
        ids += [t.process.pid for t in self.tracks.values() if t.HasField("process")]
        check(len(ids) == len(set(ids)), "two threads or processes have one id")


def main(path):
    trace = parse(path)
    check_known(trace)
    reader = Reader()
    first = trace.packet[0]
    check(first.sequence_flags & schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED, "it does not begin with its state")
    check(first.trace_packet_defaults.timestamp_clock_id == MONOTONIC, "its clock is not said")
    clocks = [packet for packet in trace.packet if packet.HasField("clock_snapshot")]
    check(clocks and {MONOTONIC, schema.BUILTIN_CLOCK_BOOTTIME} <= {
        clock.clock_id for clock in clocks[0].clock_snapshot.clocks}, "its clock has no relation to others")
    for packet in trace.packet:
        check(packet.trusted_packet_sequence_id == 1, "packets are of several writers")
        if packet.HasField("track_descriptor"):
            reader.add_track(packet.track_descriptor)
        if packet.HasField("track_event"):
            check(packet.timestamp > 0, "an event without a time")
            reader.add_event(packet.timestamp, packet.track_event)
    reader.finish()
    json.dump({"spans": reader.spans, "instants": reader.instants, "counters": reader.counters,
               "flows": [[begin[1], end[1]] for begin, end in
                         (sorted(ends, key=lambda one: one[2]) for ends in reader.flows.values())]}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
