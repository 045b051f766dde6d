"""Checkpoints of a flock's jobs of steps that go to other nodes: a job that is drained from its node, or whose node dies,
goes on on nodes that never ran it, and ends with the bytes of an undisturbed run."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import flock_members  # noqa: E402
import tap  # noqa: E402

JOB = ["synthetic", "--steps", "300", "--shards", "2", "--shard-ms", "10", "--state-bytes", "9m", "--sum-elements", "64",
       "--checkpoint-every", "20"]


class Checkpoints(flock_members.Flock):
    def undisturbed(self):
        """The state of the job after a run on one peer."""
        done = subprocess.run([flock_members.GODWIT, "run", *JOB, "--shard-ms", "0", "--dir", self.path("alone"),
                               "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=flock_members.PATIENCE)
        return re.search("state=([0-9a-f]{64})", done.stdout + done.stderr).group(1)

    def saved(self, name, id):
        """The newest step of which a member has a checkpoint of a job."""
        names = glob.glob(self.path(name, "jobs", id, "state", "manifests", "*.manifest"))
        return max((int(os.path.basename(path).split("-")[0]) for path in names), default=0)

    def runner(self, name, id):
        nodes = [node["name"] for node in self.job(name, id)["nodes"] if node["state"] == "running"]
        return nodes[0] if nodes else None

    def test_a_job_that_is_drained_goes_on_elsewhere(self):
        self.start("a", "b", "c")
        id = self.submit("a", *JOB)
        self.wait_until(lambda: self.runner("a", id), "the job does not start")
        first = self.runner("a", id)
        asked = next(name for name in self.members if name != first)
        self.wait_until(lambda: self.saved(first, id) >= 40, "the job makes no checkpoints")
        self.ask("drain", asked, first)
        self.wait_until(lambda: self.runner(asked, id) not in (None, first), "the job does not go on")
        second = self.runner(asked, id)
        left = self.saved(first, id)
        self.assertGreaterEqual(self.saved(second, id), left)
        self.kill(first)  # nothing comes from there any more
        job = self.wait_for(asked, id)
        self.assertEqual(job["state"], "done", self.logs())
        self.assertEqual(job["ends"][0]["hash"], self.undisturbed())
        with open(self.path(second + ".log")) as file:
            self.assertRegex(file.read(), f"goes on here from the checkpoint of step {left}")

    def test_a_job_whose_only_node_is_lost_goes_on_elsewhere(self):
        self.start("a", "b", "c")
        id = self.submit("a", *JOB)
        self.wait_until(lambda: self.runner("a", id), "the job does not start")
        first = self.runner("a", id)
        others = [name for name in self.members if name != first]
        self.wait_until(lambda: any(self.saved(name, id) for name in others), "no other node has a checkpoint")
        keeper = next(name for name in others if self.saved(name, id))
        with open(self.path(first, "jobs", id, "child.lock")) as file:
            keeping = int(file.read())
        self.kill(first)
        os.kill(keeping, signal.SIGKILL)  # the kernel ends its child
        shutil.rmtree(self.path(first))
        job = self.wait_for(others[0], id)
        self.assertEqual(job["state"], "done", self.logs())
        self.assertEqual(job["ends"][0]["hash"], self.undisturbed())
        said = "".join(open(self.path(name + ".log")).read() for name in others)
        self.assertRegex(said, "goes on here from the checkpoint of step [1-9]")
        self.assertGreater(self.saved(keeper, id), 0)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
