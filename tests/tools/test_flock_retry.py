"""godwit retry: a job of steps goes on from the checkpoints of the one that was cancelled, and of a sweep what failed is
tried again and nothing else."""

import glob
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import flock_members  # noqa: E402
import tap  # noqa: E402


class Retry(flock_members.Flock):
    def test_a_job_of_steps_goes_on_from_the_checkpoints_of_the_old_one(self):
        self.start("a", "b")
        old = self.submit("a", "synthetic", "--steps", "200", "--shards", "2", "--shard-ms", "10", "--state-bytes", "1m",
                          "--sum-elements", "64", "--checkpoint-every", "20")
        saved = lambda: glob.glob(self.path("*", "jobs", old, "state", "manifests", "*"))  # noqa: E731
        self.wait_until(saved, "the job makes no checkpoint")
        done = self.ask("retry", "a", old, check=False)
        self.assertEqual((done.returncode, "is not over" in done.stderr), (2, True), done.stderr)
        self.ask("cancel", "a", old)
        self.wait_until(lambda: not self.job("a", old)["nodes"], "the job does not end")
        new = json.loads(self.ask("retry", "b", "--json", old).stdout)["id"]
        job = self.wait_for("b", new)
        self.assertEqual((job["state"], job["name"], job["tries_again"]), ("done", "synthetic-1", old), self.logs())
        said = "".join(open(self.path(name + ".log")).read() for name in self.members)
        self.assertRegex(said, "goes on here from the checkpoint of step [1-9]")
        done = self.ask("retry", "a", new, check=False)
        self.assertEqual((done.returncode, "is done" in done.stderr), (2, True), done.stderr)

    def test_of_a_sweep_what_failed_is_tried_again(self):
        self.start("a")
        self.make("tests.sh", 'test $1 = 1 || test -e good || exit 3')
        self.ask("submit", "a", "--name", "swept", "--sweep", "n=1,2,3", "--", "sh", "tests.sh", "{n}")
        self.submit("a", "--name", "other", "--", "false")
        names = ["swept-1", "swept-2", "swept-3", "other"]
        for name in names:
            self.ask("wait", "a", name, check=False)
        states = lambda: sorted((job["name"], job["state"]) for job in self.jobs("a"))  # noqa: E731
        before = [("other", "failed"), ("swept-1", "done"), ("swept-2", "failed"), ("swept-3", "failed")]
        self.assertEqual(states(), before, self.logs())
        self.ask("drain", "a", "--undo", "a")  # three failures at once made the node doubtful
        done = self.ask("retry", "a", "--failed", "--wait", "swept", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.make("good")
        self.ask("drain", "a", "--undo", "a")
        done = self.ask("retry", "a", "--failed", "--wait", "swept-3")  # those that were tried again, and no others
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertEqual(states(), sorted(before + [("swept-2", "failed"), ("swept-3", "failed"), ("swept-2", "done"),
                                                    ("swept-3", "done")]))
        done = self.ask("retry", "a", "--failed", "swept", check=False)
        self.assertEqual((done.returncode, "has failed" in done.stderr), (1, True), done.stderr)
        done = self.ask("retry", "a", "--failed", "nobody", check=False)
        self.assertEqual((done.returncode, "there is no job" in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
