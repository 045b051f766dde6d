"""Lightning's modules as jobs: the course of plain Lightning, and one state whatever dies."""

import json
import os
import subprocess
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

LIT = os.path.join(peers.PROGRAMS, "lit.py")
TABLES = os.path.join(peers.PROGRAMS, "lit_tables.py")
EXAMPLE = os.path.join(peers.EXAMPLES, "lit.py")


def said(output, how):
    """What the program prints: the logger's values by name and step, and the rest of the result."""
    rows, result = json.loads(next(line for line in output.splitlines() if line.startswith(how)).removeprefix(how))
    values = {}
    for row in rows:
        step = int(row.pop("step"))
        for name, value in row.items():
            if name != "epoch" or len(row) > 1:
                values.setdefault((name, step), set()).add(float(value))
    return values, result


class Course(peers.Case):
    """A job of one shard an update makes the steps that lightning.Trainer makes."""

    def compare(self, case, within, how="", only=None):
        """Runs a case by lightning.Trainer and as a job. Values agree within float noise, learning rates exactly."""
        output = self.alone(LIT, ["both" + how, case, self.folder])
        plain, expected = said(output, "PLAIN ")
        godwit, found = said(output, "GODWIT ")
        self.assertTrue(found.pop("tested", case == "hooks"), found)
        self.assertEqual(set(plain), set(godwit))
        for key, values in plain.items():
            if only is not None and not key[0].startswith(only):
                continue
            if key[0].startswith("lr-"):
                self.assertEqual(values, godwit[key], key)
                continue
            for a, b in zip(sorted(values), sorted(godwit[key]), strict=True):
                self.assertLess(abs(a - b), within * (1 + abs(a)), key)
        self.assertEqual(expected, found)
        return plain

    def test_a_plateau_an_early_stop_and_checkpoints_in_double_precision(self):
        plain = self.compare("plateau", 1e-6)
        self.assertGreater(len({v for (name, _), values in plain.items() if name.startswith("lr-") for v in values}), 1)

    def test_a_scheduler_by_the_step_and_validations_by_the_batch_of_pytorch_lightning(self):
        plain = self.compare("step", 3e-5, how=",pytorch_lightning")
        self.assertEqual(len({v for (name, _), values in plain.items() if name.startswith("lr-") for v in values}), 15)

    def test_two_schedulers_and_accumulated_batches(self):
        self.compare("two", 0, only="lr-")

    def test_hooks_of_the_optimizer_and_of_batches_and_two_validations(self):
        plain = self.compare("hooks", 3e-5)
        self.assertIn("val_loss/dataloader_idx_1", {name for name, _ in plain})


class SameBytes(peers.Case):
    def test_a_module_has_one_state_alone_with_workers_and_whatever_dies(self):
        arguments = ["godwit", "flock", self.folder]
        alone = self.alone(LIT, arguments)
        state = peers.state_of(alone)
        self.assertIsNotNone(state, alone)
        stop = peers.kills(os.path.join(self.folder, "stop"), "stop shard 4 1")
        halves = self.peer("halves", LIT, arguments, ("--workers", "1"), **stop)
        halves.end()
        self.assertIn("this peer leaves", halves.output)
        self.assertEqual(self.state("halves", LIT, arguments, ("--workers", "1")), state)
        places = ["shard 1 2", "shard 5 3", "once 2", "evaluated 4", "once 7"]
        marks = os.path.join(self.folder, "marks")
        self.assertEqual(self.state("two", LIT, arguments, ("--workers", "2"), **peers.kills(marks, *places)), state)
        self.assertEqual(sorted(os.listdir(marks)), sorted(places))
        with_peer = peers.kills(os.path.join(self.folder, "peer marks"), "peer shard 6 4", "shard 3 6", "evaluated 8")
        flock = self.flock(LIT, arguments, peers=2, options=("--workers", "1"), variables=[with_peer] * 2)
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0], [p.output for p in flock])
        for peer, end in zip(flock, ends):
            if end == 0:
                self.assertEqual(peers.state_of(peer.output), state)


class Example(peers.Case):
    def test_the_example_has_one_state_alone_and_with_workers(self):
        arguments = [self.pictures(), 2]
        alone = self.alone(EXAMPLE, arguments)
        self.assertRegex(alone, "after 2 updates: .* are recognized")
        self.assertEqual(self.state("two", EXAMPLE, arguments, ("--workers", "2")), peers.state_of(alone))


class Tables(peers.Case):
    @classmethod
    def setUpClass(cls):
        cls.done = subprocess.run(
            [peers.PYTHON, TABLES, "complete", "refusals", "sums"], env=peers.environment(), text=True, capture_output=True,
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

    def test_metrics_and_orders_are_those_of_all_samples(self):
        found = self.run_tables("sums")
        self.assertGreater(len(found), 10)
        self.assertEqual({name for name, result in found.items() if result != "same"}, set(), found)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch", "lightning", "pytorch_lightning", "torchmetrics"), what="programs")
