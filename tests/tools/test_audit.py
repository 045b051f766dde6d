"""godwit audit on real peers: a flock whose memory flips a bit goes on with wrong bytes, and the audit says where."""

import json
import os
import shutil
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
        self.assertEqual(found["from_step"], 20)
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
        code, out, err = audit(where, "--step", "3")
        self.assertEqual(code, 3, out + err)
        self.assertIn("--reduce fast", err)


if __name__ == "__main__":
    tap.main()
