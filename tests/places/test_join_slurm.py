"""Peers that find each other by the environment of a job of Slurm's (`--join slurm`), without Slurm: what it sets for
each task is set here. With a real one they run in test_slurm.py."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import world

sys.path.insert(0, str(world.HERE.parent / "lab"))
import tap  # noqa: E402

BINARY = str(world.BINARY)
JOB = ("synthetic", "--shards", "16", "--shard-ms", "2", "--state-bytes", "64k")
LIMIT_S = 300


def port_of(job):
    return 20000 + 8 * (job % 1596)


def free_job():
    """The id of a job whose ports nobody uses."""
    for job in range(os.getpid() % 100000 + 1, 10**6):
        try:
            for local in range(2):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    with socket.socket(socket.AF_INET, kind) as probe:
                        probe.bind(("127.0.0.1", port_of(job) + local))
        except OSError:
            continue
        return job
    raise AssertionError("no ports are free")


class Flock(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.job = free_job()

    def start(self, task, tasks, *options, **more):
        """Starts a task of a job on one node, in the folder of the test."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "GODWIT_", "CUDA_VISIBLE"))}
        slurm = {
            "SLURM_JOB_ID": self.job, "SLURM_JOB_NODELIST": "n7", "SLURM_STEP_ID": 0, "SLURM_STEP_NODELIST": "n7",
            "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_STEP_NUM_TASKS": tasks, "SLURM_PROCID": task,
            "SLURM_LOCALID": task, "SLURM_NODEID": 0, "SLURMD_NODENAME": "n7", "SLURM_CPUS_PER_TASK": 1, **more,
        }  # fmt: skip
        process = subprocess.Popen(
            [BINARY, "run", *JOB, "--join", "slurm", *options], cwd=self.folder, text=True,
            env={**clean, **{k: str(v) for k, v in slurm.items()}}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def read(self, process, pattern):
        """Reads the peer's lines up to one with that pattern. Returns all of them."""
        text = ""
        for line in process.stdout:
            text += line
            if re.search(pattern, line):
                return text
        raise AssertionError(f"no {pattern} in {text}")

    def end(self, process):
        text = process.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(process.returncode, 0, text)
        return text

    def test_two_tasks_meet_and_end_with_the_bytes_of_one(self):
        tasks = [self.start(task, 2, "--steps", "30") for task in range(2)]
        texts = [self.end(task) for task in tasks]
        states = {re.search(r"state=([0-9a-f]{64})", text)[1] for text in texts}
        alone = subprocess.run(
            [BINARY, "run", *JOB, "--steps", "30", "--dir", "alone", "--listen", "127.0.0.1:0"], cwd=self.folder,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.assertEqual(states, {re.search(r"state=([0-9a-f]{64})", alone.stdout)[1]})
        for task, text in enumerate(texts):
            self.assertRegex(text, r"view 1: 2 peers")
            self.assertIn(f"listening on 127.0.0.1:{port_of(self.job) + task}\n", text)
            self.assertRegex(text, rf"peer n7\.{task} \([0-9a-f]+\), 1 worker\b")
            self.assertTrue(os.path.exists(os.path.join(self.folder, "godwit-data", str(task), "identity")))

    def test_a_task_alone_is_told_when_srun_has_not_started_it_and_computes(self):
        text = self.end(self.start(0, 1, "--steps", "3", SLURM_STEP_ID="", SLURM_NTASKS=4))
        self.assertIn("srun has not started it", text)
        self.assertIn("godwit: done", text)

    def test_the_signals_of_a_time_limit_save_the_state_and_the_requeued_job_goes_on(self):
        """First what --signal asks for; then SIGTERM, twice, as at the limit or when a job is preempted."""
        tasks = [self.start(task, 2) for task in range(2)]
        for task in tasks:
            self.read(task, r"step [1-9]")
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM):
            for task in tasks:
                task.send_signal(number)
        # One of them may leave before the other, which then saves what both have computed.
        saved = max(int(step) for task in tasks for step in re.findall(r"godwit: left .* saved=(\d+)", self.end(task)))
        tasks = [self.start(task, 2, SLURM_RESTART_COUNT=1) for task in range(2)]
        for task in tasks:
            text = self.read(task, rf"resum.* {saved}\b")
            self.assertIn(", requeued", text)
        for task in tasks:
            self.read(task, r"step \d")
            task.send_signal(signal.SIGTERM)
        for task in tasks:
            self.end(task)


if __name__ == "__main__":
    tap.main(lambda: None, "join_slurm")
