"""Lightning's modules as jobs: one state whatever dies, and what is refused."""

import json
import os
import subprocess
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

LIT = os.path.join(peers.PROGRAMS, "lit.py")
TABLES = os.path.join(peers.PROGRAMS, "lit_tables.py")


class SameBytes(peers.Case):
    def test_a_module_has_one_state_alone_and_on_two_peers_whatever_dies(self):
        arguments = ["godwit", "flock", self.folder]
        alone = self.alone(LIT, arguments)
        state = peers.state_of(alone)
        self.assertIsNotNone(state, alone)
        marks = os.path.join(self.folder, "marks")
        places = ["shard 1 2", "shard 3 6", "shard 5 3", "once 2", "once 7", "evaluated 4", "evaluated 8", "peer shard 6 4"]
        dying = peers.kills(marks, *places)
        copied = {"ACCELERATOR": "gpu", "GODWIT_TEST_COPIES": "1"}  # the model sees copies of the state, as it does on a GPU
        flock = self.flock(LIT, arguments, 2, variables=[dying, {**dying, **copied}])
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0], [p.output for p in flock])
        self.assertEqual([peers.state_of(p.output) for p, end in zip(flock, ends) if end == 0], [state])
        self.assertEqual(sorted(os.listdir(marks)), sorted(places))


class Tables(peers.Case):
    @classmethod
    def setUpClass(cls):
        cls.done = subprocess.run(
            [peers.PYTHON, TABLES, "complete", "refusals", "sums", "versions"], env=peers.environment(), text=True, capture_output=True,
            timeout=peers.LIMIT_S, check=False,
        )  # fmt: skip

    def run_tables(self, what):
        """What the program prints of one of its parts; one process does all of them."""
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        part = self.done.stdout.split(f"== {what}\n")[1].split("\n== ")[0]
        return dict(line.split(": ", 1) for line in part.splitlines() if ": " in line)

    def test_each_argument_hook_and_callback_of_lightning_stands_in_a_table(self):
        self.assertEqual(self.run_tables("complete"), {"arguments": "none", "hooks": "none", "callbacks": "none", "page": "none"})

    def test_what_no_job_can_do_is_refused_by_name(self):
        found = self.run_tables("refusals")
        expected = json.loads(found.pop("EXPECTED"))
        self.assertEqual(set(found), set(expected))
        for name, words in expected.items():
            self.assertIn(words, found[name], name)
            self.assertTrue(found[name].startswith(("Refused: ", "Error: ")), found[name])

    def test_loggers_of_peers_on_one_disk_have_versions_of_their_own(self):
        self.assertEqual(self.run_tables("versions"), {"versions": "0 1 version_0 version_1"})

    def test_metrics_and_orders_are_those_of_all_samples(self):
        found = self.run_tables("sums")
        self.assertGreater(len(found), 10)
        self.assertEqual({name for name, result in found.items() if result != "same"}, set(), found)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch", "lightning", "pytorch_lightning", "torchmetrics"), what="programs")
