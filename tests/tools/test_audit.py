"""godwit audit on real peers: a flock whose memory flips a bit goes on with wrong bytes, and the audit says where."""

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

BUILD = os.environ.get("GODWIT_BUILD", os.path.realpath(os.path.join(HERE, "..", "..", "build")))
GODWIT = os.path.join(BUILD, "godwit")
FLIPPER = os.path.join(BUILD, "tests", "flipper.so")


def run_pair(folder, job, first=(), second=(), code=0):
    """Runs a job on two peers, in folder/a and folder/b, to its end, with this exit code."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    common = [GODWIT, "run", *job, "--peers", "2", "--workers", "1", "--json", "--listen", "127.0.0.1:0"]
    one = subprocess.Popen([*common, *first, "--dir", os.path.join(folder, "a")], stdout=subprocess.PIPE, text=True)
    port = None
    for line in one.stdout:
        event = json.loads(line)
        if event["event"] == "listening":
            port = event["port"]
            break
    two = subprocess.Popen(
        [*common, *second, "--dir", os.path.join(folder, "b"), "--join", f"127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
    )
    one.stdout.read()
    assert (one.wait(120), two.wait(120)) == (code, code), folder


def audit(*arguments, cwd=None):
    done = subprocess.run(
        [GODWIT, "audit", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def run_alone(folder, *job):
    done = subprocess.run(
        [GODWIT, "run", *job, "--dir", folder, "--workers", "2", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def write_idx(path, kind, shape, data):
    """A file in the format of MNIST."""
    with open(path, "wb") as file:
        file.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, kind, len(shape), *shape) + data)


def write_pictures(folder, wrong):
    """Pictures of ten kinds that are easily told apart; the label of training picture ``wrong`` is another one."""
    os.makedirs(folder)
    draw = random.Random(3)
    kinds = [draw.randbytes(64) for _ in range(10)]
    for name, count in (("train", 600), ("t10k", 60)):
        labels = bytearray(i % 10 for i in range(count))
        pixels = b"".join(bytes(min(max(v + draw.randrange(-20, 20), 0), 255) for v in kinds[label]) for label in labels)
        if name == "train":
            labels[wrong] = (labels[wrong] + 5) % 10
        write_idx(os.path.join(folder, f"{name}-images-idx3-ubyte"), 8, (count, 8, 8), pixels)
        write_idx(os.path.join(folder, f"{name}-labels-idx1-ubyte"), 8, (count,), bytes(labels))
    return labels


class Spikes(unittest.TestCase):
    """A sample that poisons a step is named."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def spike(self, code, *arguments):
        found, out, err = audit(os.path.join(self.folder, "run"), *arguments, "--json", cwd=self.folder)
        self.assertEqual(found, code, out + err)
        return json.loads(out)["spike"]

    def test_a_picture_with_a_wrong_label_is_named(self):
        wrong = 437
        write_pictures(os.path.join(self.folder, "pictures"), wrong)
        where = os.path.join(self.folder, "run")
        run_alone(where, "digits", "--data", os.path.join(self.folder, "pictures"), "--epochs", "12", "--batch", "60",
                  "--micro-batch", "5", "--hidden", "32", "--lr", "0.01")  # fmt: skip
        found = self.spike(1, "--spike")
        first = found["own"]["extreme"][0]
        self.assertEqual(first["by"], "report")
        self.assertIn({"index": wrong, "count": 1, "unit": "sample", "set": "train", "text": f"label {(wrong + 5) % 10}"},
                      first["samples"])  # fmt: skip
        self.assertEqual((first["sample_count"], len(first["samples"])), (5, 5))
        self.assertGreater(found["value"], 3 * found["mean"])
        # The text names the same, and a step that is no spike has no such shard.
        code, out, err = audit(where, "--spike=loss>3x")
        self.assertEqual(code, 1, out + err)
        self.assertIn(f"shard {first['shard']} of step {found['step']} stands out of 12: it adds", out)
        self.assertIn(f"    sample {wrong} of train: label {(wrong + 5) % 10}\n", out)
        self.assertEqual(self.spike(0, "--spike=test_loss")["step"], None)
        self.assertEqual(self.spike(0, "--spike", "--step", "1")["own"]["extreme"], [])
        # What is asked wrongly.
        for arguments, code, text in (
            (["--spike=nothing"], 2, "it reports epoch, loss, accuracy"),
            (["--spike=a>b"], 2, "is not KEY"),
            (["--spike=loss,val>2"], 2, "is not KEY"),
            (["--spike", "--bisect", where], 2, "give it without --bisect"),
            (["--spike", "--step", "500"], 2, "there is no step 500"),
        ):
            found, out, err = audit(where, *arguments)
            self.assertEqual(found, code, out + err)
            self.assertIn(text, err)
        os.unlink(os.path.join(where, "series"))
        code, out, err = audit(where, "--spike")
        self.assertEqual(code, 3, out + err)
        self.assertIn("name the step by --step", err)

    def test_a_stretch_of_garbage_in_a_text_is_named(self):
        line, context, window = "The bar-tailed godwit flies eleven days without landing.\n", 63, 700
        text = bytearray((line * 1200)[: context * 1000 + 1].encode())
        draw = random.Random(9)
        text[context * window : context * (window + 1)] = bytes(draw.randrange(33, 127) for _ in range(context))
        with open(os.path.join(self.folder, "t.txt"), "wb") as file:
            file.write(text)
        where = os.path.join(self.folder, "run")
        run_alone(where, "gpt", "--data", os.path.join(self.folder, "t.txt"), "--layers", "1", "--channels", "32", "--heads",
                  "2", "--context", "63", "--batch-tokens", "504", "--micro-batch", "1", "--updates", "250", "--lr", "0.01")  # fmt: skip
        found = self.spike(1, "--spike")
        # Its epoch takes every window once: the spike may come a step later, where the model was spoiled by it.
        named = [s for e in ("own", "earlier") for x in found.get(e, {}).get("extreme", []) for s in x["samples"]]
        self.assertIn(context * window, [s["index"] for s in named], found)
        sample = next(s for s in named if s["index"] == context * window)
        self.assertEqual((sample["unit"], sample["count"]), ("byte", context))
        self.assertEqual(sample["set"], os.path.join(self.folder, "t.txt"))
        self.assertEqual(sample["text"], text[context * window :][:context].decode())


