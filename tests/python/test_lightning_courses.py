"""Modules trained by lightning.Trainer and as jobs take one course, and the example: before a release."""

import json
import os
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

LIT = os.path.join(peers.PROGRAMS, "lit.py")
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
    def test_a_module_that_is_stopped_or_sees_copies_has_the_state_that_it_has_alone(self):
        arguments = ["godwit", "flock", self.folder]
        state = peers.state_of(self.alone(LIT, arguments))
        stop = peers.kills(os.path.join(self.folder, "stop"), "stop shard 4 1")
        halves = self.peer("halves", LIT, arguments, ("--workers", "1"), **stop)
        halves.end()
        self.assertIn("this peer leaves", halves.output)
        self.assertEqual(self.state("halves", LIT, arguments, ("--workers", "1")), state)
        copied = {"ACCELERATOR": "gpu", "GODWIT_TEST_COPIES": "1"}  # the model sees copies of the state, as it does on a GPU
        self.assertEqual(self.state("copies", LIT, arguments, ("--workers", "2"), **copied), state)


class Example(peers.Case):
    def test_the_example_has_one_state_alone_and_with_workers(self):
        arguments = [self.pictures(), 2]
        alone = self.alone(EXAMPLE, arguments)
        self.assertRegex(alone, "after 2 updates: .* are recognized")
        self.assertEqual(self.state("two", EXAMPLE, arguments, ("--workers", "2")), peers.state_of(alone))


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch", "lightning", "pytorch_lightning", "torchmetrics"), what="programs")
