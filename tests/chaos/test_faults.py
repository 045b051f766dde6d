"""What each kind of fault that chaos makes (tools/chaos/faults.py) does, to plain programs in places of their own: of
one that does nothing, a run under chaos would only come to the same bytes more easily.
"""

import contextlib
import ctypes
import errno
import io
import os
import signal
import socket
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "..", "tools")
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(TOOLS, "chaos"), os.path.join(TOOLS, "lab")]
import faults  # noqa: E402
import jobs  # noqa: E402
import places  # noqa: E402
import tap  # noqa: E402
from chaos import Chaos  # noqa: E402
from flock import Flock  # noqa: E402

CLOCK = os.path.join(os.path.dirname(os.environ.get("GODWIT_BINARY", "build/godwit")), "chaos_clock.so")
PATIENCE_S = 300
RECEIVED_BYTES = 4 << 20  # what may wait to be read
BATCH = 50  # of datagrams, which wait nowhere for long

# In a peer's place: it burns a processor, and says every two milliseconds of one what it is given. It holds up to 200
# descriptors and pieces of memory, so that another is a new one.
PROGRAM = f"""#!{sys.executable}
import json, mmap, os, time

def say(event, **what):
    print(json.dumps({{"event": event, **what}}), flush=True)

def have(held, take):
    if len(held) == 200:
        for one in held:
            os.close(one) if isinstance(one, int) else one.close()
        held.clear()
    try:
        held.append(take())
        return True
    except (OSError, MemoryError):
        return False

say("start", peer=f"plain-{{os.getpid()}}")
say("listening", what="gossip", port=1)
files, pieces = [], []
while True:
    opened = have(files, lambda: os.open("/dev/null", os.O_RDONLY))
    mapped = have(pieces, lambda: mmap.mmap(-1, 1 << 20))
    now = time.process_time()
    while time.process_time() < now + 0.002:
        pass
    steady = time.monotonic()
    say("turn", opened=opened, mapped=mapped, cpu=time.process_time(), steady=steady, ahead=time.time() - steady)
"""


