"""transformers' Trainer on a flock: the curve of the plain one, its examples, and what is refused."""

import os
import re
import subprocess
import sys
import tempfile

import peers
import trainings

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402


class Curve(trainings.CurveCase):
    def test_losses_of_different_lengths_and_rates_of_a_cosine(self):
        ours = self.agree("cosine", 1e-6)
        self.assertEqual(ours["steps"], 14)


class Examples(trainings.ExampleCase):
    """All of them, also with peers that die: test_hf_trainings.py, before a release."""

    def test_an_example_has_one_state_alone_and_with_workers(self):
        program, arguments = os.path.join(peers.EXAMPLES, "llama.py"), [self.text(), 2]
        place = {"OUTPUT": os.path.join(self.folder, "out")}
        state = peers.state_of(self.alone(program, arguments, **place))
        self.assertIsNotNone(state)
        self.assertEqual(self.state("two", program, arguments, ("--workers", "2"), **place), state)


class Refusals(peers.Case):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.done = subprocess.run(
                [peers.PYTHON, trainings.TRAINERS, "table", "refusals", "orders", "saving", "notes", "identity", "stop"],
                env=peers.environment(), text=True, capture_output=True, timeout=peers.LIMIT_S, check=False, cwd=folder,
            )  # fmt: skip

    def run_trainers(self, what):
        """What the program prints of one of its parts; one process does all of them, and the last one ends it."""
        self.assertIn("\n== stop\n", self.done.stdout, self.done.stderr)
        part = self.done.stdout.split(f"== {what}\n")[1].split("\n== ")[0]
        return dict(line.split(": ", 1) for line in part.splitlines() if ": " in line)

    def test_every_argument_of_transformers_is_in_the_table_and_on_the_page(self):
        found = self.run_trainers("table")
        self.assertEqual(found.pop("arguments"), "same", "godwit.hf.Trainer has other arguments than transformers'")
        self.assertEqual([name for name, kind in found.items() if kind == "unknown"], [], "hf/arguments.py lacks these")
        self.assertGreater(len(found), 100)
        with open(os.path.join(peers.MODULE, "README.md")) as file:
            page = file.read().partition("\n## Hugging Face")[2].partition("\n## ")[0]
        for kind in ("honoured", "left", "refused"):
            row = re.search(rf"^\| {kind} \|.*$", page, re.MULTILINE)
            self.assertIsNotNone(row, f"the page has no row for what is {kind}")
            named = set(re.findall(r"`(\w+)`", row[0]))
            self.assertEqual(named, {name for name, of in found.items() if of == kind}, f"README: {kind}")

    def test_what_cannot_be_honoured_is_refused_by_name(self):
        found = self.run_trainers("refusals")
        expected = {
            "fp16": "bf16=True", "torch_compile": "leave it out", "fsdp": "the whole model", "push_to_hub": "every peer",
            "auto_find_batch_size": "per_device_train_batch_size", "resume_from_checkpoint": "--dir",
            "batch_rebalance": "use one of random", "eval_on_start": "before trainer.train()", "debug": "leave it out",
            "accelerator_config": "splitting", "unknown field": "does not know the field", "stream": "a stream",
            "empty": "train_dataset is empty", "resume": "from_pretrained", "search": "one job",
            "training step": "training_step", "evaluate": "evaluation_loop", "event": "on_optimizer_step",
            "generator": "a generator of its own", "swaps": "swaps the weights", "no update": "are no update",
            "twice": "a script has one job", "optim": "use another optim",
        }  # fmt: skip
        for name, words in expected.items():
            self.assertIn(words, found[name], name)
        self.assertEqual(set(found), set(expected))
        self.assertTrue(all(text.startswith("Error ") for text in found.values()), found)

    def test_a_callback_that_changes_too_late_what_is_to_come_is_refused(self):
        self.assertIn("\n== stop\n", self.done.stdout, self.done.stderr)
        self.assertNotEqual(self.done.returncode, 0)
        self.assertIn("ExportableState", self.done.stdout.split("\n== stop\n")[1] + self.done.stderr)

    def test_the_order_of_an_epoch_is_that_of_transformers_and_depends_on_the_epoch_alone(self):
        batches, dropped = "[4, 6, 6, 6, 6, 6, 6]", "[6, 6, 6, 6, 6, 6]"
        expected = {
            "random": f"True True True {batches}", "seeded": f"True True True {dropped}",
            "sequential": f"True True False {batches}", "group_by_length": f"True False True {batches}",
            "own": f"True False True {batches}",
        }  # fmt: skip
        self.assertEqual(self.run_trainers("orders"), expected)

    def test_a_checkpoint_that_is_made_is_none_yet_and_takes_the_place_of_an_older_one(self):
        found = self.run_trainers("saving")
        self.assertEqual(found["meanwhile"], "['checkpoint-1']", "of the second time")
        self.assertEqual(found["then"], "['checkpoint-1'] ['trainer_state.json', 'training_args.bin']")

    def test_notes_on_what_has_no_meaning(self):
        found = self.run_trainers("notes")
        self.assertIn("samples are gathered in the worker", found["dataloader_num_workers"])
        self.assertEqual(set(found), {"dataloader_num_workers", "ddp_timeout"})

    def test_peers_compare_the_data_and_the_rates(self):
        """Who differs in a line is turned away: test_bad.py, and with this program test_hf_trainings.py."""
        expected = {"same": "[]", "data": "['data:train']", "rates": "['argument:learning_rate']"}
        self.assertEqual(self.run_trainers("identity"), expected)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch", "transformers", "accelerate", "peft", "numpy"), what="programs")
