"""Chaos in a machine, whose kernel has what all of its faults need. A host may have no netem, and no group for the time
of a processor: there the tests of tests/chaos leave these out."""

import os
import sys
import unittest

import tap  # noqa: F401  (it comes first, as it adds the lab's modules to the path)
from machines import Lab

BINARY = os.path.abspath(os.environ.get("GODWIT_BINARY", "build/godwit"))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CHAOS = os.path.join(ROOT, "tools", "chaos", "chaos.py")
FAULTS = os.path.join(ROOT, "tests", "chaos")
LIMIT_S = 400


class Chaos(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lab = Lab(1, cores=2, memory_mb=2048)
        cls.addClassCleanup(lab.close)
        cls.machine = lab.start(1)

    def run_here(self, command):
        code, said = self.machine.run(f"{command} 2>&1", LIMIT_S, {"GODWIT_BINARY": BINARY})
        self.assertEqual(code, 0, said)
        return said

    def test_faults_that_not_every_host_can_have_do_what_they_say(self):
        said = self.run_here(
            f"cd {FAULTS} && {sys.executable} -m unittest"
            " test_faults.Networks.test_what_is_delayed_takes_fifty_milliseconds_one_way"
            " test_faults.Processes.test_who_is_starved_gets_two_hundredths_of_a_processor"
        )
        self.assertRegex(said, r"Ran 2 tests")
        self.assertNotIn("skipped", said)

    def test_same_bytes_whatever_is_delayed_or_starved(self):
        said = self.run_here(
            f"{sys.executable} {CHAOS} --binary {BINARY} --minutes 0.4 --every 2 --timeline /tmp/chaos.svg"
            " --kinds 'delay,no processor'"
        )
        self.assertRegex(said, r"sends: netem delay 50ms 40ms")
        self.assertRegex(said, r"gets \d+ % of a processor")
        self.assertIn("same bytes as an undisturbed single-peer run: yes", said)


if __name__ == "__main__":
    tap.main()