class Audit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def test_a_flipped_gradient_is_named_with_its_step_shard_and_peer(self):
        job = [FLIPPER, "--checkpoint-every", "10", "--keep", "9"]
        run_pair(self.path("flip"), job, second=["--flip-gradient", "23"])
        # The command of the first directory is that of the machine whose memory is sound.
        code, out, err = audit(self.path("flip", "a"), self.path("flip", "b"), "--step", "30", "--json")
        self.assertEqual(code, 1, err)
        found = json.loads(out)
        self.assertIn(found["from_step"], (10, 20))  # that of 20 may not have been whole yet when the run ended
        own = [one for one in found["findings"] if one["own_part"]]
        self.assertEqual(len(own), 1, found)
        self.assertEqual(own[0]["dir"], self.path("flip", "b"))
        self.assertEqual(own[0]["kind"], "sum")
        self.assertGreaterEqual(own[0]["step"], 24)
        self.assertIn("shard", own[0])
        step, shard = str(own[0]["step"]), str(own[0]["shard"])
        code, out, err = audit(self.path("flip", "a"), self.path("flip", "b"), "--step", step, "--shard", shard)
        self.assertEqual(code, 1, err)
        self.assertIn(f"shard {shard} of step {step} had another result than here", out)
        self.assertIn(self.path("flip", "b"), out)
        self.assertIn("its samples are not known: the job flipper does not tell the samples of its shards", out)
        # Against a sound run of the same job.
        run_pair(self.path("sound"), job)
        code, out, err = audit(self.path("sound", "a"), "--bisect", self.path("flip", "b"), "--json")
        self.assertEqual(code, 1, err)
        self.assertEqual(json.loads(out)["parts_at"], own[0]["step"])
        code, out, err = audit(self.path("sound", "a"), self.path("sound", "b"), "--step", "40")
        self.assertEqual(code, 0, out + err)
        self.assertIn(" are as the receipts say", out)

    def test_where_one_state_stands_against_another_it_tells_which_is_right(self):
        # Two peers find that their states differ, and neither can tell who is wrong: the job fails.
        run_pair(self.path("after"), [FLIPPER, "--checkpoint-every", "10"], second=["--flip-moment", "15"], code=1)
        code, out, err = audit(self.path("after", "a"), self.path("after", "b"), "--json")
        self.assertEqual(code, 1, out + err)
        found = json.loads(out)["findings"]
        self.assertEqual([(one["dir"], one["kind"], one["step"]) for one in found],
                         [(self.path("after", "b"), "state", 16)])

    def test_it_runs_from_any_folder_and_says_what_it_lacks(self):
        where = self.path("place")
        subprocess.run(
            [GODWIT, "run", "synthetic", "--steps", "30", "--shards", "3", "--shard-ms", "0", "--dir", where, "--quiet"]
            + ["--listen", "127.0.0.1:0"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        code, out, err = audit("place", "--step", "30", cwd=self.folder)
        self.assertEqual(code, 0, out + err)
        code, out, err = audit(where, "--step", "31")
        self.assertEqual(code, 2, out + err)
        self.assertIn("the job has 30 steps", err)
        code, out, err = audit(where, "--step", "3", "--", "synthetic", "--steps", "30", "--shards", "4")
        self.assertEqual(code, 3, out + err)
        self.assertIn("shards", err)
        code, out, err = audit(where)  # the only checkpoint is the last one
        self.assertEqual(code, 0, out + err)
        self.assertIn("all 30 are as the receipts say", out)
        code, out, err = audit(where, "--step", "3", "--shard", "3")
        self.assertEqual(code, 2, out + err)
        self.assertIn("there is no shard 3", err)
        code, out, err = audit(self.path("nothing"))
        self.assertEqual(code, 2, out + err)
        os.makedirs(self.path("empty"))
        code, out, err = audit(self.path("empty"))
        self.assertEqual(code, 2, out + err)
        self.assertIn("no receipts", err)
        command = [name for name in os.listdir(where) if name.startswith("command-")][0]
        os.unlink(os.path.join(where, command))
        code, out, err = audit(where, "--step", "3")
        self.assertEqual(code, 2, out + err)
        self.assertIn("give it after --", err)

    def test_another_job_is_named_and_a_damaged_file_is_told_from_a_wrong_step(self):
        dirs = {}
        for name, seed in (("one", "1"), ("two", "2")):
            dirs[name] = self.path("jobs-" + name)
            subprocess.run(
                [GODWIT, "run", "synthetic", "--steps", "30", "--shards", "3", "--shard-ms", "0", "--seed", seed]
                + ["--dir", dirs[name], "--quiet", "--listen", "127.0.0.1:0"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        code, out, err = audit(dirs["one"], dirs["two"])
        self.assertEqual(code, 2, out + err)
        self.assertIn("give the directories of one job", err)
        code, out, err = audit(dirs["one"], "--bisect", dirs["two"])
        self.assertEqual(code, 1, out + err)
        self.assertIn("another job", out)
        self.assertIn("seed=2", out)
        receipts = [name for name in os.listdir(dirs["one"]) if name.startswith("receipts-")][0]
        with open(os.path.join(dirs["one"], receipts), "r+b") as file:
            file.seek(64 + 32 * 11 + 5)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 16]))
        code, out, err = audit(dirs["one"], "--json")
        self.assertEqual(code, 1, out + err)
        self.assertEqual([(one["kind"], one["step"]) for one in json.loads(out)["findings"]], [("file", 12)])

    def test_float_sums_are_refused(self):
        where = self.path("fast")
        job = ["synthetic", "--steps", "10", "--shards", "3", "--shard-ms", "0", "--reduce", "fast", "--quorum", "majority"]
        job += ["--peers", "1"]
        subprocess.run(
            [GODWIT, "run", *job, "--dir", where, "--quiet", "--listen", "127.0.0.1:0"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for arguments in (["--step", "3"], ["--spike=energy"], ["--spike", "--step", "3"], ["--bisect", where], []):
            code, out, err = audit(where, *arguments)
            self.assertEqual(code, 3, out + err)
            self.assertIn("the job's sums are floats (--reduce fast)", err, arguments)
            self.assertIn("cannot be computed again", err)

    def test_a_job_that_was_built_before_jobs_told_samples_runs_still(self):
        where = self.path("older")
        run_alone(where, os.path.join(BUILD, "tests", "older.so"), "--darts", "1000", "--steps", "5")
        code, out, err = audit(where, "--step", "3", "--shard", "1")
        self.assertEqual(code, 0, out + err)
        self.assertIn("its samples are not known: the job pi does not tell the samples of its shards", out)


if __name__ == "__main__":
    tap.main()
