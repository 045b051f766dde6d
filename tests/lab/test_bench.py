"""./build.sh bench says what went wrong, and its exit code does."""

import contextlib
import io
import sys
import unittest
from unittest import mock

import tap  # which knows the way to tools/lab
import bench
import tables
from flock import Trouble

FAILS = "/bin/false"


class Wrongs(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch.object(tables, "WRONGS", []))

    def run_bench(self, *words):
        """(exit code, what is said at the end)"""
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["bench.py", *words]), contextlib.redirect_stdout(said):
            code = bench.main()
        _, _, end = said.getvalue().partition("\nwrong:\n")
        return code, end

    def put(self, **stand_ins):
        for name, stand_in in stand_ins.items():
            self.enterContext(mock.patch.object(bench, name, stand_in))

    def put_states(self, disturbed):
        self.put(run_alone=lambda *ignored: {"state": "one", "steps": 5}, together=lambda *ignored: {"one"},
                 resumed=lambda *ignored: {"one"}, disturbed=disturbed)

    def test_nothing(self):
        self.put_states(lambda *ignored: {"one"})
        self.assertEqual(self.run_bench("godwit", "hashes"), (0, ""))

    def test_bytes_that_differ(self):
        self.put_states(lambda *ignored: {"two"})
        code, end = self.run_bench("godwit", "hashes")
        self.assertEqual(code, 1)
        self.assertEqual(end.splitlines(), [f"  1. one state hash: {job}: {what}: two: DIFFERS"
                                            for job in ("digits", "synthetic")
                                            for what in ("4 peers, kills and joins", "the same, majority")])

    def test_a_way_to_the_same_bytes_that_fails(self):
        self.put_states(mock.Mock(side_effect=Trouble("no step\nand more")))
        code, end = self.run_bench("godwit", "hashes")
        self.assertEqual(code, 1)
        self.assertIn("4 peers, kills and joins: failed: no step", end)

    def test_a_table_that_fails(self):
        self.put(TABLES={"memory": mock.Mock(side_effect=Trouble("no flock"))})
        self.assertEqual(self.run_bench("godwit", "memory"), (1, "  memory: no flock\n"))

    def test_a_part_that_fails(self):
        code, end = self.run_bench(FAILS, "micro")
        self.assertEqual(code, 1)
        self.assertIn("godwit bench steal --transport shm: exit code 1\n", end)

    def test_a_state_that_is_not_that_of_one_peer(self):
        self.put(same_as_alone=lambda *ignored: (False, None))

        def churn(binary, quick):
            tables.table("4")
            bench.check_against_alone(binary, bench.SLEEPING, {(5, "two")})

        self.put(TABLES={"churn": churn})
        self.assertEqual(self.run_bench("godwit", "churn"),
                         (1, "  4: state hash against one undisturbed peer: DIFFERS\n"))


if __name__ == "__main__":
    tap.main(lambda: None)
