"""Chaos (tools/chaos) for a short while: real processes in namespaces of their own, and the same bytes at the end. And
what its reports rest on: cuts that overlap, who had a right to end, and nothing left behind.
"""

import contextlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "chaos")]
import chaos as chaos_module  # noqa: E402
import deaths  # noqa: E402
import faults  # noqa: E402
import jobs  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import tap  # noqa: E402
from bits import Bits  # noqa: E402
from chaos import Chaos, Strike  # noqa: E402
from flock import Peer, Trouble  # noqa: E402
from ledger import Ledger, between, largest_group  # noqa: E402
from use import Use  # noqa: E402

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
CHAOS = os.path.join(HERE, "..", "..", "tools", "chaos", "chaos.py")


class Way:
    """A stand-in for a place that records the settings it is given."""

    def __init__(self):
        self.told = []

    def deafen(self, other, on):
        self.told.append((other, on))


class Cuts(unittest.TestCase):
    def test_a_way_is_open_again_when_nobody_cuts_it_any_more(self):
        chaos = Chaos.__new__(Chaos)
        chaos.cuts = {}
        a, b = Way(), Way()
        for on in (True, True, False, True, False, False):
            chaos.deafen(a, b, on)
        self.assertEqual(a.told, [(b, True), (b, False)])
        self.assertEqual(b.told, [])


