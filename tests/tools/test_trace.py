"""`godwit trace` on flocks that run: the file is read by Perfetto's own schema, strictly (read_trace.py), and tells what
the flock did; peers that die, stand still or have a key do not keep it from being written."""

import collections
import json
import math
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "lab"))
sys.path.insert(0, str(TREE / "tools" / "lab"))
import flock  # noqa: E402
import readers  # noqa: E402
import tap  # noqa: E402

GODWIT = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build")) / "godwit"
SHARDS = 24
AHEAD_S = 5000  # of the clock of a peer that runs in a time namespace of its own
JOB = f"synthetic --workers 2 --shards {SHARDS} --shard-ms 8 --state-bytes 256k --sum-elements 20000 --steps 1000000".split()
LIMIT_S = 300  # a machine may be busy
EVERY = 10  # steps between two checkpoints


class OtherClock(flock.Here):
    """This machine with another CLOCK_MONOTONIC."""

    def launch(self, command, errors):
        return super().launch(["unshare", "--time", "--monotonic", str(AHEAD_S), "--boottime", str(AHEAD_S), *command], errors)


def has_time_namespaces():
    return subprocess.run(["unshare", "--time", "true"], capture_output=True, check=False).returncode == 0


def trace(*arguments, code=0, **more):
    done = subprocess.run([GODWIT, "trace", *map(str, arguments)], capture_output=True, check=False, timeout=LIMIT_S, **more)
    if done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr.decode()}")
    return done


