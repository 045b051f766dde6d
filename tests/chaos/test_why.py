"""Tests of how chaos judges what `godwit why` tells (tools/chaos/why.py)."""

import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "..", "tools")
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(TOOLS, "chaos"), os.path.join(TOOLS, "lab")]
import faults  # noqa: E402
import tap  # noqa: E402
import why  # noqa: E402


def strike(kind, began, victims=(), ended=None, happened=True):
    return why.Injected(kind, f"{kind} at {victims}", began, ended or began + 5, list(victims), happened)


def finding(kind, at, *victims, pattern=False):
    peers = [{"peer": f"{number}", "address": f"10.77.0.{number}"} for number in victims]
    return {"kind": kind, "from": at, "to": at, "peers": peers, "pattern": pattern, "text": "text"}


class Judged(unittest.TestCase):
    def setUp(self):
        self.table = why.Table()

    def counts(self, kind):
        row = self.table.rows[kind]
        return row["found"], row["missed"], row["unfelt"]

    def test_every_fault_of_chaos_has_findings_that_fit(self):
        self.assertEqual(set(why.FITS), {kind.name for kind in faults.KINDS})

    def test_a_fault_is_found_by_kind_victim_and_time(self):
        strikes = [strike("kill", 100, [2]), strike("kill", 200, [3]), strike("stop and continue", 300, [1])]
        findings = [finding("death", 100.2, 2), finding("death", 201, 1), finding("stall", 400, 1)]
        self.table.take("1", strikes, findings, [101, 201, 301])
        self.assertEqual(self.counts("kill"), (1, 1, 0))
        self.assertEqual(self.counts("stop and continue"), (0, 1, 0))
        self.assertEqual(self.table.wrong, {"death": 1, "stall": 1})
        self.assertEqual(self.table.bad, 2, "a death was missed, and one put down to another peer")

    def test_what_no_journal_has_a_trace_of_counts_neither_way(self):
        strikes = [strike("slow link", 100, [2]), strike("corrupt chunk", 200, happened=False),
                   strike("stop and continue", 300, [1], ended=300.5)]
        self.table.take("1", strikes, [], [50, 201, 300.2])
        for one in strikes:
            self.assertEqual(self.counts(one.kind), (0, 0, 1))

    def test_patterns_and_views_are_not_held_against_faults(self):
        self.table.take("1", [], [finding("host", 5, 1, pattern=True), finding("view", 7)], [])
        self.assertEqual(self.table.wrong, {})

    def test_the_table_has_each_kind_and_what_was_wrong(self):
        self.table.take("7", [strike("kill", 100, [2])], [finding("cut", 50, 1)], [101])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.table.print()
        self.assertRegex(said.getvalue(), r"kill +1 +0 +1 +0")
        self.assertIn("findings that fit no fault: 1 cut", said.getvalue())
        self.assertIn("run 7: missed: kill", said.getvalue())

    def test_a_recording_is_read_with_its_torn_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            home = os.path.join(folder, "home")
            os.makedirs(home)
            lines = [json.dumps({"event": kind, "time": at}) for kind, at in (("view", 5.5), ("progress", 6), ("log", 7))]
            with open(os.path.join(home, "journal.jsonl"), "w") as file:
                file.write("\n".join([lines[0], '{"event": "pe', lines[1], "[]", lines[2]]))
            place = os.path.join(folder, "recording")
            why.record(place, [home], [strike("kill", 1, [2])])
            self.assertEqual(sorted(os.listdir(place)), ["faults.json", "peer1"])
            self.assertEqual(why.loud_times([os.path.join(place, "peer1")]), [5.5])

    def test_the_victims_of_a_cut_are_all_that_it_parts(self):
        place = types.SimpleNamespace(number=3)
        other = types.SimpleNamespace(number=1)
        self.assertEqual(why.victims_of(types.SimpleNamespace(pairs=[(place, other)])), [1, 3])
        self.assertEqual(why.victims_of(types.SimpleNamespace(peer=other)), [1])
        self.assertEqual(why.victims_of(types.SimpleNamespace()), [])


if __name__ == "__main__":
    tap.main()
