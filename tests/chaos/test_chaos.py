"""Chaos (tools/chaos) for a short while: real processes in namespaces of their own, and the same bytes at the end. And
what its reports rest on: cuts that overlap, and nothing left behind.
"""

import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "chaos")]
import places  # noqa: E402
import tap  # noqa: E402
from chaos import Chaos  # noqa: E402

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
CHAOS = os.path.join(HERE, "..", "..", "tools", "chaos", "chaos.py")


class Way:
    """A place that notes what it is told about others."""

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


class Short(unittest.TestCase):
    def run_chaos(self, *extra):
        """Its output; it must have ended with the same bytes."""
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "chaos.svg")
            command = [sys.executable, CHAOS, "--binary", BINARY, "--timeline", picture, "--every", "1", *extra]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            xml.etree.ElementTree.parse(picture)
        self.assertIn("same bytes as an undisturbed single-peer run: yes", done.stdout)
        return done.stdout

    def test_same_bytes_whatever_is_done_to_processes_networks_and_disks(self):
        said = self.run_chaos("--minutes", "0.35", "--seed", "1")
        self.assertNotIn("faults 0,", said)

    def test_a_flock_of_two_that_is_cut_all_the_time_comes_together_again(self):
        self.run_chaos("--minutes", "0.15", "--seed", "2", "--peers", "2", "--kinds", "cut,cut one way,flapping cut")

    def test_nothing_is_left_behind(self):
        self.run_chaos("--minutes", "0.05", "--seed", "3", "--peers", "2")
        left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        pids = [int(line.split()[0].split("-")[2]) for line in left.splitlines() if line.startswith("godwit-chaos-")]
        dead = [pid for pid in pids if not os.path.exists(f"/proc/{pid}")]
        self.assertEqual(dead, [])


if __name__ == "__main__":
    tap.main(places.missing, "chaos")
