"""The places that peers run in under chaos (tools/chaos/places.py): nothing of them stays, whenever a run is
interrupted, and what one has left that was killed goes when the next one starts.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "chaos")]
import chaos  # noqa: E402
import places  # noqa: E402
import tap  # noqa: E402

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
CHAOS = os.path.join(HERE, "..", "..", "tools", "chaos", "chaos.py")
NOBODY = "godwit-chaos-99999999"  # no process has such a number


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def is_there(parent, name):
    return os.path.exists(os.path.join(parent, name))


def of(process):
    """Returns the namespaces, groups and mounts of that process."""
    ours = f"godwit-chaos-{process}"
    with open("/proc/self/mounts") as file:
        found = [line.split()[0] for line in file]
    for parent in filter(os.path.isdir, (places.NAMESPACES, *places.PARENT_GROUPS)):
        found += os.listdir(parent)
    return [name for name in found if name == ours or name.startswith(f"{ours}-")]


class Interrupted(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.network = places.Network(3, self.folder)
        for number in places.INTERRUPTIONS:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        self.addCleanup(self.network.close)
        chaos.handle(chaos.interrupted, places.INTERRUPTIONS)

    def assert_nothing_is_left(self):
        self.assertEqual(of(os.getpid()), [])
        self.assertEqual(os.listdir(self.folder), [])

    @contextlib.contextmanager
    def interrupting(self, *what):
        """Interrupts the run as soon as places.run has run such a command."""
        real = places.run

        def run(*command, quiet=False):
            done = real(*command, quiet=quiet)
            if command[: len(what)] == what:
                interrupt()
            return done

        with unittest.mock.patch.object(places, "run", run), self.assertRaises(KeyboardInterrupt):
            yield

    def test_while_places_are_made(self):
        for what in (("ip", "netns", "add", self.network.name), ("mount",), ("ip", "-n", self.network.places[2].name)):
            chaos.handle(chaos.interrupted, places.INTERRUPTIONS)
            with self.interrupting(*what), self.network:
                self.fail("it was not interrupted")
            self.assert_nothing_is_left()

    def test_while_one_has_a_group_and_does_not_know_it_yet(self):
        real = os.mkdir

        def mkdir(path, *mode):
            try:
                real(path, *mode)
            finally:
                if path.startswith(places.CPU_GROUPS):
                    interrupt()

        with unittest.mock.patch.object(os, "mkdir", mkdir), self.assertRaises(KeyboardInterrupt), self.network:
            self.fail("it was not interrupted")
        self.assert_nothing_is_left()

    def test_while_they_are_closed(self):
        for what in (("umount",), ("ip", "netns", "del")):
            chaos.handle(chaos.interrupted, places.INTERRUPTIONS)
            with self.interrupting(*what), self.network:
                self.assertNotEqual(of(os.getpid()), [])
            self.assert_nothing_is_left()

    def test_while_it_is_found_out_whether_there_can_be_any(self):
        with self.interrupting("ip", "netns", "add"):
            places.missing()
        self.assert_nothing_is_left()

    def test_again_while_what_the_first_one_began_goes_on(self):
        with self.assertRaises(KeyboardInterrupt):
            interrupt()
            self.fail("it was not interrupted")
        interrupt()
        os.kill(os.getpid(), signal.SIGTERM)


class Killed(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(unittest.mock.patch.object(tempfile, "tempdir", self.folder))

    def make(self, name):
        """Makes the places of a run whose disk has a space in its path."""
        disk = os.path.join(self.folder, f"{name}-ab12", "a disk")
        os.makedirs(disk)
        places.run("mount", "-t", "tmpfs", "-o", "size=1m", name, disk)
        self.addCleanup(places.run, "umount", "--lazy", disk, quiet=True)
        places.run("ip", "netns", "add", f"{name}-1")
        self.addCleanup(places.run, "ip", "netns", "del", f"{name}-1", quiet=True)
        return disk

    def test_what_is_left_of_the_dead_is_taken_away_and_nothing_else(self):
        left = self.make(NOBODY)
        others = (places.own_name(), "godwit-chaos-1", "godwit-chaos", f"{NOBODY}x", f"x{NOBODY}", "godwit-99999999")
        stay = {name: self.make(name) for name in others}
        places.sweep()
        self.assertFalse(os.path.exists(left))
        self.assertFalse(is_there(places.NAMESPACES, f"{NOBODY}-1"))
        self.assertEqual(of("99999999"), [])
        for name, disk in stay.items():
            self.assertTrue(os.path.ismount(disk), name)
            self.assertTrue(is_there(places.NAMESPACES, f"{name}-1"), name)
        self.assertEqual(set(os.listdir(self.folder)), {f"{name}-ab12" for name in others})

    def test_the_next_run_takes_away_what_one_has_left_that_was_killed(self):
        command = [sys.executable, CHAOS, "--binary", BINARY, "--timeline", "/dev/null", "--peers", "2"]
        surroundings = {"env": {**os.environ, "TMPDIR": self.folder}, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, "--kinds", "clock step", "--every", "1"], **surroundings) as run:
            next(line for line in run.stdout if " step " in line)
            run.kill()
        self.assertNotEqual(of(run.pid), [])
        self.assertNotEqual(os.listdir(self.folder), [])
        next_one = subprocess.run([*command, "--kinds", "kill", "--majority"], **surroundings)
        self.assertEqual(next_one.stdout, "chaos: no 'kill': all 2 peers are needed\n")
        self.assertEqual(of(run.pid), [])
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    tap.main(places.missing, "chaos")
