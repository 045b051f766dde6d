"""Flocks under a real Slurm: a controller and three nodes in network namespaces of this machine, each with a slurmd of its
own. A node fails under a job, a job is requeued, one leaves at its time limit, one grows by a second one.

It needs Debian's slurm-wlm and munge, and root."""

import os
import random
import re
import sys
import time
import unittest

import hosts
import world
from hosts import run

sys.path.insert(0, str(world.HERE.parent / "lab"))
import tap  # noqa: E402

BINARY = world.BINARY
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
NODES = 3
LIMIT_S = 300
JOB = "synthetic --shards 24 --shard-ms 20 --state-bytes 256k --checkpoint-every 10"
STEPS = 150
CONFIGURATION = """
ClusterName=godwit
SlurmctldHost=control(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=300
KillWait=60
SwitchType=switch/none
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=node[1-{nodes}] NodeAddr=10.77.0.[1-{nodes}] CPUs=4 RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# As tools/places.md has it.
SCRIPT = """#!/bin/bash
#SBATCH --cpus-per-task=2 --no-kill --requeue --open-mode=append
at_limit() {{
    {binary} stop --dir {folder}/%j/0
    scontrol requeue "$SLURM_JOB_ID"
}}
trap at_limit USR1
srun --no-kill --kill-on-bad-exit=0 {binary} run {job} --key {folder}/key --dir {folder}/%j/%t {options} &
wait
"""


def read(path):
    with open(path) as file:
        return file.read()


def until(what, look):
    """Looks again and again until there is something to see, and returns that."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {LIMIT_S} s: {what() if callable(what) else what}")


