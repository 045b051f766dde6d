"""Tests of what chaos demands of a long run with --judge (tools/chaos/judge.py)."""

import contextlib
import io
import os
import sys
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "..", "tools")
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(TOOLS, "chaos"), os.path.join(TOOLS, "lab")]
import faults  # noqa: E402
import jobs  # noqa: E402
import judge  # noqa: E402
import report  # noqa: E402
import tap  # noqa: E402
from chaos import Chaos, Strike  # noqa: E402
from flock import Trouble  # noqa: E402

EVERY_S, STRUCK, LIVE_S = 5, 1440, 28800  # two hours of four peers


def run_with(judged=True, kinds=(), job=None):
    """Returns a run that can make these kinds of faults, or all kinds."""
    options = types.SimpleNamespace(seed=1, peers=4, kinds=list(kinds), majority=False, judge=judged, every=EVERY_S)
    network = types.SimpleNamespace(can_shape=lambda *queue: True, can_drop=lambda: True, clock="clock.so", places=[])
    with contextlib.redirect_stdout(io.StringIO()):
        return Chaos(types.SimpleNamespace(), network, options, job or jobs.sleeping())


def went(run, times=STRUCK, kinds=judge.ASKED_KINDS, percent=97.0):
    """Returns the verdict on that run, in which nothing else went wrong."""
    run.same, run.seconds = True, STRUCK * EVERY_S
    run.faults = [Strike(faults.KINDS[i % kinds](run), "", i, i + 1) for i in range(times)]
    run.live_s, run.done_s = LIVE_S, LIVE_S * percent / 100
    return run


class Judged(unittest.TestCase):
    def falls_short(self, what, **figures):
        run = went(run_with(), **figures)
        self.assertEqual(run.shortfalls(), [what])
        self.assertFalse(run.passed())
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            report.print_shortfalls(run)
        self.assertEqual(said.getvalue(), f"    FALLS SHORT: {what}\n")
        self.assertTrue(went(run_with(judged=False), **figures).passed())

    def test_a_run_that_does_all_that_is_asked_passes(self):
        self.assertTrue(went(run_with()).passed())
        self.assertTrue(went(run_with(), times=1152, percent=95.0).passed())

    def test_one_that_was_struck_too_seldom_fails(self):
        self.falls_short("1151 faults, where one was due 1440 times (asked for: 80%)", times=1151)

    def test_one_that_was_struck_in_too_few_ways_fails(self):
        self.falls_short("9 kinds of faults (asked for: 10)", kinds=9)

    def test_one_that_worked_too_little_fails(self):
        self.falls_short("94.9 % of what live peers could do (asked for: 95 %)", percent=94.9)


class NotEvenStarted(unittest.TestCase):
    def refused(self, why, **what):
        with self.assertRaisesRegex(Trouble, f"^--judge: {why}"):
            run_with(**what).need_kinds()
        run_with(judged=False, **what).need_kinds()

    def test_where_too_few_kinds_can_be_made(self):
        self.refused("10 kinds of faults are asked for, and only 2 can be made here", kinds=["kill", "cut"])

    def test_a_job_of_which_nobody_knows_what_it_could_do(self):
        self.refused("with such a job it is not known", job=jobs.busy())

    def test_what_can_satisfy_is(self):
        run_with().need_kinds()


if __name__ == "__main__":
    tap.main(lambda: None, "chaos")
