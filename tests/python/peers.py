"""Programs in Python on peers of this machine: what the suites of this folder share."""

import json
import os
import re
import select
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
BUILD = os.environ.get("GODWIT_BUILD", os.path.join(SOURCE, "build"))
BINARY = os.path.join(BUILD, "godwit")
PYTHON = os.environ.get("GODWIT_TEST_PYTHON") or sys.executable
MODULE = os.path.join(SOURCE, "tools", "python")
PROGRAMS = os.path.join(HERE, "programs")
EXAMPLES = os.path.join(SOURCE, "tools", "examples", "python")
LIMIT_S = 300


def lacks(*modules):
    """The reason to skip tests that need these modules; empty where the Python has them."""
    code = "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1:]))"
    if subprocess.run([PYTHON, "-c", code, *modules], check=False).returncode == 0:
        return ""
    return f"{PYTHON} lacks {' or '.join(modules)}; GODWIT_TEST_PYTHON may name one that has it"


def environment(**more):
    """The environment of a program, with this tree's module and program."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GODWIT_")}
    return {**clean, "PYTHONPATH": MODULE, "GODWIT": BINARY, **more}


class Peer:
    """A peer that runs a program."""

    def __init__(self, folder, name, program, arguments=(), options=(), python=PYTHON, **variables):
        self.directory = os.path.join(folder, name)
        command = [BINARY, "run", program, "--python", python, "--dir", self.directory, "--listen", "127.0.0.1:0", *options]
        self._process = subprocess.Popen(
            [*command, "--", *map(str, arguments)], env=environment(**variables), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.output = ""

    @property
    def pid(self):
        return self._process.pid

    def says(self, pattern):
        """Waits for a line with that pattern. Returns the match."""
        for line in self._process.stdout:
            self.output += line
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"the peer has ended without {pattern}: {self.output}")

    def address(self):
        """Where the peer listens, as soon as it says so."""
        return self.says(r"listening on (\S+)")[1]

    def end(self):
        """Waits for the end. Returns the exit status."""
        rest, _ = self._process.communicate(timeout=LIMIT_S)
        self.output += rest
        return self._process.returncode

    def stop(self):
        """Ends the peer if it runs."""
        if self._process.poll() is None:
            self._process.kill()
            self.output += self._process.communicate()[0]


def first_to_end(flock):
    """Waits until one of the peers has ended, and returns it."""
    poll, ends = select.poll(), {}
    for peer in flock:
        end = os.pidfd_open(peer.pid)
        ends[end] = peer
        poll.register(end, select.POLLIN)
    ended = poll.poll(LIMIT_S * 1000)
    for end in ends:
        os.close(end)
    if not ended:
        raise AssertionError(f"none of {len(flock)} peers has ended within {LIMIT_S} s")
    return ends[ended[0][0]]


def state_of(output):
    """The hash of the final state; None where the job did not end."""
    found = re.search(r"state=([0-9a-f]{64})", output)
    return found[1] if found else None


class Case(unittest.TestCase):
    """A test with a folder of its own, whose peers are ended behind it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def peer(self, name, program, arguments=(), options=(), python=PYTHON, **variables):
        peer = Peer(self.folder, name, program, arguments, options, python, **variables)
        self.addCleanup(peer.stop)
        return peer

    def state(self, name, program, arguments=(), options=(), **variables):
        """Runs a program on one peer to its end, and returns the hash of the final state."""
        peer = self.peer(name, program, arguments, options, **variables)
        self.assertEqual(peer.end(), 0, peer.output)
        self.output = peer.output
        return state_of(peer.output)

    def refusal(self, program, arguments=(), options=("--workers", "1"), **variables):
        """Runs a program that is refused or fails, and returns what the peer says."""
        peer = self.peer("refused", program, arguments, options, **variables)
        self.assertNotEqual(peer.end(), 0, peer.output)
        self.assertIsNone(state_of(peer.output))
        return peer.output

    def alone(self, program, arguments=(), **variables):
        """Runs a program by plain Python, and returns what it and its peer print."""
        command = [PYTHON, program, *map(str, arguments)]
        done = subprocess.run(
            command, env=environment(**variables), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def flock(self, program, arguments=(), peers=3, options=("--workers", "2"), variables=None):
        """Starts peers that find each other by the first. `variables` are those of each peer."""
        together = ("--peers", str(peers), *options)
        each = variables or [{}] * peers
        found = [self.peer("p0", program, arguments, together, **each[0])]
        seed = found[0].address()
        for i in range(1, peers):
            found.append(self.peer(f"p{i}", program, arguments, (*together, "--join", seed), **each[i]))
        return found

    def expect_one_state_with_two_threads(self, program, arguments=()):
        """Expects that a program which computes with two threads, so that its workers are no forks, has one state
        alone, with workers that die, and on peers of which one is killed; and that with one thread it is another job."""
        threads = ("--threads", "2")
        state = state_of(self.alone(program, arguments, GODWIT_THREADS="2"))
        marks = os.path.join(self.folder, "marks")
        places = ["shard 0 0", "shard 2 1", "once 1", "after 2"]
        options = ("--workers", "2", *threads)
        self.assertEqual(self.state("dying", program, arguments, options, **kills(marks, *places)), state)
        self.assertEqual(sorted(os.listdir(marks)), sorted(places))
        killed = kills(os.path.join(self.folder, "killed"), "peer shard 2 1", "shard 3 0")
        flock = self.flock(program, arguments, 3, ("--workers", "1", *threads), [killed] * 3)
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0, 0], [p.output for p in flock])
        self.assertEqual([state_of(p.output) for p, end in zip(flock, ends) if end == 0], [state] * 2)
        other = self.peer("dying", program, arguments, ("--workers", "1"))
        self.assertNotEqual(other.end(), 0, other.output)
        self.assertRegex(other.output, "another job.*threads")

    def pictures(self):
        """The path of a folder with pictures in IDX files, as MNIST has them."""
        for name, count in (("train", 300), ("t10k", 100)):
            pictures = bytes((i * i // 7) % 251 for i in range(count * 64))
            with open(os.path.join(self.folder, f"{name}-images-idx3-ubyte"), "wb") as file:
                file.write(b"\0\0\x08\x03" + struct.pack(">3I", count, 8, 8) + pictures)
            with open(os.path.join(self.folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
                file.write(b"\0\0\x08\x01" + struct.pack(">I", count) + bytes(i % 10 for i in range(count)))
        return self.folder

    def text(self, size=20000):
        """The path of a text of some words in an order that no chance has made."""
        path = os.path.join(self.folder, "text")
        words = "the peers of a flock share out a step and the sum of all shards is the same whoever computes".split()
        with open(path, "w") as file:
            i = 0
            while file.tell() < size:
                file.write(words[(i * i + 3 * i) % len(words)] + (" " if i % 11 else ".\n"))
                i += 1
        return path


def kills(folder, *places):
    """The variable by which a program that imports `deaths` dies at places: `shard 3 2` (update and shard), `part 4`,
    `once 5`, `after 6`; with `peer` in front its peer dies, with `stop` it is asked to leave, with `spare` the fork that is to replace it dies.
    Each happens once in the folder."""
    os.makedirs(folder, exist_ok=True)
    return {"GODWIT_TEST_DEATHS": json.dumps([folder, list(places)])}