class Cluster:
    """A controller on this host, and nodes that have the same files."""

    def __init__(self):
        self.hosts = hosts.Hosts("node", NODES, "10.77.0", "control")
        self.folder = self.hosts.folder
        self.environment = {**hosts.CLEAN, "SLURM_CONF": f"{self.folder}/slurm.conf"}
        self.daemons = []  # of the controller

    def start(self, host, name, *command):
        with open(f"{self.folder}/{name}.log", "a") as log:
            process = self.hosts.start(host, *command, stdout=log, stderr=log, env=self.environment)
        if host == 0:
            self.daemons.append(process)

    def start_node(self, node):
        self.start(node, f"slurmd{node}", "slurmd", "-D", "-N", f"node{node}", "-f", f"{self.folder}/slurm.conf")

    def command(self, *command, check=True):
        """Runs one of Slurm's commands on the controller."""
        return run(*self.hosts.within(0, *command), check=check, env=self.environment)

    def open(self):
        self.hosts.enter()
        at = f"{self.folder}/run/"
        for name in ("run", "state", *(f"spool.node{i}" for i in range(1, NODES + 1))):
            os.makedirs(f"{self.folder}/{name}")
        with open(f"{self.folder}/slurm.conf", "w") as file:
            file.write(CONFIGURATION.format(folder=self.folder, nodes=NODES))
        with open(f"{self.folder}/munge.key", "wb") as file:
            os.fchmod(file.fileno(), 0o400)
            file.write(os.urandom(64))
        run(BINARY, "keygen", f"{self.folder}/key")
        self.start(
            0, "munged", "munged", "--force", "--foreground", f"--socket={at}munge.socket",
            f"--key-file={self.folder}/munge.key", f"--pid-file={at}munged.pid", f"--seed-file={at}seed",
        )  # fmt: skip
        until("munged", lambda: os.path.exists(f"{at}munge.socket"))
        self.start(0, "slurmctld", "slurmctld", "-D", "-f", f"{self.folder}/slurm.conf")
        for node in range(1, NODES + 1):
            self.start_node(node)
        until(self.logs, lambda: self.idle() == NODES)

    def logs(self):
        names = ("munged", "slurmctld", *(f"slurmd{node}" for node in range(1, NODES + 1)))
        return "".join(read(f"{self.folder}/{name}.log")[-3000:] for name in names)

    def idle(self):
        return self.command("sinfo", "--noheader", "--Node", "--format=%T", check=False).split().count("idle")

    def mend_node(self, node):
        self.hosts.mend(node)
        self.start_node(node)

    def close(self):
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        self.hosts.close()


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.open()
        alone = run(
            BINARY, "run", *JOB.split(), "--steps", str(STEPS), "--dir", f"{cls.cluster.folder}/alone", "--workers", "24",
            "--listen", "127.0.0.1:0", "--quiet", env=hosts.CLEAN,
        )  # fmt: skip
        cls.state = re.search(r"state=([0-9a-f]{64})", alone)[1]

    def submit(self, *sbatch, options="--join slurm", steps=STEPS):
        """Submits a job; returns its id."""
        folder = self.cluster.folder
        script = f"{folder}/script"
        with open(script, "w") as file:
            job = f"{JOB} --steps {steps}"
            file.write(SCRIPT.format(binary=BINARY, folder=folder, job=job, options=options).replace("%j/0", "$SLURM_JOB_ID/0"))
        said = self.cluster.command("sbatch", f"--output={folder}/%j.out", f"--chdir={folder}", *sbatch, script)
        job = re.search(r"Submitted batch job (\d+)", said)[1]
        self.addCleanup(self.cluster.command, "scancel", "--quiet", job, check=False)
        return job

    def output(self, job):
        path = f"{self.cluster.folder}/{job}.out"
        return read(path) if os.path.exists(path) else ""

    def says(self, job, pattern):
        return until(lambda: f"'{pattern}' in {self.output(job)}", lambda: re.search(pattern, self.output(job), re.MULTILINE))

    def told(self, job, name):
        """What `scontrol show job` tells."""
        found = re.search(rf"\b{name}=(\S+)", self.cluster.command("scontrol", "show", "job", job))
        return found[1] if found else None

    def ends(self, job, peers):
        """Waits for the end of the job, with the bytes of an undisturbed peer on so many."""
        until(lambda: self.output(job), lambda: self.told(job, "JobState") in ("COMPLETED", "FAILED", "NODE_FAIL"))
        done = re.findall(r"^godwit: done .* state=([0-9a-f]{64})", self.output(job), re.MULTILINE)
        self.assertEqual(done, [self.state] * peers, self.output(job))

    def test_the_tasks_of_a_job_are_one_flock(self):
        job = self.submit("--nodes=3", "--ntasks-per-node=2")
        self.says(job, r"view \d+: 6 peers")
        self.ends(job, 6)
        text = self.output(job)
        for node in (1, 2, 3):
            for local in (0, 1):
                self.assertRegex(text, rf"peer node{node}\.{local} \([0-9a-f]+\), 2 workers")
                self.assertIn(f"others reach this peer at 10.77.0.{node}:{20000 + 8 * (int(job) % 1596) + local}\n", text)
        self.assertEqual(self.told(job, "ExitCode"), "0:0")

    def test_the_flock_goes_on_when_a_node_fails(self):
        job = self.submit("--nodes=3")
        self.says(job, r"checkpoint of step \d+ complete")
        self.cluster.hosts.fail(2)
        self.addCleanup(until, "node 2 is back", lambda: self.cluster.idle() == NODES)
        self.addCleanup(self.cluster.mend_node, 2)
        self.says(job, r"view \d+: 2 peers")
        self.cluster.command("scontrol", "update", "nodename=node2", "state=down", "reason=it has failed")
        self.assertEqual(self.told(job, "JobState"), "RUNNING")
        self.ends(job, 2)
        self.assertEqual(self.told(job, "Restarts"), "0")

    def test_a_requeued_job_goes_on_from_its_checkpoint(self):
        job = self.submit("--nodes=2")
        self.says(job, r"checkpoint of step \d+ complete")
        self.cluster.command("scontrol", "requeue", job)
        self.says(job, r"^godwit: left ")
        self.says(job, r"job \d+ of Slurm, requeued: task 0 of 2")
        self.says(job, r"resum.*step [1-9]")
        self.ends(job, 2)
        self.assertEqual(self.told(job, "Restarts"), "1")

    def test_the_signal_before_the_limit_stops_the_job_which_requeues_itself(self):
        job = self.submit("--nodes=2")
        self.says(job, r"checkpoint of step \d+ complete")
        self.cluster.command("scancel", "--batch", "--signal=USR1", job)
        self.says(job, r"^godwit: stopped ")
        saved = re.search(r"^godwit: stopped .* steps=(\d+)", self.output(job), re.MULTILINE)[1]
        self.says(job, rf"resum.* {saved}\b")
        self.ends(job, 2)
        self.assertEqual(self.told(job, "Restarts"), "1")

    def test_the_signal_before_the_limit_reaches_the_peers_themselves(self):
        job = self.submit("--nodes=2", "--time=1", "--signal=USR1@55", steps=10**6)
        self.says(job, r"User defined signal 1: this peer leaves")
        until(lambda: self.output(job), lambda: self.told(job, "JobState") == "COMPLETED")
        self.assertEqual(len(re.findall(r"^godwit: left ", self.output(job), re.MULTILINE)), 2)
        self.assertRegex(self.output(job), r"(?m)^godwit: left .* saved=[1-9]")

    def test_a_second_job_joins_the_first_and_leaves_it(self):
        first = self.submit("--nodes=1")
        self.says(first, r"checkpoint of step \d+ complete")
        second = self.submit("--nodes=2", options=f"--join slurm:{first}")
        self.says(first, r"view \d+: 3 peers")
        self.cluster.command("scancel", second)
        self.says(second, r"^godwit: left ")
        self.says(first, r"view \d+: 1 peer,")
        self.ends(first, 1)

    def test_lists_of_hosts_are_those_of_slurm(self):
        """`godwit launch` writes out a list as `scontrol show hostnames` does."""
        dice, texts = random.Random(20), []
        for _ in range(60):
            parts = []
            for _ in range(dice.randint(1, 3)):
                part = "h" + dice.choice("abc")
                for bracket in range(dice.randint(0, 2)):  # Slurm has nothing behind the last one
                    ranges = []
                    for _ in range(dice.randint(1, 3)):
                        first, width = dice.randint(0, 120), dice.randint(1, 4)
                        ranges.append(f"{first:0{width}}" + dice.choice(("", f"-{first + dice.randint(0, 3):0{width}}")))
                    part += ("x" if bracket else "") + f"[{','.join(ranges)}]"
                parts.append(part)
            texts.append(",".join(parts))
        loop = 'for list; do scontrol show hostnames "$list"; echo; done'
        shown = self.cluster.command("sh", "-c", loop, "sh", *texts).split("\n\n")
        for text, theirs in zip(texts, shown):
            ours = run(BINARY, "launch", "--hosts", text, "--dry-run", "--", "status")
            self.assertEqual([line.partition(":")[0] for line in ours.splitlines()], theirs.split(), text)

    def test_what_cannot_be_joined_is_refused(self):
        job = self.submit("--nodes=1", options="--join slurm:4000000")
        self.says(job, r"--join slurm:4000000 .*Invalid job id")
        self.says(job, r"srun: error: .*[Ee]xit")


if __name__ == "__main__":
    tap.main(lambda: hosts.missing(*PROGRAMS), "Slurm (Debian: slurm-wlm, munge)")
