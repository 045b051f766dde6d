"""A flock whose peers are in machines of their own, which die and join: the bytes of one undisturbed peer."""

import os
import time
import unittest

import tap
from flock import run_alone
from lab_flock import LabFlock
from machines import Lab

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
JOB = ["synthetic", "--shards", "12", "--shard-ms", "20", "--steps", "60", "--state-bytes", "256k"]
PATIENCE_S = 240


class Flocks(unittest.TestCase):
    def setUp(self):
        self.lab = self.enterContext(Lab(3))
        self.lab.start_all()

    def flock(self, job):
        return self.enterContext(LabFlock(self.lab, BINARY, job))

    def test_same_bytes_when_the_leaders_machine_is_killed_and_another_joins(self):
        flock = self.flock([*JOB, "--peers", "2"])
        flock.gather_in([flock.home(1), flock.home(2)], ["--workers", "1"])
        flock.wait_step(5, PATIENCE_S)
        flock.add(["--workers", "1"], flock.home(3))
        flock.first_step_after(time.time(), PATIENCE_S, 3)
        killed = flock.leader()
        flock.first_step_after(flock.kill_machine(killed), PATIENCE_S, 2)
        flock.wait_ends(flock.living(), PATIENCE_S)
        states = {peer.done["state"] for peer in flock.peers if peer is not killed}
        self.assertEqual(states, {run_alone(BINARY, JOB)["state"]})


if __name__ == "__main__":
    tap.main()
