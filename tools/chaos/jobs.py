"""The jobs that run under chaos. They never end by themselves. Their steps take some tenths of a second on two cores,
so that faults hit the middle of a step.
"""

import dataclasses
import hashlib
import json
import os
import subprocess

# With shards of this length a step takes four peers 0.9 s: its costs beside the shards are small, and so is the half step
# that a death costs.
SHARDS, SHARD_MS = 72, 50
# The state fits a processor's cache, so that the time in which four peers update it is not what is measured.
SYNTHETIC = ["synthetic", "--state-bytes", "256k", "--sum-elements", "1024"]
AT_ONCE = ["--shard-ms", "0"]  # the same bytes, sooner
MODEL = ["--layers", "2", "--heads", "4", "--channels", "64", "--context", "64", "--batch-tokens", "6144"]
ALL_RUNS = [
    *["--workers", "1"],
    *["--probe-interval-ms", "30"],  # a silent peer is found within 0.4 s
]


@dataclasses.dataclass
class Job:
    options: list  # of `godwit run`
    often: str  # --checkpoint-every: at most three seconds, the time that a power loss costs
    measured: str
    step_s: float = None  # how long the shards of a step sleep in all, if they do nothing else
    quick: tuple = ()  # options with which it computes the same bytes sooner
    exported: bool = False  # whether its model is compared as well
    has_workers: bool = False  # whether processes of their own compute its shards


def data(*path):
    """The path of that name in GODWIT_TEST_DATA; LookupError if there is none."""
    found = os.path.join(os.environ.get("GODWIT_TEST_DATA", ""), *path)
    if not os.path.isabs(found) or not os.path.exists(found):
        raise LookupError(f"GODWIT_TEST_DATA names no folder with {os.path.join(*path)} in it")
    return found


def sleeping(shard_ms=SHARD_MS):
    options = [*SYNTHETIC, "--shards", str(SHARDS), "--shard-ms", str(shard_ms)]
    measured = f"{SHARDS} shards a step that sleep {shard_ms} ms: what the flock makes of time, not of processors"
    return Job(options, "1", measured, SHARDS * shard_ms / 1000, AT_ONCE)


def busy(shard_ms=10):
    options = [*SYNTHETIC, "--spin", "--shards", "24", "--shard-ms", str(shard_ms)]
    return Job(options, "3s", f"shards that burn {shard_ms} ms of a processor, which peers share", quick=AT_ONCE)


def digits():
    options = ["digits", "--data", data("mnist"), "--hidden", "256", "--batch", "3840", "--epochs", "100000"]
    return Job(options, "3s", "a real job, which computes on processors that peers share")


def gpt():
    options = ["gpt", "--data", data("text", "shakespeare.txt"), *MODEL, "--updates", "1000000"]
    return Job(options, "3s", "a real job, which computes on processors that peers share", exported=True)


def program():
    binary = os.path.abspath(os.path.join("build", "logistic"))
    if not os.path.exists(binary):
        raise LookupError(f"{binary} is not there (ninja chaos builds it)")
    options = ["program", "--program", binary, "--args", "0 60000"]
    measured = "shards that worker processes compute, on processors that peers share"
    return Job(options, "3s", measured, has_workers=True)


JOBS = {"synthetic": sleeping, "busy": busy, "digits": digits, "gpt": gpt, "program": program}
OF_SHARDS = ("synthetic", "busy")  # those whose shards have a length that can be chosen


def endless(job, peers, majority=False, verify="off"):
    """The options of a flock's peers."""
    quorum = "majority" if majority else "any"
    more = ["--steps", "100000000", "--checkpoint-every", job.often, "--quorum", quorum, "--verify", verify]
    return [*job.options, *more, *ALL_RUNS, "--peers", str(peers)]


def model_hash(binary, folders, within):
    """The hash of the model that `godwit export` makes of these directories of peers. It leaves out the job's id, which
    depends on the number of steps that the job is to have."""
    to = os.path.join(within, "model.safetensors")
    subprocess.run([binary, "export", *folders, "--to", to, "--force"], check=True, stdout=subprocess.DEVNULL)
    with open(to, "rb") as model, open(os.path.join(within, "config.json")) as file:
        config = json.load(file)
        del config["godwit"]["job_id"]
        return hashlib.sha256(model.read() + json.dumps(config).encode()).hexdigest()