def begin(*arguments):
    """Starts a trace, and returns its process once the peers record."""
    process = subprocess.Popen([GODWIT, "trace", *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if ": traces " in line:
            return process
    raise AssertionError(f"the trace has ended: {process.wait()}")


class Trace:
    """What read_trace.py has found in a file, in which it found nothing wrong."""

    def __init__(self, path):
        command = [readers.program("python"), HERE / "read_trace.py", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        found = json.loads(done.stdout)
        span = collections.namedtuple("Span", "peer track name category notes begin end")
        self.spans = [span(*one) for one in found["spans"]]
        self.instants = found["instants"]
        self.flows = found["flows"]
        self.counters = found["counters"]
        self.traced = {one.peer: one for one in self.spans if one.category == "traced"}

    def named(self, pattern):
        return [one for one in self.spans if re.fullmatch(pattern, one.name)]

    def peer(self, peer):
        """The name of the process of a peer of the flock."""
        (name,) = [name for name in self.traced if f"({peer.id[:8]})" in name]
        return name

    def instants_of(self, peer):
        return {one[2] for one in self.instants if one[0] == peer}


def by_step(spans):
    steps = collections.defaultdict(list)
    for one in spans:
        steps[one.notes.get("step", 0)].append(one)
    return steps


class Calm(unittest.TestCase):
    """Three peers with a key, of which the third is slow and, where that can be, has another clock."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.key = cls.folder / "key"
        subprocess.run([GODWIT, "keygen", cls.key], check=True, capture_output=True, timeout=LIMIT_S)
        cls.flock = cls.enterClassContext(flock.Flock(GODWIT, [*JOB, "--key", str(cls.key), "--checkpoint-every", str(EVERY)]))
        cls.other_clock = has_time_namespaces()
        home = OtherClock() if cls.other_clock else flock.HERE
        first = cls.flock.add(["--name", "eins"])
        cls.peers = [first, cls.flock.add(), cls.flock.add(["--skew", "4", "--name", "a-host-whose-name-is-long.example"], home)]
        cls.flock.wait(lambda: first.view and len(first.view["members"]) == 3, LIMIT_S, "all are members")
        cls.flock.wait_step(first.step + 5, LIMIT_S)
        begun = time.monotonic()
        cls.flock.wait_step(first.step + EVERY, LIMIT_S)
        seconds = max(2, math.ceil(4 * (time.monotonic() - begun)))  # some checkpoints are made meanwhile
        cls.path = cls.folder / "größe 'n\t.pftrace"
        cls.told = trace("--dir", first.directory, "--key", cls.key, "-o", cls.path, "--seconds", str(seconds), "--summary")
        cls.trace = Trace(cls.path)

    def test_every_peer_is_there_with_its_threads_and_what_they_did(self):
        self.assertEqual(len(self.trace.traced), 3)
        self.assertIn("eins (", self.trace.peer(self.peers[0]))
        kinds = {"shard \\d+": "gw-worker-[01]", "reduce \\d+": "gw-compute", "sum of integers": "gw-compute",
                 "apply \\d+": "gw-compute", "wait for members": "gw-compute", "step \\d+": "steps", "shards": "steps",
                 "part \\d+, sum of integers": "gw-data.*", "hop \\d+": "gw-data.*", "members enter": "gw-data.*",
                 "stage chunk \\d+": "gw-(checkpoint|compute)", "hash": "gw-checkpoint", "write": "gw-checkpoint",
                 "manifest": "gw-checkpoint", "save step \\d+": "checkpoints", "apply units": "gw-worker-[01]"}
        for name, track in kinds.items():
            found = self.trace.named(name)
            missing = set(self.trace.traced) - {one.peer for one in found}
            # The last to enter waits for nobody.
            self.assertFalse(missing if name != "wait for members" else not found, f"{name}: not of {missing}")
            for one in found:
                self.assertRegex(one.track.removesuffix(" (2)"), f"^{track}$", name)
        for peer in self.trace.traced:
            self.assertTrue(any(name.startswith("complete: step") for name in self.trace.instants_of(peer)))
            self.assertLessEqual(max(self.trace.counters[f"{peer}: shards in flight"]), 2)
            self.assertGreater(self.trace.counters[f"{peer}: sums sent"][-1], 0)
            self.assertGreater(self.trace.counters[f"{peer}: checkpoints written"][-1], 0)
            self.assertEqual(self.trace.traced[peer].notes["records lost"], 0)

    def test_every_shard_of_a_step_is_added_once(self):
        shards = by_step(one for one in self.trace.named("shard \\d+") if one.notes["end"] == "added")
        windows = self.trace.traced.values()
        begin, end = max(one.begin for one in windows), min(one.end for one in windows)
        whole = [step for step, spans in by_step(self.trace.named("step \\d+")).items()
                 if len(spans) == 3 and all(begin < one.begin and one.end < end for one in spans)]
        self.assertGreater(len(whole), 5)
        for step in whole:
            self.assertEqual(sorted(one.notes["shard"] for one in shards[step]), list(range(SHARDS)), f"step {step}")

    def test_steals_go_from_thief_to_victim(self):
        steals = self.trace.named("steal")
        self.assertGreater(len(steals), 0)
        flows = collections.Counter((one.peer, one.notes["victim"]) for one in steals)
        self.assertEqual(collections.Counter(map(tuple, self.trace.flows)), flows)

    def test_the_clocks_are_one(self):
        errors_ns = 0
        for name, one in self.trace.traced.items():
            ahead_ns = AHEAD_S * 10**9 if self.other_clock and name == self.trace.peer(self.peers[2]) else 0
            error_ns = one.notes["clock error at most (ns)"]
            self.assertLessEqual(abs(one.notes.get("clock offset (ns)", 0) - ahead_ns), error_ns)
            self.assertLess(error_ns, 10**9)
            errors_ns += error_ns
        for step, sums in by_step(self.trace.named("sum of integers")).items():
            if len(sums) == 3:
                self.assertLessEqual(max(one.begin for one in sums), min(one.end for one in sums) + errors_ns, f"step {step}")

    def test_the_summary_is_that_of_the_file_and_adds_up(self):
        text = self.told.stdout.decode()
        self.assertEqual(trace("--summary", self.path).stdout.decode(), text)
        rows = re.findall(r"^(\S.*?)((?: +[0-9.]+ %){5}) ", text, re.MULTILINE)
        # A name keeps its end, the id, where a row would have more than 80 columns.
        self.assertEqual({name.strip()[-10:] for name, _ in rows}, {name[-10:] for name in (*self.trace.traced, "all")})
        self.assertLessEqual(max(map(len, text.splitlines())), 80, text)
        self.assertRegex(text, r"(?m)^a-host-\.\.\.\([0-9a-f]{8}\) ")
        for name, numbers in rows:
            compute, wait, reduce, apply, other = map(float, re.findall("[0-9.]+", numbers))
            self.assertAlmostEqual(compute + wait + reduce + apply + other, 100, delta=0.3, msg=name)
            self.assertGreater(compute, 10)
        self.assertRegex(text, r"the clocks of the peers are known to \S+ ms")

    def test_standard_output_gets_the_trace_alone(self):
        arguments = ("--dir", self.peers[1].directory, "--key", self.key, "-o", "-", "--seconds", "1", "--summary")
        done = trace(*arguments)
        (self.folder / "piped").write_bytes(done.stdout)
        self.assertEqual(len(Trace(self.folder / "piped").traced), 3)
        self.assertIn(b"compute", done.stderr)

    def test_without_the_key_the_peer_that_runs_here_is_traced(self):
        done = trace("--dir", self.peers[1].directory, "-o", self.folder / "one", "--seconds", "1")
        self.assertIn("the other 2 peers of this flock let in only who has its key", done.stderr.decode())
        found = Trace(self.folder / "one")
        self.assertEqual(list(found.traced), [found.peer(self.peers[1])])
        self.assertGreater(len(found.named("wait for members")), 0, "its ring knows when the others had entered")

    def test_from_elsewhere_several_clients_trace_at_once_and_ctrl_c_ends_one(self):
        place = ("--from", f"127.0.0.1:{self.peers[0].port}", "--key", self.key)
        long = begin(*place, "-o", self.folder / "long", "--seconds", "600")
        trace(*place, "-o", self.folder / "short", "--seconds", "1")
        long.send_signal(signal.SIGINT)
        self.assertEqual(long.wait(LIMIT_S), 0, long.stderr.read())
        for name in ("long", "short"):
            self.assertEqual(len(Trace(self.folder / name).traced), 3)
        long.stderr.close()

    def test_a_client_that_is_killed_ends_its_trace(self):
        process = begin("--dir", self.peers[0].directory, "--summary", "--seconds", "600")
        process.kill()
        process.wait(LIMIT_S)
        process.stderr.close()
        trace("--dir", self.peers[0].directory, "--key", self.key, "-o", self.folder / "next", "--seconds", "1")
        self.assertEqual(len(Trace(self.folder / "next").traced), 3)
        trace("--dir", self.peers[0].directory, "-o", self.folder / "next", "--seconds", "1")  # its own is replaced

    def test_a_full_disk_is_told_of_and_the_older_file_stays(self):
        old = self.folder / "old"
        old.write_text("old")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))

        done = trace("--dir", self.peers[0].directory, "-o", old, "--seconds", "1", code=1)
        self.assertIn(f"{old} exists and is none that this command wrote", done.stderr.decode())
        done = trace("--dir", self.peers[0].directory, "-o", old, "--force", "--seconds", "1", code=1, preexec_fn=limit)
        self.assertIn(f"{old}", done.stderr.decode())
        self.assertEqual(old.read_text(), "old")
        self.assertEqual([path.name for path in self.folder.glob("old*")], ["old"])


class Troubled(unittest.TestCase):
    """Peers that die, or do not answer."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.flock = self.enterContext(flock.Flock(GODWIT, [*JOB, "--peers", "3"]))
        self.peers = self.flock.gather(3)
        self.flock.wait_step(5, LIMIT_S)
        self.path = self.folder / "t"

    def test_a_peer_that_is_killed_is_there_until_then(self):
        process = begin("--dir", self.peers[0].directory, "-o", self.path, "--seconds", "600")
        self.flock.wait_step(self.flock.step() + 40, LIMIT_S)  # a second or more, in which it is asked ten times
        moment = self.peers[2].kill()
        self.flock.first_step_after(moment, LIMIT_S, members=2)
        newcomer = self.flock.add()
        self.flock.wait(lambda: newcomer.view, LIMIT_S, "it joins", watch=[newcomer])
        self.flock.wait_step(self.flock.step() + 80, LIMIT_S)  # some seconds, in which it is looked for
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
        self.assertEqual(process.wait(LIMIT_S), 0, told)
        process.stderr.close()
        self.assertRegex(told, rf"\({self.peers[2].id[:8]}\) was traced only until its connection ended")
        found = Trace(self.path)
        killed = found.peer(self.peers[2])
        self.assertIn("ended early", found.traced[killed].notes)
        self.assertGreater(found.traced[found.peer(newcomer)].begin, found.traced[killed].end)
        self.assertTrue(any(one.peer == killed and one.category == "compute" for one in found.spans))
        for peer in self.peers[:2]:
            name = found.peer(peer)
            self.assertLess(found.traced[killed].end, found.traced[name].end)
            self.assertIn("peer dead", found.instants_of(name))
            for kind in ("freeze", "change to view \\d+"):
                self.assertTrue(any(one.peer == name for one in found.named(kind)), kind)
        text = trace("--summary", self.path).stdout.decode()
        self.assertRegex(text, rf"\({self.peers[2].id[:8]}\) was traced for \S+ s only: ")

    def test_a_peer_that_stands_still_does_not_keep_the_others(self):
        self.peers[1].signal(signal.SIGSTOP)
        done = trace("--dir", self.peers[0].directory, "-o", self.path, "--seconds", "1")
        self.peers[1].signal(signal.SIGCONT)
        found = Trace(self.path)
        self.assertIn(found.peer(self.peers[0]), found.traced)
        still = f"({self.peers[1].id[:8]})"
        self.assertTrue(still in done.stderr.decode() or not any(still in name for name in found.traced))


class Lengths(unittest.TestCase):
    def test_a_trace_of_a_job_that_ends_is_over(self):
        with flock.Flock(GODWIT, [*JOB, "--steps", "40"]) as peers, tempfile.TemporaryDirectory() as folder:
            peer = peers.add()
            peers.wait(lambda: peer.view, LIMIT_S, "it founds a flock", watch=[peer])
            path = pathlib.Path(folder) / "t"
            process = begin("--dir", peer.directory, "-o", path, "--seconds", "3600")
            told = process.stderr.read()
            self.assertEqual(process.wait(LIMIT_S), 0, told)
            process.stderr.close()
            self.assertIn("was traced only until its connection ended", told)
            self.assertNotIn("earlier build", told)
            peers.wait_ends([peer], LIMIT_S)
            self.assertEqual(len(Trace(path).traced), 1)

    def test_a_shard_that_is_longer_than_the_trace_is_in_it(self):
        job = "synthetic --workers 2 --shards 3 --shard-ms 4000 --steps 1000".split()
        with flock.Flock(GODWIT, job) as peers, tempfile.TemporaryDirectory() as folder:
            peer = peers.add()
            peers.wait(lambda: peer.view, LIMIT_S, "it founds a flock", watch=[peer])
            path = pathlib.Path(folder) / "t"
            for _ in range(20):  # until no shard ends meanwhile
                trace("--dir", peer.directory, "-o", path, "--seconds", "1")
                found = Trace(path)
                shards = found.named("shard \\d+")
                if shards and all(one.begin == found.traced[one.peer].begin for one in shards):
                    break
            self.assertEqual({(one.track, one.notes["end"]) for one in shards},
                             {("gw-worker-0", "it runs"), ("gw-worker-1", "it runs")})
            (window,) = found.traced.values()
            self.assertTrue(all((one.begin, one.end) == (window.begin, window.end) for one in shards))
            self.assertRegex(trace("--summary", path).stdout.decode(), r"\) +100.0 % +0.0 % ")


class CommandLine(unittest.TestCase):
    def refuse(self, code, expected, *arguments):
        self.assertIn(expected, trace(*arguments, code=code).stderr.decode())

    def test_what_makes_no_sense_is_refused_with_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text"
            text.write_text("no trace\n")
            self.refuse(2, "give -o FILE for the trace, or --summary")
            self.refuse(2, "a file is read with --summary", text)
            self.refuse(2, "leave out the other options", "--summary", text, "--seconds", "3")
            self.refuse(2, "--seconds", "--summary", "--seconds", "0")
            self.refuse(2, "--force goes along with -o", "--summary", "--force")
            self.refuse(2, "--cluster needs --from", "--summary", "--cluster", "x")
            self.refuse(1, f"{text}: ", "--summary", text)
            self.refuse(1, "nothing", "--summary", f"{folder}/nothing")
            self.refuse(1, folder, "--dir", folder, "--summary")
            self.refuse(1, "there is no", "--dir", folder, "-o", f"{folder}/missing/t")


if __name__ == "__main__":
    tap.main(readers.missing, "Perfetto's schema")
