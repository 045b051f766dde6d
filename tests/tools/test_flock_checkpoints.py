"""Checkpoints of a flock's jobs of steps that go to other nodes: a job that is drained from its node, or whose node is lost,
goes on on nodes that never ran it, and ends with the bytes of an undisturbed run; so does one that is tried again."""

import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_flock import GODWIT, PATIENCE, Case, folder_for, send, tap  # noqa: E402

JOB = ["synthetic", "--steps", "300", "--shards", "2", "--shard-ms", "10", "--state-bytes", "9m", "--sum-elements", "64",
       "--workers", "1", "--checkpoint-every", "20"]


def saved(member, job):
    """The newest step of which a member has a checkpoint of a job."""
    folder = os.path.join(member.directory, "jobs", job, "state", "manifests")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return max((int(name.split("-")[0]) for name in names if name.endswith(".manifest")), default=0)


def said(members):
    text = ""
    for member in members:
        with open(member.errors) as file:
            text += file.read()
        text += "".join(line or "" for line in member.lines)
    return text


class Checkpoints(Case):
    @classmethod
    def setUpClass(cls):
        """The state of the job after a run on one peer that nobody disturbs."""
        done = subprocess.run([GODWIT, "run", *JOB, "--shard-ms", "0", "--dir", os.path.join(folder_for(cls), "alone"),
                               "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE)
        cls.undisturbed = re.search("state=([0-9a-f]{64})", done.stdout + done.stderr).group(1)

    def expect_same_bytes(self, member, job):
        member.wait(job)
        [end] = member.job(job)["ends"]
        self.assertEqual((end["kind"], end["hash"]), ("done", self.undisturbed))

    def test_a_job_that_is_drained_goes_on_elsewhere(self):
        flock = self.flock(3)
        job = flock[0].submit(*JOB)
        first = self.runs_on(flock, job)
        others = [member for member in flock if member is not first]
        self.until("checkpoints are made", lambda: saved(first, job) >= 40)
        others[0].do("drain", first.name)
        self.until("it leaves", lambda: not first.keepers())
        left = saved(first, job)
        second = self.runs_on(flock, job)
        self.assertIsNot(second, first)
        self.assertGreaterEqual(saved(second, job), left)
        first.lose_power()  # nothing comes from there any more
        self.expect_same_bytes(others[0], job)
        self.assertRegex(said([second]), f"goes on here from the checkpoint of step {left}")

    def test_a_job_whose_only_node_is_lost_goes_on_elsewhere(self):
        flock = self.flock(3)
        job = flock[0].submit(*JOB)
        first = self.runs_on(flock, job)
        others = [member for member in flock if member is not first]
        self.until("another node has a checkpoint", lambda: any(saved(member, job) for member in others))
        first.lose_power()
        shutil.rmtree(first.directory)
        self.expect_same_bytes(others[0], job)
        self.assertRegex(said(others), "goes on here from the checkpoint of step [1-9]")

    def test_a_job_of_two_nodes_goes_on_elsewhere_when_both_are_drained(self):
        flock = self.flock(4)
        job = flock[0].submit("--nodes", "2", *JOB)
        running = lambda: [node["name"] for node in flock[0].job(job)["nodes"] if node["state"] == "running"]  # noqa: E731
        self.until("two nodes run it", lambda: len(running()) == 2)
        first = [member for member in flock if member.name in running()]
        self.until("checkpoints are made", lambda: min(saved(member, job) for member in first) >= 40)
        flock[0].do("drain", *(member.name for member in first))
        self.until("the others run it", lambda: len(running()) == 2 and not set(running()) & {one.name for one in first})
        self.expect_same_bytes(flock[0], job)
        for member in flock:  # the others have it from a checkpoint, if they did not get it from the first ones
            if member not in first:
                self.assertRegex(said([member]), "goes on here from the checkpoint of step [1-9]")

    def test_a_job_does_not_begin_anew_while_the_nodes_with_its_checkpoint_are_away(self):
        flock = self.flock(3)
        job = flock[0].submit("--nodes", "1..2", *JOB)
        nodes = lambda: {node["name"] for node in flock[0].job(job)["nodes"] if node["state"] == "running"}  # noqa: E731
        self.until("two nodes run it", lambda: len(nodes()) == 2)
        first = [member for member in flock if member.name in nodes()]
        [other] = [member for member in flock if member not in first]
        self.until("all know of a checkpoint", lambda: other.job(job).get("saved", 0) > 0)
        least = other.job(job)["saved"]
        send(set().union(*(member.all_processes() for member in first)), signal.SIGSTOP)  # both at once
        for member in first:
            member.lose_power()
        self.until("it is not begun", lambda: re.search("is on nodes that are not here", said([other])))
        self.assertFalse(other.keepers())
        first[0].start([other])
        self.expect_same_bytes(other, job)
        step = re.search("goes on here from the checkpoint of step ([0-9]+)", said([other, first[0]])).group(1)
        self.assertGreaterEqual(int(step), least)

    def test_a_job_that_is_tried_again_goes_on_from_the_checkpoints_of_the_old_one(self):
        flock = self.flock(2)
        old = flock[0].submit(*JOB)
        first = self.runs_on(flock, old)
        self.until("checkpoints are made", lambda: saved(first, old) >= 40)
        done = flock[0].run("retry", old)
        self.assertEqual((done.returncode, "is not over" in done.stderr), (2, True), done.stderr)
        flock[0].do("cancel", old)
        self.until("it ends", lambda: not first.keepers())
        flock[1].do("retry", "--wait", old)
        [new] = [job for job in flock[1].jobs().values() if job.get("tries_again") == old]
        self.assertEqual((new["state"], new["name"]), ("done", "synthetic-1"))
        self.expect_same_bytes(flock[1], new["id"])
        self.assertRegex(said(flock), "goes on here from the checkpoint of step [1-9]")
        done = flock[0].run("retry", new["id"])
        self.assertEqual((done.returncode, "is done" in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
