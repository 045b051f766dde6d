"""transformers' Trainer on a flock: the curve of the plain one, the same bytes whatever dies, and what is refused."""

import json
import os
import re
import subprocess
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

CURVE = os.path.join(peers.PROGRAMS, "curve.py")
TRAINERS = os.path.join(peers.PROGRAMS, "trainers.py")
TIMES = re.compile(r"_(runtime|per_second|time)$|^total_flos$")


def mortal(folder, *places):
    """The environment in which any program dies at these places."""
    path = (peers.MODULE, os.path.join(peers.HERE, "mortal"), peers.PROGRAMS)
    return {**peers.kills(folder, *places), "PYTHONPATH": os.pathsep.join(path)}


class Curve(peers.Case):
    """The plain Trainer and godwit's see the same batches: rates are equal, losses within the noise of floats."""

    def curve(self, kind, case):
        folder = os.path.join(self.folder, kind)
        found = re.search(r"^curve (.*)$", self.alone(CURVE, [kind, case, folder]), re.MULTILINE)
        made = json.loads(found[1])
        made["saved"] = sorted(n for n in os.listdir(folder) if n.startswith("checkpoint"))
        made["rows"] = [{k: v for k, v in row.items() if not TIMES.search(k)} for row in made["rows"]]
        return made

    def agree(self, case, noise):
        plain, ours = self.curve("plain", case), self.curve("godwit", case)
        # The row of the whole training comes behind the last evaluation with transformers, in one job's order with godwit.
        key = lambda row: (row["step"], "train_loss" in row, sorted(row))  # noqa: E731
        plain_rows, our_rows = sorted(plain["rows"], key=key), sorted(ours["rows"], key=key)
        self.assertEqual([sorted(row) for row in our_rows], [sorted(row) for row in plain_rows])
        for was, now in zip(plain_rows, our_rows):
            for name, value in was.items():
                exact = name in ("learning_rate", "step", "epoch", "num_input_tokens_seen")
                self.assertAlmostEqual(now[name], value, delta=0 if exact else noise * max(1, abs(value)), msg=(name, was))
        for name in ("loss", "final", "weights"):
            self.assertAlmostEqual(ours[name], plain[name], delta=noise * max(1, abs(plain[name])), msg=name)
        for name in ("seen", "steps", "best", "saved"):
            self.assertEqual(ours[name], plain[name], name)
        return ours

    def test_losses_of_different_lengths_and_rates_of_a_cosine(self):
        ours = self.agree("cosine", 1e-6)
        self.assertEqual(ours["steps"], 14)

    def test_evaluations_by_epoch_smoothed_labels_and_tokens_seen(self):
        ours = self.agree("epochs", 1e-5)
        self.assertEqual(ours["saved"], ["checkpoint-11"])

    def test_the_best_model_and_the_early_end(self):
        ours = self.agree("best", 1e-3)
        self.assertLess(ours["steps"], 28, "the callback does not end the training")

    def test_the_best_model_is_another_than_the_last(self):
        ours = self.agree("early", 1e-4)
        self.assertEqual((ours["best"], ours["steps"]), (2, 4))
        self.assertEqual(ours["saved"], ["checkpoint-2"])

    def test_a_scheduler_that_follows_the_evaluation(self):
        self.agree("plateau", 1e-4)

    def test_bfloat16_and_checkpointed_activations(self):
        self.agree("bf16", 1e-2)

    def test_a_loss_that_is_a_mean_of_the_micro_batch(self):
        self.agree("means", 1e-6)