class Layers(unittest.TestCase):
    """Several faults change the settings of one place at once."""

    def setUp(self):
        self.told = []
        self.place = types.SimpleNamespace(number=1)
        self.place.shape = lambda *queue: self.told.append(queue) or True
        self.place.drop = lambda percent: self.told.append(percent) or True
        self.place.set_clock = self.told.append
        network = types.SimpleNamespace(places=[self.place])
        self.chaos = types.SimpleNamespace(rng=random.Random(1), network=network, settings={})

    def lasting(self, *kinds):
        """Returns one fault of each kind, which has begun."""
        begun = [kind(self.chaos) for kind in kinds]
        for fault in begun:
            self.assertIsNotNone(fault.begin())
        return begun

    def test_the_newest_holds_until_all_are_over(self):
        slow, delay = self.lasting(faults.SlowLink, faults.Delay)
        slow.end()
        delay.end()
        self.assertEqual(self.told, [slow.queue, delay.queue, delay.queue, ()])
        slow, delay = self.lasting(faults.SlowLink, faults.Delay)
        delay.end()
        self.assertEqual(self.told[-1], slow.queue)

    def test_losses_and_clocks_do_not_end_each_other(self):
        for kind, nothing in ((faults.Drop, 0), (faults.Clock, 0)):
            first, second = self.lasting(kind, kind)
            first.end()
            self.assertNotEqual(self.told[-1], nothing)
            second.end()
            self.assertEqual(self.told[-1], nothing)

    def test_what_cannot_be_set_is_no_fault(self):
        self.place.shape = lambda *queue: not queue
        self.assertIsNone(faults.Delay(self.chaos).begin())
        self.assertEqual(self.chaos.settings, {(1, "queue"): []})

    def test_a_disk_is_full_until_nobody_fills_it_any_more_also_while_others_write(self):
        with tempfile.TemporaryDirectory() as folder:
            self.place.disk = folder
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "godwit-chaos", folder], check=True)
            try:
                before = os.statvfs(folder)
                with open(os.path.join(folder, "written"), "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, 64 << 10)
                with unittest.mock.patch.object(faults.os, "statvfs", lambda _: before):
                    first, second = self.lasting(faults.FullDisk, faults.FullDisk)
                self.assertEqual(os.statvfs(folder).f_bavail, 0)
                first.end()
                self.assertEqual(os.statvfs(folder).f_bavail, 0)
                second.end()
                self.assertEqual(os.listdir(folder), ["written"])
            finally:
                subprocess.run(["umount", folder], check=True)

    def test_a_chunk_that_nobody_reads_was_no_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            self.place.disk = folder
            chunks = os.path.join(folder, "state", "chunks")
            os.makedirs(chunks)
            path = os.path.join(chunks, "0123")
            with open(path, "wb") as file:
                file.write(b"xyz")
            (fault,) = self.lasting(faults.Corrupt)
            fault.look()
            self.assertFalse(fault.happened)
            os.rename(path, path + ".damaged")
            fault.look()
            self.assertTrue(fault.happened)
            os.unlink(path + ".damaged")
            fault.look()
            self.assertTrue(fault.happened)

    def test_a_flapping_cut_turns_at_an_uneven_pace_and_is_gone_at_its_end(self):
        deaf = set()
        self.chaos.network.places = [types.SimpleNamespace(number=number) for number in (1, 2)]
        self.chaos.deafen = lambda a, b, on: (deaf.add if on else deaf.remove)((a.number, b.number))
        with unittest.mock.patch.object(faults.time, "time", lambda: 0.0):
            (flap,) = self.lasting(faults.Flap)
        drawn, turns = self.chaos.rng.getstate(), [0.0]
        for ms in range(5000):
            there = len(deaf)
            flap.turn(ms / 1000)
            if len(deaf) != there:
                turns.append(ms / 1000)
        pauses = [later - earlier for earlier, later in zip(turns, turns[1:])]
        self.assertGreater(len(pauses), 30)
        self.assertGreaterEqual(min(pauses), flap.least_turn_s)
        self.assertLess(max(pauses), flap.most_turn_s + 0.002)
        self.assertGreater(max(pauses) - min(pauses), 0.05)
        self.assertEqual(self.chaos.rng.getstate(), drawn)
        flap.end()
        self.assertEqual(deaf, set())

    def test_faults_of_networks_disks_and_processors_last_over_the_next(self):
        for kind in (faults.Cut, faults.Flap, faults.SlowLink, faults.Drop, faults.FullDisk, faults.Starve):
            self.assertGreater(kind.most_s, 2 * 5, kind.name)


class LivePeerSeconds(unittest.TestCase):
    def test_who_is_stopped_or_dead_or_cut_off_is_not_live(self):
        ledger = Ledger()
        for peer in (1, 2, 3, 4):
            ledger.started(peer, 90)
        ledger.begin(100)
        ledger.stands(1, True, 101)  # 4
        ledger.stands(1, False, 103)  # + 2 x 3
        ledger.ended(2, 104)  # + 4
        ledger.started(2, 106)  # + 2 x 3
        for other in (1, 2, 3):
            ledger.deafened(4, other, True, 107)  # + 4
        ledger.close(110)  # + 3 x 3
        self.assertEqual(ledger.until(110), (38, 33))
        self.assertEqual(ledger.until(102), (8, 7))
        self.assertIn((2, 100, 104), ledger.spans)
        self.assertIn((2, 106, 110), ledger.spans)

    def test_a_cut_that_another_overlaps_lasts_until_both_are_over(self):
        ledger = Ledger()
        for peer in (1, 2, 3):
            ledger.started(peer, 0)
        ledger.begin(0)
        for on, now in ((True, 0), (True, 1), (False, 2), (False, 3)):
            ledger.deafened(1, 2, on, now)
        ledger.close(4)
        self.assertEqual(ledger.until(4)[1], 3 * 2 + 3)

    def test_who_was_stopped_and_killed_runs_when_started_again(self):
        ledger = Ledger()
        ledger.started(1, 0)
        ledger.begin(0)
        ledger.stands(1, True, 1)
        ledger.ended(1, 2)
        ledger.started(1, 3)
        ledger.close(5)
        self.assertEqual(ledger.until(5), (4, 3))

    def test_while_all_are_dead_nobody_lives(self):
        ledger = Ledger()
        for peer in (1, 2):
            ledger.started(peer, 0)
        ledger.begin(0)
        for peer in (1, 2):
            ledger.ended(peer, 3)
        ledger.started(1, 5)
        ledger.started(2, 6)
        ledger.close(7)
        self.assertEqual(ledger.until(4), (6, 6))
        self.assertEqual(ledger.until(7), (9, 9))

    def test_the_largest_group_in_which_each_reaches_each(self):
        both_halves = {(a, b): 1 for a in (1, 2) for b in (3, 4, 5)}
        self.assertEqual(largest_group({1, 2, 3, 4, 5}, {}), 5)
        self.assertEqual(largest_group({1, 2, 3, 4, 5}, both_halves), 3)
        self.assertEqual(largest_group({1, 2, 3}, both_halves), 2)
        self.assertEqual(largest_group({1, 2, 3, 4}, {(1, 2): 1, (3, 4): 1}), 2)
        self.assertEqual(largest_group(set(), both_halves), 0)
        self.assertEqual(largest_group(set(range(200)), {(a, b): 1 for a in range(90) for b in range(90, 200)}), 110)

    def test_between_two_marks_values_grow_evenly(self):
        marks = [(1, (0, 10)), (3, (4, 10))]
        self.assertEqual([between(marks, now) for now in (0, 1, 2, 3, 4)], [(0, 10), (0, 10), (2, 10), (4, 10), (4, 10)])


def process(pid):
    return types.SimpleNamespace(pid=pid)


def denial(peer, began=100, ended=104):
    fault = faults.Descriptors(types.SimpleNamespace(rng=None))
    fault.peer, fault.pid = peer, peer.process.pid
    strike = Strike(fault, "", began, 104)
    strike.ended = ended
    return strike


class EndsByThemselves(unittest.TestCase):
    def test_who_is_denied_something_may_give_up_and_nobody_else(self):
        for code, denied, explained in ((1, True, True), (1, False, False), (0, True, False), (0, False, False), (2, True, False)):
            self.assertEqual(deaths.is_explained(code, "", denied), explained, (code, denied))

    def test_a_signal_is_a_crash_but_for_small_things_without_memory(self):
        for code in (-signal.SIGSEGV, -signal.SIGKILL, -signal.SIGABRT):
            self.assertFalse(deaths.is_explained(code, "godwit: broken invariant: x", True))
        self.assertTrue(deaths.is_explained(-signal.SIGABRT, deaths.NO_MEMORY + "x != NULL", True))
        self.assertFalse(deaths.is_explained(-signal.SIGABRT, deaths.NO_MEMORY + "x != NULL", False))

    def test_no_denial_explains_wrong_bits_a_shard_that_kills_or_a_damaged_record(self):
        for words in (
            "step 9: this peer's state changed in memory, and this was not its first error: the machine is faulty",
            "the state of step 9 changed in this machine's memory, and no other peer holds it: start again",
            "peers 1 and 2 compute different bits of shard 3 of step 9, and nobody can tell which are right",
            "the sum of step 9 failed its checks 3 times, the last time after all was computed again (not seen here)",
            "4 elements of the sum of step 9 are not finite or out of range, the first in shard 3, tensor w, element 5",
            "shard 3 of step 9 is poison: every peer that computes it dies, fails or hangs (2 so far)",
            "shard 3 of step 9 cannot be computed here: shard 3 of step 9 comes out as 12 on part 1 of this peer",
            "shard 3 of step 9 cannot be computed here: READ from 1: the bytes have another hash than they should",
            "the state of step 9 could not be fetched: its fingerprint differs",
            "whether the state of step 9 is sound could not be checked: the state has fingerprint 12 instead of 34",
        ):
            self.assertFalse(deaths.is_explained(1, f"warn  peer: x\ngodwit: failed: {words}\n", True), words)
        for words in (
            "the protocol record of this directory is damaged at byte 9",
            "the record of this peer's votes, /x/votes, is damaged; a peer that forgot its votes must not vote",
            "identity: /x/boot is damaged: it should hold a decimal number",
        ):
            self.assertFalse(deaths.is_explained(1, f"godwit: {words}\n", True), words)

    def test_a_damaged_chunk_that_a_peer_found_before_it_ended_explains_nothing_else(self):
        words = f"error node: {damage('/disks/2/8df2')['evidence']}\ngodwit: failed: the fence of a view: no memory\n"
        self.assertTrue(deaths.is_explained(1, words, True))
        self.assertFalse(deaths.is_explained(1, words, False))

    def test_what_is_denied_is_missed_a_little_longer(self):
        peer, other = types.SimpleNamespace(process=process(7)), types.SimpleNamespace(process=process(8))
        self.assertTrue(deaths.denied(peer, [denial(peer)], 104 + deaths.AFTERMATH_S))
        self.assertFalse(deaths.denied(peer, [denial(peer)], 105 + deaths.AFTERMATH_S))
        self.assertTrue(deaths.denied(peer, [denial(peer, ended=None)], 1000))
        self.assertFalse(deaths.denied(peer, [denial(other)], 102))

    def test_what_was_denied_to_a_process_is_no_excuse_of_the_next(self):
        peer = types.SimpleNamespace(process=process(7))
        strikes = [denial(peer, ended=None)]
        peer.process = process(9)
        self.assertFalse(deaths.denied(peer, strikes, 102))

    def test_last_words_are_those_of_the_last_process(self):
        with tempfile.TemporaryDirectory() as folder:
            home = types.SimpleNamespace(inside=str, address="127.0.0.1", port=0)
            home.launch = lambda command, errors: subprocess.Popen(
                ["sh", "-c", "echo $0 >>$1", words.pop(0), errors], stdout=subprocess.PIPE, text=True
            )
            words = ["first", "second"]
            peer = Peer(types.SimpleNamespace(folder=folder, words=folder, binary="", job=[], peers=[], changed=threading.Condition()), 1, (), home)
            for said in ("first\n", "second\n"):
                peer.start()
                peer.reader.join()
                self.assertEqual(peer.errors, said)

    def test_on_a_full_disk_nobody_can_begin_but_who_runs_goes_on(self):
        fault = faults.FullDisk(types.SimpleNamespace(rng=None))
        fault.place = object()
        for home, view, denies in ((fault.place, None, True), (fault.place, {"number": 1}, False), (object(), None, False)):
            peer = types.SimpleNamespace(home=home, port=7117, view=view)  # it listens before it looks for room
            self.assertEqual(fault.denies(peer), denies)

    def test_an_end_that_nothing_explains_is_kept_for_the_report(self):
        chaos = Chaos.__new__(Chaos)
        chaos.began, chaos.ended, chaos.crashes, chaos.faults = 0, 0, [], []
        peer = types.SimpleNamespace(number=3, ended=-signal.SIGSEGV, errors="oh\n", home=None, port=1, process=process(7))
        with contextlib.redirect_stdout(io.StringIO()):
            chaos.note_end(peer, 5)
        self.assertEqual(chaos.crashes, [(5, 3, -signal.SIGSEGV, "oh\n")])
        peer.ended, chaos.faults = 1, [denial(peer, ended=None)]
        with contextlib.redirect_stdout(io.StringIO()):
            chaos.note_end(peer, 6)
        self.assertEqual((len(chaos.crashes), chaos.ended), (1, 2))


class Member:
    def __init__(self, number, view):
        self.number, self.view = number, {"name": view}


def flock_of(*views):
    """Returns a flock of living peers 1, 2, ..., each in its view."""
    peers = [Member(i + 1, view) for i, view in enumerate(views)]
    return types.SimpleNamespace(peers=peers, living=lambda: peers, events=[], changed=threading.Condition())


def run_of(flock):
    """Returns a run at time 0 with that flock, which has made no fault yet."""
    options = types.SimpleNamespace(
        seed=1, peers=len(flock.peers), kinds=["none"], majority=False, logs=None, judge=False
    )
    run = Chaos(flock, None, options, jobs.sleeping())
    run.began = 0
    for peer in flock.peers:
        run.ledger.started(peer.number, 0)
    return run


class HowLongFaultsAreFelt(unittest.TestCase):
    def strike_of(self, run, takes_s):
        """Returns a fault that takes some seconds to make, as cuts do."""
        clock = [100.0]

        def begin():
            clock[0] += takes_s
            return "it is made"

        fault = types.SimpleNamespace(name="slow", kills=False, least_s=1, most_s=1, begin=begin)
        fault.end = fault.look = lambda: None
        run.kinds = [types.SimpleNamespace(weight=1)]
        run.rng = types.SimpleNamespace(choices=lambda *ignored: [lambda _: fault], uniform=lambda least, most: most)
        with unittest.mock.patch.object(chaos_module.time, "time", lambda: clock[0]):
            with contextlib.redirect_stdout(io.StringIO()):
                run.strike(clock[0])
        return run.faults[-1]

    def test_the_time_that_it_takes_to_make_one_is_not_waited(self):
        run = run_of(flock_of("a"))
        strike = self.strike_of(run, 0.5)
        self.assertEqual((strike.began, strike.due), (100.5, 101.5))
        for when, step in ((100.4, 1), (100.8, 2)):
            run.flock.events.append((run.flock.peers[0], {"event": "step", "step": step, "time": when}))
        run.drain()
        self.assertAlmostEqual(strike.recovery, 0.3)

    def test_one_is_over_when_all_that_can_be_are_in_one_view(self):
        run = run_of(flock_of("a", "a", "b"))
        strike = self.strike_of(run, 0)
        run.note_reunions(200)
        self.assertIsNone(strike.reunion)  # it lasts
        run.finish(strike)
        strike.ended = 101
        run.note_reunions(102)
        self.assertIsNone(strike.reunion)
        run.restarts = [(103, run.flock.peers[2])]
        run.flock.peers[2].view = {"name": "a"}
        run.note_reunions(103)
        self.assertIsNone(strike.reunion)
        run.restarts = []
        run.note_reunions(104)
        self.assertEqual(strike.reunion, 3)

    def test_whoever_another_fault_has_need_not_be_there(self):
        run = run_of(flock_of("a", "a", "b", "a"))
        self.assertFalse(run.whole())
        for other in (1, 2, 4):
            run.ledger.deafened(3, other, True, 1)
        self.assertTrue(run.whole())
        run.ledger.stands(4, True, 2)
        self.assertTrue(run.whole())

    def test_what_nobody_recovers_from_is_told(self):
        self.assertEqual(report.middle_and_worst([0.1, None, 0.3]), ("300", "never"))
        self.assertEqual(report.middle_and_worst([0.1, None, None]), ("never", "never"))
        self.assertEqual(report.middle_and_worst([None]), ("never", "never"))
        self.assertEqual(report.middle_and_worst([]), ("-", "-"))
        self.assertEqual(report.middle_and_worst([0.1, 0.3]), ("200", "300"))

    def test_quiet_steps_are_those_without_a_fault_or_its_end(self):
        def fault(began, ended, reunion):
            return types.SimpleNamespace(began=began, ended=ended, reunion=reunion)

        run = types.SimpleNamespace(step_marks=[(when, (0,)) for when in range(10)])
        run.faults = [fault(1.5, 2.5, 1), fault(2.6, 2.7, 0), fault(5.5, 6.5, 0)]
        self.assertEqual(report.quiet_steps(run), [(0, 1), (4, 5), (7, 8), (8, 9)])
        run.faults.append(fault(7.5, None, None))
        self.assertEqual(report.quiet_steps(run), [(0, 1), (4, 5)])


class Help(unittest.TestCase):
    def test_help_names_every_option(self):
        done = subprocess.run([sys.executable, CHAOS, "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        options = "--minutes --every --seed --peers --kinds --job --shard-ms --majority --verify --judge"
        for option in options.split():
            self.assertIn(f"\n  {option}", done.stdout)


def corruption(evidence):
    return {"event": "corruption", "time": 5, "step": 86, "peer": "42898534875f0a9b", "evidence": evidence}


def damage(path):
    return corruption(f"a chunk on its disk is damaged: checkpoint/store: chunk 8df2: hash differs in {path}")


def refusal(what):
    return f"the sum of step 7 was refused: {what}"


class WrongBits(unittest.TestCase):
    def told(self, strikes, *events):
        bits = Bits(strikes)
        for event in events:
            bits.take(event)
        return bits

    def struck(self, kind, *paths):
        fault = kind(types.SimpleNamespace(rng=None))
        fault.damaged = paths
        return Strike(fault, "", 1, 2)

    def test_what_peers_call_a_corruption_is_wrong(self):
        for evidence in ("its state changed in memory after it was made (1234)", "peers 1 and 2 differ about shard 3"):
            for strikes in ([], [self.struck(faults.Corrupt, "/disks/2/8df2"), self.struck(faults.Memory)]):
                bits = self.told(strikes, corruption(evidence), corruption(evidence))
                self.assertEqual(bits.wrongs, [f"corruption at step 86: peer 42898534: {evidence}"])
                self.assertEqual(bits.explained, 0)

    def test_a_chunk_in_which_a_fault_has_flipped_a_bit_is_explained_and_no_other(self):
        flip = self.struck(faults.Corrupt, "/disks/2/8df2")
        decay = self.struck(faults.PowerLoss, "/disks/3/a", "/disks/3/b")
        bits = self.told([flip, decay], *map(damage, ("/disks/2/8df2", "/disks/3/a", "/disks/3/b")))
        self.assertEqual((bits.explained, bits.wrongs), (3, []))
        self.assertTrue(flip.fault.happened)  # though its file was gone before anybody looked
        bits = self.told([flip, decay], *map(damage, ("/disks/1/8df2", "/disks/2/8df2a", "/disks/3/c")))
        self.assertEqual((bits.explained, len(bits.wrongs)), (0, 3))
        shorter = corruption("a chunk on its disk is damaged: chunk 8df2: 7 bytes in /disks/2/8df2, not 9")
        self.assertEqual(len(self.told([flip, decay], shorter).wrongs), 1)

    def test_what_fails_its_checks_is_wrong_wherever_that_is_told(self):
        causes = ("its coverage is wrong, bucket 3", "its fingerprint is wrong, bucket 0", "the members' states differ")
        for cause in causes:
            told = [{"event": kind, "step": 7, "cause": refusal(cause)} for kind in ("view", "repair")]
            told += [{"event": "error", "text": f"the sum of step 7 is not applied: {cause}"}]
            for event in told:
                self.assertEqual(self.told([], event).wrongs, [event.get("cause", event.get("text"))])
            self.assertEqual(len(self.told([], *told, *told).wrongs), 2)

    def test_what_faults_rightly_cause_is_not_wrong(self):
        causes = ["leader 64ad50b6 died (asked by b5019991)", "newcomers", "a reduction failed: sums: no memory"]
        told = [{"event": kind, "step": 7, "cause": cause} for kind in ("view", "repair") for cause in causes]
        told += [{"event": "error", "text": damage("/disks/2/8df2")["evidence"]}, {"event": "step", "step": 7}]
        self.assertEqual(self.told([], *told).wrongs, [])

    def test_a_run_in_which_a_peer_told_of_one_does_not_pass(self):
        run = run_of(flock_of("a"))
        run.same, run.faults = True, [self.struck(faults.Kill)]
        self.assertTrue(run.passed())
        repair = {"event": "repair", "time": 5, "step": 7, "cause": refusal("its coverage is wrong")}
        run.flock.events.append((run.flock.peers[0], repair))
        run.drain()
        self.assertFalse(run.passed())
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            report.print_bits(run)
        self.assertIn("WRONG: the sum of step 7 was refused: its coverage is wrong\n", said.getvalue())

    def test_what_is_told_after_the_last_step_counts_as_well(self):
        run = run_of(flock_of("a"))
        run.flock.gather_in, run.flock.wait_step = lambda places: [], lambda step, seconds: None
        run.flock.peers[0].process = types.SimpleNamespace(poll=lambda: 0, pid=0)
        run.network, run.rage, run.judge = types.SimpleNamespace(places=[]), lambda: None, lambda: None

        def heal():
            run.settle()
            run.flock.events.append((run.flock.peers[0], corruption("its state changed in memory")))

        run.heal = heal
        chaos_module.go_through(run)
        self.assertEqual(len(run.bits.wrongs), 1)


class WhatIsReported(unittest.TestCase):
    def test_chunks_that_nobody_read_are_no_faults_and_of_no_kind(self):
        run = run_of(flock_of("a"))
        run.flock.job, run.seconds = ["synthetic"], 9
        run.flock.peers[0].process = process(0)
        for kind, happened in ((faults.Kill, True), (faults.Corrupt, False), (faults.Corrupt, False)):
            run.faults.append(Strike(kind(run), "", 1, 2))
            self.assertEqual(run.faults[-1].fault.happened, happened)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            run.settle()
            report.print_report(run)
        self.assertIn("\nfaults 1, of 1 kinds, in 9 s\n", said.getvalue())
        self.assertIn("    not counted: bits that flipped in chunks that no peer read: 2\n", said.getvalue())
        self.assertNotIn("\ncorrupt chunk", said.getvalue())

    def test_what_was_not_there_to_be_judged_is_told(self):
        run = run_of(flock_of("a"))
        run.flock.job, run.seconds, run.kinds = ["synthetic"], 9, [faults.Kill, faults.Cut]
        run.flock.peers[0].process, run.faults = process(0), [Strike(faults.Kill(run), "", 1, 2)]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            run.settle()
            report.print_report(run)
        self.assertIn("\ncut                  never struck\n", said.getvalue())
        self.assertNotIn("kill                 never", said.getvalue())
        self.assertIn("whether that grows is not judged: peer 1 has not lived long enough\n", said.getvalue())


class NothingStrikes(unittest.TestCase):
    def run_with(self, kinds, peers, majority=False):
        """Returns a run that can make these faults on a machine that has all that the network faults need."""
        options = types.SimpleNamespace(seed=1, peers=peers, kinds=kinds, majority=majority, logs=None, judge=False)
        network = types.SimpleNamespace(can_shape=lambda *queue: True, can_drop=lambda: True, clock=None)
        with contextlib.redirect_stdout(io.StringIO()):
            return Chaos(flock_of(*"a" * peers), network, options, jobs.sleeping())

    def test_what_needs_another_peer_is_no_fault_of_one_alone(self):
        kinds = [faults.Kill, faults.Wipe, faults.Cut, faults.CutOneWay, faults.Flap]
        kinds += [faults.Delay, faults.SlowLink, faults.Drop]
        alone = self.run_with([kind.name for kind in kinds], 1)
        self.assertEqual(alone.kinds, [])
        self.assertEqual({why for _, why in alone.skipped}, {"there is no other peer"})
        self.assertEqual(set(self.run_with([kind.name for kind in kinds], 2).kinds), set(kinds))

    def test_where_all_make_the_majority_nobody_can_be_killed(self):
        self.assertEqual(self.run_with(["kill"], 2, majority=True).skipped, [("kill", "all 2 peers are needed")])
        self.assertEqual(self.run_with(["kill"], 3, majority=True).kinds, [faults.Kill])

    def test_a_run_without_any_kind_is_refused_by_name(self):
        with self.assertRaisesRegex(Trouble, r"'kill' \(there is no other peer\), 'cut' \(there is no other peer\)"):
            self.run_with(["kill", "cut"], 1).need_kinds()
        self.run_with(["kill", "stop and continue"], 1).need_kinds()

    def test_a_run_in_which_nothing_has_struck_passes_only_if_it_was_cut_short(self):
        run = self.run_with(["kill"], 2)
        run.same = True
        self.assertFalse(run.passed())
        run.faults = [Strike(faults.Kill(run), "", 1, 2)]
        self.assertTrue(run.passed())
        run.faults = []
        with contextlib.redirect_stderr(io.StringIO()), unittest.mock.patch.object(chaos_module, "handle"):
            run.enough(signal.SIGINT, None)
        self.assertTrue(run.passed())


class RunsThatGoWrong(unittest.TestCase):
    def test_what_ends_as_it_is_hurt_is_nothing_to_hurt(self):
        run = run_of(flock_of("a"))
        run.kinds = [types.SimpleNamespace(weight=1)]
        for error in (ProcessLookupError, FileNotFoundError, ValueError):
            fault = types.SimpleNamespace(name="x", kills=False, least_s=1, most_s=1)
            fault.begin = unittest.mock.Mock(side_effect=error)
            run.rng = types.SimpleNamespace(choices=lambda *ignored: [lambda _: fault], uniform=max)
            run.strike(1)
            fault.begin.assert_called_once()
        self.assertEqual((run.faults, run.counts), ([], {}))

    def test_a_limit_of_whoever_has_ended_needs_no_taking_back(self):
        fault = faults.Memory(types.SimpleNamespace(rng=None))
        child = subprocess.Popen(["true"])
        child.wait()
        gone = types.SimpleNamespace(pid=child.pid, poll=lambda: None)
        fault.peer, fault.before = types.SimpleNamespace(process=gone), (1, 1)
        fault.end()

    def test_a_flock_that_is_not_whole_again_is_reported(self):
        run = run_of(flock_of("a", "b"))
        run.flock.job, run.network, run.options.timeline = ["synthetic"], types.SimpleNamespace(places=[]), None
        run.flock.gather_in, run.flock.wait_step = lambda places: [], lambda step, seconds: None
        for peer in run.flock.peers:
            peer.process = types.SimpleNamespace(poll=lambda: 0, pid=0)
        run.began = None

        def rage():
            run.began = time.time()

        run.rage, run.heal = rage, unittest.mock.Mock(side_effect=Trouble("it is not whole"))
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            run.options.timeline = os.path.join(folder, "chaos.svg")
            with self.assertRaisesRegex(Trouble, "it is not whole"):
                chaos_module.go_through_and_tell(run)
            self.assertTrue(os.path.exists(run.options.timeline))
        self.assertIn("same bytes as an undisturbed single-peer run: not judged", said.getvalue())


class WhatFaultsCost(unittest.TestCase):
    def losses(self, *listed):
        """Of faults (kind, when, how long until a step was new) in a run of 40 s whose last step was at 25 s."""
        listed = [types.SimpleNamespace(kind=kind, began=began, recovery=recovery) for kind, began, recovery in listed]
        marks, ledger = [(0, (0,)), (25, (0,))], types.SimpleNamespace(at=40)
        run = types.SimpleNamespace(began=0, faults=listed, step_marks=marks, ledger=ledger, job=jobs.sleeping())
        run.between = lambda since, until: (0, until - since, 0)
        return report.losses(run)

    def test_what_comes_before_a_power_loss_is_recovered_from_costs_nothing_of_its_own(self):
        lost = self.losses(("cut", 0, 1), ("power loss", 5, 12), ("kill", 10, 7), ("cut", 20, 1))
        self.assertEqual(lost, {"cut": [5, 5], "power loss": [12]})

    def test_what_is_not_recovered_from_costs_all_that_is_left(self):
        self.assertEqual(self.losses(("cut", 20, 1), ("kill", 26, None)), {"cut": [6], "kill": [14]})
        self.assertEqual(self.losses(("power loss", 26, None), ("kill", 27, None)), {"power loss": [14]})

    def test_a_run_that_gets_stuck_has_worked_less(self):
        for recovery, live in ((1, 5), (None, 9)):
            run = run_of(flock_of("a"))
            run.ledger.begin(0)
            run.flock.peers[0].process, run.seconds = process(0), 9
            run.faults, run.step_marks = [Strike(faults.Kill(run), "", 1, 2)], [(0, (0,)), (5, (1,))]
            run.faults[0].recovery = recovery
            with unittest.mock.patch.object(chaos_module.time, "time", lambda: 9):
                run.settle()
            self.assertEqual(run.live_s, live)


class WhatProcessesTake(unittest.TestCase):
    def use_of(self, grows, until=3600):
        use = Use()
        use.lives = {7: [(now, (1000 + grows * now, 30)) for now in range(0, until + 1, 5)], 8: [(0, (5000, 90))]}
        return use

    def test_growth_is_the_line_through_all_samples_since_it_had_settled(self):
        growth = self.use_of(2).growth(7)
        self.assertAlmostEqual(growth.bytes_h, 7200)
        self.assertAlmostEqual(growth.descriptors_h, 0)
        self.assertAlmostEqual(growth.hours, 3480 / 3600)
        self.assertIsNone(self.use_of(2, until=120).growth(7))
        self.assertIsNone(self.use_of(2).growth(9))

    def test_a_slow_leak_is_found_and_a_moment_is_none(self):
        self.assertEqual(self.use_of((5 << 20) / 3600).growth(7).leaks(), ["memory"])
        self.assertEqual(self.use_of((1 << 20) / 3600).growth(7).leaks(), [])
        use = self.use_of(0)
        use.lives[7][-1] = (3600, (9 << 20, 90))
        self.assertEqual(use.growth(7).leaks(), [])
        use.lives[7] = [(now, (1000, 30 + now // 300)) for now, _ in use.lives[7]]
        self.assertEqual(use.growth(7).leaks(), ["descriptors"])

    def test_what_was_watched_for_minutes_is_not_judged(self):
        self.assertEqual(self.use_of(1 << 20, until=600).growth(7).leaks(), [])
        self.assertEqual(self.use_of(1 << 20, until=800).growth(7).leaks(), ["memory"])

    def test_what_a_process_takes_to_begin_with_is_no_growth(self):
        use = self.use_of(0)
        use.lives[7] = [(now, (1000 + 50 * min(now, 110), 20 + (now > 60))) for now, _ in use.lives[7]]
        self.assertAlmostEqual(use.growth(7).bytes_h, 0)
        self.assertAlmostEqual(use.growth(7).descriptors_h, 0)

    def test_one_peer_lives_for_the_second_half_of_a_run(self):
        run = run_of(flock_of("a", "a"))
        run.options.minutes = 10
        for peer in run.flock.peers:
            peer.process = types.SimpleNamespace(poll=lambda: None)
        for now, spared in ((299, {1, 2}), (301, {2})):
            with unittest.mock.patch.object(chaos_module.time, "time", lambda: now):
                for kind in (faults.Kill, faults.Wipe, faults.Memory, faults.Descriptors):
                    self.assertEqual({kind(run).victim().number for _ in range(50)}, spared)
                self.assertEqual({faults.Stop(run).victim().number for _ in range(50)}, {1, 2})
        with unittest.mock.patch.object(chaos_module.time, "time", lambda: 301):
            self.assertIsNone(faults.PowerLoss(run).begin())

    def test_medians_leave_out_what_has_just_begun(self):
        self.assertEqual(self.use_of(2).median(0, 141), (1260, 30))
        self.assertIsNone(self.use_of(2).median(0, 110))

    def test_a_real_process_is_looked_at_and_one_that_is_gone_is_not(self):
        use = Use()
        use.look(os.getpid(), 0)
        self.assertGreater(use.most[0], 1 << 20)
        self.assertGreater(use.most[1], 2)
        before = use.most
        child = subprocess.Popen(["true"])
        child.wait()
        use.look(child.pid, 1)
        self.assertEqual(use.most, before)


CLOCKS = "import time; print(int(time.time()), int(time.monotonic()), flush=True)"
TWICE = f"{CLOCKS}; input(); {CLOCKS}"


class WallClock(unittest.TestCase):
    def test_it_steps_while_a_process_runs_and_no_other_clock_does(self):
        with tempfile.TemporaryDirectory() as folder:
            place = places.Place(places.Network(1, folder, os.path.join(os.path.dirname(BINARY), "chaos_clock.so")), 1)
            os.mkdir(place.network.disks)
            place.set_clock(3600)
            environment = {**os.environ, "LD_PRELOAD": place.network.clock, "GODWIT_CHAOS_CLOCK": place.clock_file}
            command = [sys.executable, "-c", TWICE]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            with subprocess.Popen(command, env=environment, **pipes) as process:
                wall, steady = map(int, process.stdout.readline().split())
                self.assertAlmostEqual(wall - time.time(), 3600, delta=300)
                self.assertAlmostEqual(steady, time.monotonic(), delta=300)
                place.set_clock(-3600)
                process.stdin.write("\n")
                process.stdin.flush()
                wall, steady = map(int, process.stdout.readline().split())
                self.assertAlmostEqual(wall - time.time(), -3600, delta=300)
                self.assertAlmostEqual(steady, time.monotonic(), delta=300)


# Steps of 0.2 s in a flock of four: what waits for some of them, as the start and the end of each run do, is soon over.
SHORT_STEPS = ("--shard-ms", "10")


class Short(unittest.TestCase):
    def run_chaos(self, *extra):
        """Returns the output of a run that must end with the same bytes."""
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "chaos.svg")
            command = [sys.executable, CHAOS, "--binary", BINARY, "--timeline", picture, "--every", "1", *extra]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            xml.etree.ElementTree.parse(picture)
        self.assertIn("same bytes as an undisturbed single-peer run: yes", done.stdout)
        return done.stdout

    def test_same_bytes_whatever_is_done_to_processes_networks_and_disks(self):
        said = self.run_chaos(*SHORT_STEPS, "--minutes", "0.35", "--seed", "1")
        self.assertGreaterEqual(len(re.findall(r"^ *[0-9.]+ s  step +[0-9]+  ", said, re.MULTILINE)), 20 // 2)  # one a second
        self.assertGreaterEqual(int(re.search(r"^faults [0-9]+, of ([0-9]+) kinds", said, re.MULTILINE)[1]), 5)
        self.assertRegex(said, r"work committed [0-9]+ s: [1-9][0-9.]* % of [1-9][0-9]* live peer-seconds")
        self.assertIn(" --shard-ms 10 ", said)

    def test_same_bytes_with_busy_processors_a_majority_and_shards_that_are_verified(self):
        kinds = "kill,cut,stop and continue,full disk,memory"
        extra = ["--job", "busy", "--majority", "--verify", "20%", "--kinds", kinds]
        said = self.run_chaos("--minutes", "0.15", "--seed", "4", *extra)
        self.assertRegex(said, r"measured: godwit run synthetic .* --spin .* --quorum majority --verify 20%")
        self.assertIn("what live peers could do is not known", said)

    @unittest.skipUnless("GODWIT_TEST_DATA" in os.environ, "there is no GODWIT_TEST_DATA with text/shakespeare.txt")
    def test_same_model_whatever_is_done_to_those_who_train_it(self):
        said = self.run_chaos("--minutes", "0.1", "--seed", "6", "--peers", "3", "--job", "gpt", "--kinds", "kill,cut")
        flock, alone = re.findall(r"model exported from (?:flock|alone): ([0-9a-f]{64})", said)
        self.assertEqual(flock, alone)

    def test_only_a_job_whose_shards_have_a_length_takes_one(self):
        for wrong in (["--shard-ms", "0"], [*SHORT_STEPS, "--job", "digits"]):
            done = subprocess.run([sys.executable, CHAOS, *wrong], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)
            self.assertIn("--shard-ms is from 1 to 10000, and for synthetic and busy", done.stderr)

    def test_without_its_data_a_job_is_refused(self):
        surroundings = {name: value for name, value in os.environ.items() if name != "GODWIT_TEST_DATA"}
        command = [sys.executable, CHAOS, "--binary", BINARY, "--job", "digits"]
        done = subprocess.run(command, capture_output=True, text=True, env=surroundings)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("GODWIT_TEST_DATA names no folder with mnist in it", done.stderr)

    def fail_chaos(self, *extra):
        """Returns what a run wrote that must end with exit code 1."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, CHAOS, "--binary", BINARY, "--timeline", os.path.join(folder, "chaos.svg")]
            done = subprocess.run([*command, *extra], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_what_nothing_can_strike_is_not_even_started(self):
        said, why = self.fail_chaos("--peers", "1", "--kinds", "cut")
        self.assertEqual(said, "chaos: no 'cut': there is no other peer\n")
        self.assertEqual(why, "chaos: no fault can be made: 'cut' (there is no other peer)\n")

    def test_a_run_that_nothing_has_struck_fails_and_says_so(self):
        said, _ = self.fail_chaos(*SHORT_STEPS, "--minutes", "0.05", "--every", "1", "--peers", "2", "--kinds", "corrupt chunk")
        self.assertRegex(said, "\nfaults 0, of 0 kinds, in [0-9]+ s\n    NOTHING HAS STRUCK: this run shows nothing\n")
        self.assertIn("same bytes as an undisturbed single-peer run: yes", said)

    def test_a_flock_of_two_that_is_cut_all_the_time_comes_together_again(self):
        kinds = "cut,cut one way,flapping cut"
        self.run_chaos(*SHORT_STEPS, "--minutes", "0.15", "--seed", "2", "--peers", "2", "--kinds", kinds)

    def test_when_all_die_they_go_on_from_their_disks_whatever_has_decayed(self):
        # All die after 1 s and after 7 s; nobody dies in the second half of a run, in which one peer's memory is watched.
        extra = ["--minutes", "0.27", "--seed", "5", "--every", "6", "--kinds", "power loss"]
        said = self.run_chaos(*SHORT_STEPS, *extra)
        self.assertRegex(said, r"power loss +[23] ")
        self.assertIn("bits flip in all chunks", said)
        self.assertRegex(said, r"disks that were damaged then: [12], of which read: [12]")
        self.assertRegex(said, r"power losses, all together: [1-9][0-9.]* % of the live peer-seconds")
        self.assertIn("processes that no fault had ended or denied anything: 0", said)
        self.assertRegex(said, r"had to continue from the newest complete checkpoint: [12]")
        self.assertNotIn("WRONG", said)

    def test_a_process_that_crashes_fails_the_run_and_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, CHAOS, "--binary", BINARY, "--timeline", os.path.join(folder, "chaos.svg")]
            command += [*SHORT_STEPS, "--minutes", "0.1", "--every", "2", "--peers", "2", "--kinds", "clock step"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
                line = run.stdout.readline()
                with open(f"/proc/{run.pid}/task/{run.pid}/children") as file:
                    os.kill(int(file.read().split()[0]), signal.SIGSEGV)
                said = line + run.stdout.read()
            self.assertEqual(run.returncode, 1, said)
        self.assertIn("processes that no fault had ended or denied anything: 1", said)
        self.assertRegex(said, r"peer [12] ended \(-11\), which no fault explains; its last words:")
        self.assertIn("same bytes as an undisturbed single-peer run: yes", said)

    def test_clocks_that_step_change_nothing_and_nothing_is_left_behind(self):
        before = self.of_the_dead()
        said = self.run_chaos(*SHORT_STEPS, "--minutes", "0.08", "--seed", "3", "--peers", "2", "--kinds", "clock step")
        self.assertRegex(said, r"clock step +[1-9]")
        self.assertIn("ended by themselves and were started again 0", said)
        self.assertEqual(self.of_the_dead() - before, set())

    def test_logs_keep_what_each_peer_wrote_and_told(self):
        with tempfile.TemporaryDirectory() as folder:
            logs = os.path.join(folder, "logs")
            self.run_chaos(*SHORT_STEPS, "--minutes", "0.08", "--peers", "2", "--kinds", "kill", "--logs", logs)
            self.assertEqual(sorted(os.listdir(logs)), ["events.jsonl", "peer1.err", "peer2.err"])
            with open(os.path.join(logs, "events.jsonl")) as file:
                events = [json.loads(line) for line in file]
            self.assertEqual({event["number"] for event in events if event["event"] == "step"}, {1, 2})
            told = [event["text"] for event in events if event["event"] == "log"]
            self.assertTrue(any("data link to" in text for text in told), told)
            again = [sys.executable, CHAOS, "--binary", BINARY, "--logs", logs]
            done = subprocess.run(again, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("exists already", done.stderr)

    @contextlib.contextmanager
    def long_run(self, folder):
        """Starts a run of minutes in the background and returns when its first fault has begun."""
        command = [sys.executable, CHAOS, "--binary", BINARY, "--timeline", os.path.join(folder, "chaos.svg")]
        command += [*SHORT_STEPS, "--minutes", "5", "--every", "1", "--peers", "2"]
        surroundings = {"env": {**os.environ, "TMPDIR": folder}, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        background = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
        with subprocess.Popen(command, text=True, **surroundings, **background) as run:
            next(line for line in run.stdout if " step " in line)
            yield run

    def test_who_ends_it_early_is_told_what_it_has_come_to(self):
        with tempfile.TemporaryDirectory() as folder, self.long_run(folder) as run:
            run.send_signal(signal.SIGINT)
            said, warned = run.communicate()
            self.assertEqual(run.returncode, 0, said + warned)
            self.assertIn("interrupt once more", warned)
            self.assertIn("same bytes as an undisturbed single-peer run: yes", said)
            self.assertEqual(os.listdir(folder), ["chaos.svg"])

    def test_who_ends_it_twice_finds_nothing_left_behind(self):
        for first, second in ((signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)):
            before = self.of_the_dead()
            with tempfile.TemporaryDirectory() as folder:
                with self.long_run(folder) as run:
                    run.send_signal(first)
                    self.assertIn("interrupt once more", run.stderr.readline())
                    run.send_signal(second)
                    run.communicate()
                self.assertEqual(run.returncode, 130)
                self.assertEqual(os.listdir(folder), [])
            self.assertEqual(self.of_the_dead() - before, set())

    def test_a_terminal_that_is_gone_ends_it_at_once(self):
        before = self.of_the_dead()
        with tempfile.TemporaryDirectory() as folder, self.long_run(folder) as run:
            run.send_signal(signal.SIGHUP)
            run.communicate()
            self.assertEqual(run.returncode, 130)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(self.of_the_dead() - before, set())

    def of_the_dead(self):
        """Returns the network namespaces of runs that are over; other runs may be under way."""
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()
        ours = {name for name in left if name.startswith("godwit-chaos-")}
        return {name for name in ours if not os.path.exists(f"/proc/{name.split('-')[2]}")}


if __name__ == "__main__":
    tap.main(places.missing, "chaos")