@contextlib.contextmanager
def within(place):
    """Sockets that are made within this context are in that place's network."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path):
        with open(path) as network:
            if libc.setns(network.fileno(), 0x40000000) != 0:  # CLONE_NEWNET
                raise OSError(ctypes.get_errno(), path)

    with open("/proc/thread-self/ns/net") as here:
        enter(f"/run/netns/{place.name}")
        try:
            yield
        finally:
            enter(f"/proc/self/fd/{here.fileno()}")


class Way:
    """Datagrams from one place to another, which do not overtake each other."""

    def __init__(self, source, target):
        with within(target):
            self.target = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with within(source):
            self.source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.target.setsockopt(socket.SOL_SOCKET, 33, RECEIVED_BYTES)  # SO_RCVBUFFORCE
        self.target.bind((target.address, 0))
        self.target.settimeout(0.1)
        self.address = self.target.getsockname()
        self.sent = 0

    def close(self):
        self.source.close()
        self.target.close()

    def send(self, count=1, size=100):
        for _ in range(count):
            self.source.sendto(b"x" * size, self.address)

    def receive(self):
        try:
            return self.target.recv(1 << 16)
        except TimeoutError:
            return b""

    def arrived(self):
        """Returns how many datagrams have arrived. Sends one again and again until it arrives, so the way must be open."""
        count, until = 0, time.monotonic() + PATIENCE_S
        self.sent += 1
        mark = b"mark %d" % self.sent
        while time.monotonic() < until:
            self.source.sendto(mark, self.address)
            while (got := self.receive()) not in (b"", mark):
                count += got.startswith(b"x")
            if got == mark:
                return count
        raise TimeoutError("nothing arrives")

    def pass_on(self, count):
        """Sends so many datagrams and returns how many arrive."""
        return sum(self.send(BATCH) or self.arrived() for _ in range(count // BATCH))


class InPlaces(unittest.TestCase):
    """Two places, and a run under chaos that makes the faults that it is told to."""

    def setUp(self):
        self.flock = self.enterContext(Flock("plain", []))
        self.network = self.enterContext(places.Network(2, self.flock.folder, CLOCK if os.path.exists(CLOCK) else None))
        options = types.SimpleNamespace(seed=1, peers=2, kinds=["none"], majority=False, minutes=60, logs=None)
        self.chaos = Chaos(self.flock, self.network, options, jobs.sleeping())
        self.chaos.began = time.time()

    def strike(self, kind):
        """Begins the one fault of a run and returns it."""
        why = kind.missing(self.chaos)
        if why is not None:
            self.skipTest(why)
        self.chaos.kinds = [kind]
        with contextlib.redirect_stdout(io.StringIO()):
            self.chaos.strike(time.time())
        self.assertEqual([strike.kind for strike in self.chaos.faults], [kind.name])
        return self.chaos.faults[0].fault

    def finish(self):
        self.chaos.finish(self.chaos.faults[0])

    def silenced_by(self, kind):
        """Makes and ends such a fault, and returns the peers that it silenced."""
        silences = self.strike(kind).silences
        self.finish()
        self.chaos.faults.clear()
        return silences

    def write(self, place, name, data=b""):
        path = os.path.join(place.disk, "state", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path


class Networks(InPlaces):
    def setUp(self):
        super().setUp()
        one, other = self.network.places
        self.ways = {1: Way(one, other), 2: Way(other, one)}  # by the number of the place that sends
        for way in self.ways.values():
            self.addCleanup(way.close)
            self.assertEqual(way.pass_on(BATCH), BATCH)

    def assert_open(self, *ways):
        for way in ways:
            self.assertEqual(way.pass_on(BATCH), BATCH)

    def both(self, place):
        """Returns the way from that place and the way to it."""
        return self.ways[place.number], self.ways[3 - place.number]

    def test_a_cut_lets_nothing_pass_either_way(self):
        self.strike(faults.Cut)
        for way in self.ways.values():
            way.send(BATCH)
        self.finish()
        self.assertEqual([way.arrived() for way in self.ways.values()], [0, 0])
        self.assert_open(*self.ways.values())

    def test_a_cut_one_way_lets_all_pass_the_other_way(self):
        ((deaf, _),) = self.strike(faults.CutOneWay).pairs
        cut, still_open = self.both(deaf)
        cut.send(BATCH)
        self.assert_open(still_open)
        self.finish()
        self.assertEqual(cut.arrived(), 0)
        self.assert_open(cut)

    def test_a_flapping_cut_is_there_and_away_in_turn(self):
        flap = self.strike(faults.Flap)
        for _ in range(3):
            for way in self.ways.values():
                way.send(BATCH)
            flap.turn(flap.turns_at)
            self.assertEqual([way.arrived() for way in self.ways.values()], [0, 0])
            self.assert_open(*self.ways.values())
            flap.turn(flap.turns_at)
        self.finish()
        self.assert_open(*self.ways.values())

    def test_a_fifth_of_what_arrives_is_lost_and_nothing_of_what_is_sent(self):
        away, here = self.both(self.strike(faults.Drop).place)
        lost = 2000 - here.pass_on(2000)
        self.assertTrue(200 < lost < 600, lost)  # 400, and 18 is the standard deviation
        self.assertEqual(away.pass_on(500), 500)
        self.finish()
        self.assertEqual(here.pass_on(500), 500)

    def test_a_slow_link_takes_its_time_one_way(self):
        away, here = self.both(self.strike(faults.SlowLink).place)
        began = time.monotonic()
        for _ in range(100):
            away.send(size=1000)
            away.receive()
        self.assertGreater(time.monotonic() - began, (100 * 1000 - (16 << 10)) * 8 / 2e6 * 0.9)
        self.assert_can_take_a_burst(here)
        self.finish()
        self.assert_can_take_a_burst(away)

    def assert_can_take_a_burst(self, way):
        """Checks with a burst of which the queue of a slow link would lose a part: it holds 200 ms and 16 KiB that pass at once."""
        way.send(100, size=1400)
        self.assertEqual(way.arrived(), 100)

    def test_what_is_delayed_takes_fifty_milliseconds_one_way(self):
        away, here = self.both(self.strike(faults.Delay).place)
        self.assertGreater(sum(self.passage_s(away) for _ in range(40)), 40 * 0.025)  # 2 s, and 0.15 s as above
        self.assert_fast(here)
        self.finish()
        self.assert_fast(away)

    @staticmethod
    def passage_s(way):
        began = time.monotonic()
        way.send()
        while way.receive() == b"":
            pass
        return time.monotonic() - began

    def assert_fast(self, way):
        """Checks that sooner or later a datagram takes less than the shortest delay."""
        until = time.monotonic() + PATIENCE_S
        while self.passage_s(way) >= 0.01:
            self.assertLess(time.monotonic(), until)


    def test_who_is_heard_badly_may_be_taken_for_dead(self):
        for kind in (faults.SlowLink, faults.Drop):
            with unittest.mock.patch.object(self.chaos.rng, "choice", lambda several: several[1]):
                self.assertEqual(self.silenced_by(kind), 2, kind.name)


class Disks(InPlaces):
    def test_a_full_disk_takes_nothing_and_the_other_does(self):
        full = self.strike(faults.FullDisk).place
        for place in self.network.places:
            if place is full:
                with self.assertRaises(OSError) as refused:
                    self.write(place, "more", b"x" * 4096)
                self.assertEqual(refused.exception.errno, errno.ENOSPC)
            else:
                self.write(place, "more", b"x" * 4096)
        self.finish()
        self.write(full, "more", b"x" * 4096)

    def contents(self, paths):
        contents = []
        for path in paths:
            with open(path, "rb") as file:
                contents.append(int.from_bytes(file.read(), "big"))
        return contents

    def flips(self, paths, before):
        """Returns how many bits of each file have changed."""
        return [(old ^ new).bit_count() for old, new in zip(before, self.contents(paths))]

    def test_one_bit_of_one_chunk_flips(self):
        paths = [self.write(place, f"chunks/{i}", os.urandom(100)) for place in self.network.places for i in range(2)]
        self.write(self.network.places[0], "manifest")
        before = self.contents(paths)
        fault = self.strike(faults.Corrupt)
        self.assertEqual(self.flips(paths, before), [path in fault.damaged for path in paths])
        self.assertEqual(len(fault.damaged), 1)

    def test_of_every_other_power_loss_all_chunks_of_one_disk_have_another_bit(self):
        paths = [self.write(place, f"chunks/{i}", os.urandom(100)) for place in self.network.places for i in range(2)]
        before = self.contents(paths)
        fault = self.strike(faults.PowerLoss)
        self.assertEqual(len(fault.damaged), 2)
        self.assertEqual(self.flips(paths, before), [path in fault.damaged for path in paths])
        before = self.contents(paths)
        self.assertEqual(fault.decay(), "")
        self.assertEqual(self.flips(paths, before), [0] * 4)


class Processes(InPlaces):
    def setUp(self):
        super().setUp()
        self.flock.binary = os.path.join(self.flock.folder, "plain")
        with open(self.flock.binary, "w") as file:
            file.write(PROGRAM)
        os.chmod(self.flock.binary, 0o755)
        self.addCleanup(self.end_all)
        for peer in self.flock.gather_in(self.network.places):
            self.chaos.ledger.started(peer.number, time.time())
        for peer in self.flock.peers:
            self.next_turn(peer)

    def end_all(self):
        for peer in self.flock.living():
            peer.kill()

    def next_turn(self, peer, holds=lambda turn: True):
        """Returns the first turn of the peer from now on for which the condition holds."""
        now = time.monotonic()

        def found():
            turns = [event for who, event in self.flock.events if who is peer and event["event"] == "turn"]
            return next((turn for turn in turns if turn["steady"] > now and holds(turn)), None)

        return self.flock.wait(found, PATIENCE_S, "a turn as it must be", watch=[peer])

    def other(self, peer):
        return self.flock.peers[2 - peer.number]

    def assert_killed(self, *peers):
        self.flock.wait(lambda: all(peer.ended is not None for peer in peers), PATIENCE_S, "they are dead")
        self.assertEqual({peer.ended for peer in peers}, {-signal.SIGKILL})

    def assert_starts_again(self, *peers):
        self.assertEqual({peer for _, peer in self.chaos.restarts}, set(peers))
        self.chaos.look_after(max(when for when, _ in self.chaos.restarts))
        for peer in peers:
            self.flock.wait_ready(peer)
            self.next_turn(peer)

    def test_who_is_killed_is_started_again_with_what_it_had(self):
        kept = {peer: self.write(peer.home, "chunks/0") for peer in self.flock.peers}
        peer = self.strike(faults.Kill).peer
        self.assert_killed(peer)
        self.next_turn(self.other(peer))
        self.finish()
        self.assertTrue(os.path.exists(kept[peer]))
        self.assert_starts_again(peer)

    def test_who_is_killed_and_loses_its_disk_is_started_again_without(self):
        kept = {peer: self.write(peer.home, "chunks/0") for peer in self.flock.peers}
        peer = self.strike(faults.Wipe).peer
        self.assert_killed(peer)
        self.finish()
        self.assertEqual([who for who, path in kept.items() if os.path.exists(path)], [self.other(peer)])
        self.assert_starts_again(peer)

    def test_a_power_loss_kills_all(self):
        self.strike(faults.PowerLoss)
        self.assert_killed(*self.flock.peers)
        self.finish()
        self.assert_starts_again(*self.flock.peers)

    def state(self, peer):
        with open(f"/proc/{peer.process.pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]

    def test_who_is_stopped_stands_still_and_goes_on(self):
        peer = self.strike(faults.Stop).peer
        self.flock.wait(lambda: self.state(peer) == "T", PATIENCE_S, "it is stopped")
        self.next_turn(self.other(peer))
        self.finish()
        self.next_turn(peer)
        self.assertNotEqual(self.state(peer), "T")

    def throttled(self, peer):
        """Returns in how many periods of a tenth of a second the group was given no more processor time."""
        with open(os.path.join(peer.home.group, "cpu.stat")) as file:
            return int(dict(line.split() for line in file)["nr_throttled"])

    def test_who_is_starved_gets_two_hundredths_of_a_processor(self):
        with unittest.mock.patch.object(self.chaos.rng, "choice", lambda several: several[0]):
            peer = self.strike(faults.Starve).peer
        self.flock.wait(lambda: self.throttled(peer) > 0, PATIENCE_S, "it is given no more")
        first = self.next_turn(peer)
        last = self.next_turn(peer, lambda turn: turn["steady"] > first["steady"] + 1)
        self.assertLess(last["cpu"] - first["cpu"], 0.1 * (last["steady"] - first["steady"]))
        self.assertEqual(self.throttled(self.other(peer)), 0)
        self.finish()
        begun, before = self.next_turn(peer), self.throttled(peer)
        self.next_turn(peer, lambda turn: turn["cpu"] > begun["cpu"] + 0.1)
        self.assertEqual(self.throttled(peer), before)

    def test_who_stands_still_or_lacks_something_may_be_taken_for_dead(self):
        for kind in (faults.Stop, faults.Starve, faults.Descriptors, faults.Memory):
            with unittest.mock.patch.object(self.chaos.rng, "choice", lambda several: several[-1]):
                self.assertEqual(self.silenced_by(kind), 2, kind.name)

    def test_who_has_no_more_descriptors_can_open_nothing(self):
        self.assert_is_denied(faults.Descriptors, "opened", "mapped")

    def test_who_has_no_more_memory_is_given_none(self):
        self.assert_is_denied(faults.Memory, "mapped", "opened")

    def assert_is_denied(self, kind, what, else_given):
        peer = self.strike(kind).peer
        self.next_turn(peer, lambda turn: not turn[what] and turn[else_given])
        self.assertTrue(self.next_turn(self.other(peer))[what])
        self.finish()
        self.next_turn(peer, lambda turn: turn[what] and turn[else_given])

    def test_a_clock_steps_and_back(self):
        before = {peer: self.next_turn(peer)["ahead"] for peer in self.flock.peers}
        fault = self.strike(faults.Clock)
        peer = self.flock.peers[fault.place.number - 1]
        self.next_turn(peer, lambda turn: abs(turn["ahead"] - before[peer] - fault.value) < 10)
        other = self.other(peer)
        self.assertLess(abs(self.next_turn(other)["ahead"] - before[other]), 10)
        self.finish()
        self.next_turn(peer, lambda turn: abs(turn["ahead"] - before[peer]) < 10)


if __name__ == "__main__":
    tap.main(places.missing, "chaos")