class SameBytes(peers.Case):
    """An example has one state and one file of weights: alone, with workers, and with peers that die."""

    def export(self, name):
        file = os.path.join(self.folder, f"{name}.safetensors")
        subprocess.run([peers.BINARY, "export", os.path.join(self.folder, name), "--to", file], check=True)
        with open(file, "rb") as exported:
            return exported.read()

    def one_state(self, example, arguments, last, kills, peer_kills):
        program = os.path.join(peers.EXAMPLES, example)
        place = lambda name: {"OUTPUT": os.path.join(self.folder, f"of {name}")}  # noqa: E731
        alone = self.alone(program, arguments, **place("alone"))
        state = peers.state_of(alone)
        said = re.search(last, alone)
        self.assertIsNotNone(said, alone)
        self.assertEqual(self.state("one", program, arguments, ("--workers", "1"), **place("one")), state)
        self.assertIn(said[0], self.output, "the program goes on with another model than alone")
        weights = self.export("one")
        marks = os.path.join(self.folder, "marks")
        dying = {**mortal(marks, *kills), **place("two")}
        self.assertEqual(self.state("two", program, arguments, ("--workers", "2"), **dying), state)
        self.assertEqual(sorted(os.listdir(marks)), sorted(kills))
        self.assertEqual(self.export("two"), weights)
        together = mortal(os.path.join(self.folder, "peer marks"), *peer_kills)
        flock = self.flock(program, arguments, variables=[{**together, **place(f"p{i}")} for i in range(3)])
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0, 0], [p.output for p in flock])
        for i, (peer, end) in enumerate(zip(flock, ends)):
            if end == 0:
                self.assertEqual(peers.state_of(peer.output), state)
                self.assertEqual(self.export(f"p{i}"), weights)
        return [os.path.join(self.folder, f"of p{i}") for i, end in enumerate(ends) if end == 0]

    def same_files(self, folders, *names):
        """Expects that what the programs have saved is what the one that ran alone has saved."""
        for name in names:
            with open(os.path.join(self.folder, "of alone", name), "rb") as file:
                alone = file.read()
            for folder in (*folders, os.path.join(self.folder, "of two")):
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertEqual(file.read(), alone, f"{folder}: {name}")

    def test_a_model_of_llamas_shape(self):
        self.one_state(
            "llama.py", [self.text(), 6], "after 6 updates: .*", ["shard 1 2", "shard 3 0", "once 4"],
            ["peer shard 3 1", "shard 2 4"],
        )  # fmt: skip

    def test_adapters_on_a_frozen_base(self):
        folders = self.one_state(
            "lora.py", [self.text(), 6], r"after 6 updates: loss .*", ["shard 1 2", "once 3", "after 2", "evaluated 6"],
            ["peer shard 3 1", "shard 2 4", "once 4"],
        )  # fmt: skip
        self.same_files(folders, "adapter_model.safetensors")

    def test_a_classifier_with_its_best_model(self):
        path = os.path.join(self.folder, "labels")
        kinds = {"praise": "good fine great splendid lovely".split(), "blame": "bad poor awful dreadful weak".split()}
        with open(path, "w") as file:
            for i in range(96):
                label = ("praise", "blame")[i * i // 3 % 2]
                file.write(f"{label}\tthe {i % 7} was {kinds[label][i % 5]} and {kinds[label][3 * i % 5]}\n")
        folders = self.one_state(
            "classifier.py", [path, 3], "after 9 updates: .* are right", ["shard 1 2", "once 2", "after 3", "after 6"],
            ["peer shard 4 1", "shard 2 3", "once 5"],
        )  # fmt: skip
        self.same_files(folders, "model.safetensors")


class Refusals(peers.Case):
    def run_trainers(self, what):
        done = subprocess.run(
            [peers.PYTHON, TRAINERS, what], env=peers.environment(), text=True, capture_output=True,
            timeout=peers.LIMIT_S, check=False, cwd=self.folder,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)

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

    def test_what_comes_too_late_in_a_callback_or_a_loss_is_refused(self):
        for case, words in (("stop", "ExportableState"), ("log", "on_step_end"), ("labels", "have no labels")):
            self.assertIn(words, self.refusal(TRAINERS, [case]), case)

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

    def test_peers_with_other_data_or_rates_are_turned_away(self):
        first = self.peer("p0", TRAINERS, ["train"], ("--peers", "2", "--workers", "1"))
        address = first.address()
        other = self.peer(
            "p1", TRAINERS, ["train"], ("--peers", "2", "--workers", "1", "--join", address), GODWIT_TEST_DIFFERS="data"
        )
        self.assertNotEqual(other.end(), 0, other.output)
        self.assertIn("data:train", other.output)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch", "transformers", "accelerate", "peft", "numpy"), what="programs")
