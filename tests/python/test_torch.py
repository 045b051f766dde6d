"""PyTorch programs: the same bytes alone, with any number of workers and peers, and whatever dies."""

import json
import os
import re
import struct
import subprocess
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

BYTES = os.path.join(peers.EXAMPLES, "bytes.py")
PICTURES = os.path.join(peers.PROGRAMS, "pictures.py")


class SameBytes(peers.Case):
    def test_a_language_model_has_one_state_alone_and_with_workers(self):
        arguments = [self.text(), 8]
        alone = self.alone(BYTES, arguments)
        state = peers.state_of(alone)
        self.assertIsNotNone(state, alone)
        said = re.search(r"after 8 updates: (.*)", alone)
        self.assertEqual(self.state("two", BYTES, arguments, ("--workers", "2")), state)
        self.assertIn(said[1], self.output, "the program goes on with another model than alone")

    def test_a_net_with_batch_norm_has_one_state_whatever_dies(self):
        arguments = [7]
        log = os.path.join(self.folder, "log")
        state = self.state("one", PICTURES, arguments, ("--workers", "1"), GODWIT_TEST_LOG=log)
        with open(log) as file:
            self.assertEqual(file.read(), "".join(f"after {step}\n" for step in range(10)) + "behind\n")
        self.assertRegex(self.output, r"finished 7 \S+ 0.0003125 None True 7 7")
        self.assertNotIn("Detected call of", self.output, "a worker that steps the scheduler may not have made the part")
        self.export()
        marks = os.path.join(self.folder, "marks")
        places = [
            "shard 1 2", "shard 1 3", "shard 2 4", "shard 4 0", "once 2", "once 4", "once 5", "evaluated 6", "after 3",
            "peer shard 3 1",
        ]  # fmt: skip
        dying = peers.kills(marks, *places)
        copied = {"GODWIT_TEST_COPIES": "1"}  # the model sees copies of the state, as it does on a GPU
        flock = self.flock(PICTURES, arguments, 2, variables=[dying, {**dying, **copied}])
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0], [p.output for p in flock])
        self.assertEqual([peers.state_of(p.output) for p, end in zip(flock, ends) if end == 0], [state])
        self.assertEqual(sorted(os.listdir(marks)), sorted(places))

    def export(self):
        """Exports the model of the directory `one`, and expects its own names, which `inspect` shows whole."""
        shown = subprocess.run([peers.BINARY, "inspect", os.path.join(self.folder, "one"), "--tensors"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout  # fmt: skip
        self.assertRegex(shown, r"optimizer:exp_avg_sq:conv\.weight +f32")
        file = os.path.join(self.folder, "model.safetensors")
        subprocess.run([peers.BINARY, "export", os.path.join(self.folder, "one"), "--to", file], check=True)
        with open(file, "rb") as exported:
            (length,) = struct.unpack("<Q", exported.read(8))
            names = set(json.loads(exported.read(length))) - {"__metadata__"}
        layers = {f"{layer}.{what}" for layer in ("norm", "head", "unused", "frozen") for what in ("weight", "bias")}
        running = {f"norm.{what}" for what in ("running_mean", "running_var", "num_batches_tracked")}
        self.assertEqual(names, {"conv.weight"} | layers | running)


class Frozen(peers.Case):
    def test_a_frozen_model_of_64_mib_is_there_once(self):
        self.state("one", os.path.join(peers.PROGRAMS, "frozen.py"), options=("--workers", "1"))
        found = re.search(r"worker=(-?\d+) template=(-?\d+) state=(\d+) next=(\d+) own=(\d+)", self.output)
        self.assertIsNotNone(found, self.output)
        worker, template, state, following, own = map(int, found.groups())
        self.assertEqual(state, 64)
        self.assertLess(max(worker, template), 32, "a process has a copy of what is frozen")
        self.assertLess(max(following, own), 2, "memory for updates and sums has what is frozen")


class Direct(peers.Case):
    @classmethod
    def setUpClass(cls):
        cls.done = subprocess.run(
            [peers.PYTHON, os.path.join(peers.PROGRAMS, "direct.py"), "optimizers", "warnings", "refusals"],
            env=peers.environment(), text=True, capture_output=True, timeout=peers.LIMIT_S, check=False,
        )  # fmt: skip

    def run_direct(self, what):
        """What the program prints of one of its parts; one process does all of them."""
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        part = self.done.stdout.split(f"== {what}\n")[1].split("\n== ")[0]
        return dict(line.split(": ", 1) for line in part.splitlines())

    def test_optimizers_give_the_bits_of_plain_pytorch_in_one_part_and_in_three(self):
        found = self.run_direct("optimizers")
        self.assertGreater(len(found), 25)
        self.assertEqual({name for name, result in found.items() if result != "same"}, set())

    def test_what_is_most_likely_a_mistake_is_told(self):
        found = self.run_direct("warnings")
        for name in ("sum", "mean of a sum", "one"):
            self.assertEqual(found[name].strip(), "ACCEPTED", name)
        for name in ("mean", "mean of bfloat16", "mean by hand"):
            self.assertIn("looks like a mean, and its weight is 48", found[name], name)
        self.assertIn('Give keep={"scheduler": scheduler}', found["scheduler"])
        self.assertIn("the shard calls backward() itself", found["backward"])
        self.assertIn("it must be a list of paths", found["data"])
        self.assertIn("compute with 2 threads, where --threads is 1", found["threads"])

    def test_what_no_job_can_do_is_refused_by_name(self):
        found = self.run_direct("refusals")
        self.assertEqual(len(found), 27)
        expected = {
            "embedding": "Embedding(sparse=True)", "functional embedding": "sparse gradient", "batch norm": "momentum=None",
            "closure": "by a closure", "lbfgs": "LBFGS", "scaler": "use bfloat16", "keep": "no state_dict()",
            "wrapped": "DistributedDataParallel", "lazy": "no shape yet", "renewed": "replaces a parameter",
            "growing": "adds or removes", "buffer": "persistent=False", "number": "it returned (float, int)",
            "detached": "no gradient", "weight": "weight -1.0", "reports": "['right']", "elsewhere": "not in the model",
            "nothing": "no parameter", "complex": "complex64", "nondeterministic": "deterministic", "written": "writes to a.bias",
            "written data": "writes to b.weight",
        }  # fmt: skip
        for name, words in expected.items():
            self.assertIn(words, found[name], name)
        self.assertTrue(all("Refused: " in text or "Error: " in text for text in found.values()), found)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch"), what="programs")
