"""What tests of flocks in machines share: the machines, what a peer tells of itself, and what every flock must come to,
whatever was done to it."""

import json
import unittest

from flock import run_alone
from machines import Lab


class KeptMachines(unittest.TestCase):
    """All tests have the same machines; those that a test has killed are started again for the next. Which lab they
    are in is of the class: make_lab()."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)
        cls.lab.start_all()

    def setUp(self):
        for number in range(1, self.lab.count + 1):
            if not self.lab.machine(number).alive:
                self.lab.start(number)


class ThreeMachines(KeptMachines):
    @staticmethod
    def make_lab():
        return Lab(3)


def godwit(peer, command):
    """Returns what `godwit COMMAND` prints for the peer, run in the peer's machine."""
    directory = peer.home.inside(peer.directory)
    return peer.home.machine.check(f"{peer.flock.binary} {command} --dir {directory}")


def status(peer):
    return json.loads(godwit(peer, "status --json"))


def stop(flock, seconds):
    """Stops the job, and returns the peers that were alive and have ended with exit code 0."""
    finishers = flock.living()
    godwit(finishers[0], "stop")
    flock.wait_ends(finishers, seconds)
    return finishers


def stop_and_compare(test, flock, job, seconds):
    """Stops the job: its living peers end, with the state of one undisturbed peer that did as many steps. Returns how
    many that were."""
    finishers = stop(flock, seconds)
    steps = finishers[0].done["steps"]
    alone = run_alone(flock.binary, [*job, "--steps", str(steps)])
    test.assertEqual({peer.done["state"] for peer in finishers}, {alone["state"]})
    return steps
