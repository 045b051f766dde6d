"""The kinds of jobs that are submitted to a standing flock under chaos (queue_chaos.py). A kind is a class:

- options(): what is given to `godwit submit`; a number tells apart the jobs of a run; or submit(member), for another command;
- wrong(job): why its outcome is not that of a quiet run, or None; `job` is what `godwit info --json` tells when all is over.

A new kind is a class here, and its name in KINDS.
"""

import contextlib
import os
import re
import subprocess
import time

from flock import Trouble

PATIENCE_S = 120

STEPS = ["synthetic", "--state-bytes", "16k", "--sum-elements", "64", "--workers", "1", "--shards", "12"]


class Job:
    """One job that was submitted. Its files are in the run's folder of effects."""

    weight = 1.0  # how often the kind is chosen, relative to others
    state = "done"  # in which it ends

    def __init__(self, run, number):
        self.run, self.number = run, number
        self.name = f"{self.kind()}-{number}"
        self.effects = os.path.join(run.effects, self.name)
        self.id = None  # when it was submitted
        self.hurt = 0  # how many of its processes were killed

    @classmethod
    def kind(cls):
        return cls.__name__.lower()

    def options(self):
        raise NotImplementedError

    def submit(self, member):
        """Hands it to a member, and returns its id when it is acknowledged; Trouble if it may not have been taken."""
        return member.submit("--name", self.name, *self.options(), seconds=5)

    def was_submitted(self):
        """Called when it was acknowledged."""

    def close(self):
        """Ends what belongs to it here."""

    def tell(self, command):
        """Gives some member a command about it, until one has taken it."""
        def try_once():
            if self.run.ask(command, self.id) is None:
                self.run.later(0.5, try_once)
        self.run.later(self.run.rng.uniform(0.2, 5), try_once)

    def lives(self):
        """The lines that it has written, one each time that it ran to the end."""
        if not os.path.exists(self.effects):
            return []
        with open(self.effects) as file:
            return file.read().split()

    def script(self, end):
        """A command that takes some seconds, has its effect once, and ends as `end` says."""
        pause = self.run.rng.choice(["0.1", "0.5", "1", "3"])
        return ["--", "sh", "-c", f"echo begin; sleep {pause}; echo effect >> {self.effects}; echo end; {end}"]

    def wrong(self, job):
        if job["state"] != self.state:
            return f"it is {job['state']}, not {self.state}"
        if not self.lives():
            return "it has no effect"
        if self.state == "done" and len(job["ends"]) != 1:
            return f"{len(job['ends'])} ends were recorded"
        return None


class Command(Job):
    """A command that has its effect and says what it did."""

    weight = 3.0

    def options(self):
        return self.script("exit 0")

    def wrong(self, job):
        if why := super().wrong(job):
            return why
        said = self.run.asked().logs(self.id)
        # Lives that were cut short in the same place have begun before.
        return None if re.fullmatch(r"(begin\n)*begin\nend\n", said) else f"its output is {said!r}"


class Failing(Job):
    """It fails each time."""

    state = "failed"

    def options(self):
        return ["--retries", "1", *self.script("exit 3")]

    def wrong(self, job):
        codes = [one["code"] for one in job["rounds"]]
        return super().wrong(job) or (None if codes == [3, 3] else f"its rounds ended with {codes}")


class Mended(Job):
    """It fails the first time."""

    def options(self):
        return ["--retries", "3", *self.script("[ $GODWIT_ATTEMPT != 0 ]")]

    def wrong(self, job):
        codes = [one["code"] for one in job["rounds"]]
        return super().wrong(job) or (None if codes == [1] else f"its rounds ended with {codes}")


class Parents(Job):
    """A command with processes of its own, in sessions of their own, which it leaves behind."""

    def options(self):
        return self.script("setsid sh -c 'trap \"\" TERM; sleep 600' & sleep 0.2")


