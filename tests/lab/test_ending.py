"""However a tool that drives a flock is ended, its peers end, and what a peer has left is removed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import processes
import tap  # it adds tools/lab to the path
from flock import HERE, Flock, Peer

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "lab")
PATIENCE_S = 300
SOON_S = 10
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

# A stand-in for a peer: its first life leaves claims behind when it is killed, and its second ends before it has an id.
STAND_IN = """#!/bin/sh
[ -e {claims} ] || echo '{{"event": "start", "time": 1, "peer": "{id}"}}'
touch {claims}
exec sleep 1000
"""


def wait_until(condition, seconds=PATIENCE_S):
    """Whether the condition became true in time."""
    deadline = time.monotonic() + seconds
    while not condition():  # asked once, since what has become true may become false again
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


class Tools(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.mark = f"GODWIT_TEST_MARK={uuid.uuid4()}"
        self.addCleanup(processes.kill_marked, self.mark)

    def start(self, tool, *words, count, ignored=()):
        """Starts the tool and waits until so many of its peers run."""

        def settle():  # signals that a background job or nohup ignores get their default action again
            for number in ENDING:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        name, value = self.mark.split("=")
        command = [sys.executable, os.path.join(TOOLS, tool), os.path.abspath(BINARY), *words]
        surroundings = {"env": {**os.environ, name: value, "TMPDIR": self.folder}, "preexec_fn": settle}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=self.folder, **surroundings, **quiet)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(wait_until(lambda: len(self.peers()) >= count))
        return process

    def peers(self):
        return [command for command in processes.marked(self.mark).values() if " run " in command]

    def assert_all_gone(self):
        self.assertEqual(processes.left(self.mark, SOON_S), {})

    def end(self, process, number):
        """Returns the exit code, after it has checked that no process of the tool is left."""
        process.send_signal(number)
        code = process.wait(PATIENCE_S)
        self.assert_all_gone()
        return code

    def test_a_terminal_that_is_closed_ends_the_peers_of_a_measurement(self):
        self.assertEqual(self.end(self.start("bench.py", "memory", count=2), signal.SIGHUP), 128 + signal.SIGHUP)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_measurement_that_is_killed_takes_its_peers_with_it(self):
        self.assertEqual(self.end(self.start("bench.py", "memory", count=2), signal.SIGKILL), -signal.SIGKILL)

    def test_a_measurement_that_is_killed_takes_what_makes_the_machine_busy_with_it(self):
        tool = self.start("bench.py", "quick", "false-deaths", count=4)
        self.assertGreater(len(processes.marked(self.mark)), 1 + 4)
        self.end(tool, signal.SIGKILL)

    def test_a_terminal_that_is_closed_ends_the_demos_peers(self):
        """The demo itself kills two of its four peers."""
        self.assertEqual(self.end(self.start("demo.py", count=2), signal.SIGHUP), 128 + signal.SIGHUP)
        self.assertEqual(os.listdir(self.folder), [])

    def test_under_nohup_a_measurement_goes_on(self):
        tool = self.start("bench.py", "memory", count=2, ignored=[signal.SIGHUP])
        tool.send_signal(signal.SIGHUP)
        time.sleep(1)
        self.assertEqual((tool.poll(), len(self.peers())), (None, 2))
        self.assertEqual(self.end(tool, signal.SIGTERM), 128 + signal.SIGTERM)


# A job that does not end by itself: a peer without a job ends at once, by its own exit code if it is fast.
ENDLESS = ["synthetic", "--shards", "120", "--shard-ms", "20", "--steps", "100000000"]

# A tool that gets a signal while its first peer is being started. It prints the path of its folder and the exit code of
# the peer's process.
HASTY = """
import os, signal, sys
from flock import Flock, Here, end_on_signals

class Hasty(Here):
    def launch(self, command, errors):
        self.process = super().launch(command, errors)
        os.kill(os.getpid(), {number})
        return self.process

signal.signal({number}, signal.SIG_DFL)  # whatever the parent process ignores
end_on_signals()
home = Hasty()
try:
    with Flock({binary!r}, {job!r}) as flock:
        print(flock.folder, flush=True)
        flock.add([], home)
finally:
    print(home.process.poll(), flush=True)
"""


class Starting(unittest.TestCase):
    """A tool that gets a signal as it starts a peer ends that peer as well, and removes its folder."""

    def end(self, number):
        """Returns the exit code of the tool."""
        text = HASTY.format(number=int(number), binary=os.path.abspath(BINARY), job=ENDLESS)
        with tempfile.TemporaryDirectory() as folder:
            surroundings = {**os.environ, "PYTHONPATH": TOOLS, "TMPDIR": folder}
            command = [sys.executable, "-c", text]
            done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=PATIENCE_S)
            made, ended = done.stdout.split()
            self.assertEqual(ended, str(-signal.SIGKILL), done.stderr)
            self.assertFalse(os.path.exists(made))
        return done.returncode

    def test_by_sigterm(self):
        self.assertEqual(self.end(signal.SIGTERM), 128 + signal.SIGTERM)

    def test_by_a_terminal_that_is_closed(self):
        self.assertEqual(self.end(signal.SIGHUP), 128 + signal.SIGHUP)

    def test_by_an_interrupt(self):
        self.assertEqual(self.end(signal.SIGINT), -signal.SIGINT)


class Claims(unittest.TestCase):
    def test_those_of_a_peer_that_is_just_starting_again_are_removed(self):
        identity = uuid.uuid4().hex
        claims = f"/dev/shm/godwit-computing-{identity}"
        self.addCleanup(lambda: os.path.exists(claims) and os.unlink(claims))
        with tempfile.TemporaryDirectory() as folder:
            binary = os.path.join(folder, "godwit")
            with open(binary, "w") as file:
                file.write(STAND_IN.format(claims=claims, id=identity))
            os.chmod(binary, 0o700)
            with Flock(binary, []) as flock:
                peer = Peer(flock, 1, [], HERE)
                flock.peers.append(peer)
                peer.start()
                flock.wait(lambda: peer.id and os.path.exists(claims), PATIENCE_S, "claims")
                peer.kill()
                peer.start()
        self.assertFalse(os.path.exists(claims))


if __name__ == "__main__":
    tap.main(lambda: None)