class Steps(Job):
    """A job of steps, on as many nodes as there are."""

    weight = 2.0

    def steps(self):
        return [*STEPS, "--steps", "12", "--seed", str(self.number % 4)]

    def options(self):
        return ["--nodes", f"1..{len(self.run.flock.list)}", *self.steps(), "--shard-ms", "30",
                "--checkpoint-every", "2", "--probe-interval-ms", "100"]

    def wrong(self, job):
        if job["state"] != "done":
            return f"it is {job['state']}, not done"
        hashes = {end["hash"] for end in job["ends"]}
        expected = self.run.alone(self.steps())
        return None if hashes == {expected} else f"its result is {', '.join(sorted(hashes))}, not {expected}"


class After(Job):
    """A command behind the job that was submitted last."""

    def options(self):
        self.first = self.run.rng.choice([job for job in self.run.jobs if job.id and job.state == "done"] or [None])
        return [*(["--after", self.first.id] if self.first else []), *self.script("exit 0")]


class Cancelled(Job):
    """A command that would go on for ever, and is cancelled somewhere."""

    state = "cancelled"

    def options(self):
        return ["--", "sh", "-c", f"echo effect >> {self.effects}; sleep 86400"]

    def was_submitted(self):
        self.tell("cancel")

    def wrong(self, job):
        return None if job["state"] == self.state else f"it is {job['state']}, not {self.state}"


class Held(Job):
    """A command that waits until it is released somewhere."""

    def options(self):
        return ["--hold", *self.script("exit 0")]

    def was_submitted(self):
        self.tell("release")


class Map(Job):
    """A command for each of many inputs, with `godwit map` in front."""

    front = None

    def submit(self, member):
        self.member = member
        inputs = [str(number) for number in range(self.run.options.tasks)]
        with open(self.effects + ".out", "wb") as out, open(self.effects + ".err", "wb") as err:
            words = ["--name", self.name, "-k", "sleep 0.05; echo {} >> " + self.effects + "; echo out {}", ":::", *inputs]
            self.front = member.launch("map", "--flock", member.directory, *words, stdout=out, stderr=err)
        ends = time.monotonic() + 5
        while (left := ends - time.monotonic()) > 0:
            with contextlib.suppress(Trouble, subprocess.TimeoutExpired):
                for id, job in member.jobs(seconds=left).items():
                    if job.get("name") == self.name:
                        return id
            time.sleep(0.1)
        self.close()
        raise Trouble(f"{member.name} does not take {self.name}")

    def close(self):
        if self.front is not None and self.front.poll() is None:
            self.front.kill()
            self.front.wait()

    def wrong(self, job):
        if job["state"] != "done":
            return f"it is {job['state']}, not done"
        try:
            code = self.front.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return "its front does not end"
        with open(self.effects + ".out") as out, open(self.effects + ".err") as err:
            said, errors = out.read(), err.read()
        expected = [f"out {number}" for number in range(self.run.options.tasks)]
        if code != 0 or said != "".join(f"{line}\n" for line in expected):
            lines = said.splitlines()
            lacking = sorted(set(expected) - set(lines), key=expected.index)
            return (f"its front ended with {code} and {len(lines)} lines, without {', '.join(lacking[:9]) or 'lack'}: "
                    f"{errors[-300:]}")
        missing = {str(number) for number in range(self.run.options.tasks)} - set(self.lives())
        return f"{len(missing)} tasks have no effect" if missing else None


KINDS = [Command, Failing, Mended, Parents, Steps, After, Cancelled, Held, Map]


def result_alone(binary, steps, folder):
    """The hash of a job of steps on one peer that nobody disturbs."""
    done = subprocess.run([binary, "run", *steps, "--shard-ms", "0", "--dir", folder, "--listen", "127.0.0.1:0", "--quiet"],
                          capture_output=True, text=True, check=True, timeout=300)
    return re.search(r"state=([0-9a-f]{64})", done.stdout + done.stderr).group(1)
