"""Chaos with a queue: jobs are submitted to a standing flock while its members, keepers and children are killed, stopped,
cut off, replaced and drained. In the end all is well again, and then

- every job that was acknowledged is over as in a quiet run: commands had their effect at least once and were recorded once,
  jobs of steps have the bytes of one undisturbed peer;
- all members know the same of all jobs;
- no process is left but the members, and none of them has ended by itself.

With namespaces (as root) every member has a machine's network of its own, which can be cut; with --here they are on
loopback.
"""

import argparse
import collections
import contextlib
import heapq
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab"))
import places  # noqa: E402
import queue_faults  # noqa: E402
import queue_jobs  # noqa: E402
import queue_why  # noqa: E402
from flock import HERE, Trouble, end_on_signals  # noqa: E402
from members import Members, until  # noqa: E402

PATIENCE_S = 300
OVER = {"done", "failed", "cancelled", "stopped"}
TURN_S = 0.05
OPTIONS = ["--cores", "6", "--grace", "5s", "--gate", "20s", "--takeover", "10s"]


class Run:
    def __init__(self, flock, folder, options):
        self.flock, self.folder, self.options = flock, folder, options
        self.rng = random.Random(options.seed)
        self.effects = os.path.join(folder, "effects")
        os.mkdir(self.effects)
        self.jobs, self.lasting = [], []
        self.due = []  # a heap of (when, number, what is done then)
        self.numbers = self.submitted = 0
        self.counts = collections.Counter()
        self.cuts = collections.Counter()  # (from, to) -> how many faults cut that way
        self.results = {}  # of jobs of steps on one peer
        self.reports = []  # on jobs whose outcome is wrong
        self.binaries = 0
        self.began = time.monotonic()
        self.say(f"it is {time.strftime('%H:%M:%S', time.gmtime())} UTC")  # as members' lines have it
        self.kinds = [kind for kind in queue_faults.KINDS
                      if (not kind.needs_network or flock[0].home is not HERE)
                      and (kind.name() in options.kinds if options.kinds else not kind.must_be_named)]

    # --- what faults and jobs ask ---

    def say(self, text):
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def hurt(self):
        return {fault.member for fault in self.lasting}

    def free(self):
        return [member for member in self.flock.running() if member not in self.hurt()]

    def others(self, member):
        return [other for other in self.flock if other is not member and other.address]

    def differing(self):
        """The ids of jobs of which not all members know that the same has become; what runs now they tell each other a
        moment later."""
        known = [{id: (job["state"] in OVER and job["state"], job["rounds"], job["ends"], job["priority"])
                  for id, job in member.jobs().items()} for member in self.flock]
        return {id for one in known for id in one if any(other.get(id) != one[id] for other in known)}

    def all_know_the_same(self):
        return not self.differing()

    def asked(self):
        """A member that answers."""
        return next(member for member in self.flock.running() if member not in self.hurt())

    def ask(self, *command):
        """Gives a member a command; returns what it has said, or None where it could not."""
        with contextlib.suppress(Trouble, subprocess.TimeoutExpired):
            return self.rng.choice(self.free()).do(*command, seconds=5)
        return None

    def name_of(self, id):
        return next((job.name for job in self.jobs if job.id == id), id[:8])

    def cut(self, way, on):
        before = self.cuts[way]
        self.cuts[way] += 1 if on else -1
        if (before > 0) != (self.cuts[way] > 0):
            way[0].home.deafen(way[1].home, on)

    def alone(self, steps):
        key = tuple(steps)
        if key not in self.results:
            folder = os.path.join(self.folder, f"alone{len(self.results)}")
            self.results[key] = queue_jobs.result_alone(self.flock.binary, steps, folder)
            shutil.rmtree(folder)
        return self.results[key]

    # --- the run ---

    def later(self, seconds, call):
        self.numbers += 1
        heapq.heappush(self.due, (time.monotonic() + seconds, self.numbers, call))

    def submit(self):
        kinds = [kind for kind in queue_jobs.KINDS if not self.options.job_kinds or kind.kind() in self.options.job_kinds]
        kind = self.rng.choices(kinds, [kind.weight for kind in kinds])[0]
        self.submitted += 1
        job = kind(self, self.submitted)
        # Now and then at a member that something is done to, which may not answer.
        ready = [member for member in self.flock.running() if member not in self.hurt() or self.rng.random() < 0.03]
        member = self.rng.choice(ready)
        try:
            job.id = job.submit(member)
        except (Trouble, subprocess.TimeoutExpired):
            return  # nobody has said that it was taken: it may be there, or not
        self.jobs.append(job)
        job.was_submitted()
        self.say(f"{job.name} {job.id[:8]} is submitted at {member.name}")
        if self.rng.random() < 0.1 and member in self.free() and len(self.free()) > 1:
            fault = queue_faults.Power(self)  # who has submitted it is gone
            fault.member = member
            member.lose_power()
            self.strike(fault, f"{member.name} loses power")

    def strike(self, fault, text):
        self.counts[fault.name()] += 1
        self.lasting.append(fault)
        self.say(text)
        self.later(self.rng.uniform(fault.least_s, fault.most_s), lambda: self.finish(fault))

    def finish(self, fault):
        fault.end()
        self.let_go(fault)

    def let_go(self, fault):
        """The fault is over when its member takes commands."""
        if not fault.member.answers():
            self.later(0.1, lambda: self.let_go(fault))
            return
        self.lasting.remove(fault)

    def hit(self):
        fault = self.rng.choices(self.kinds, [kind.weight for kind in self.kinds])[0](self)
        text = fault.begin()
        if text is not None:
            self.strike(fault, text)

    def look(self):
        """No member ends by itself."""
        for member in self.flock:
            if not member.is_running() and member not in self.hurt():
                raise Trouble(f"{member.name} has ended by itself with {member.process.returncode}: {member.last_words()}")

    def open_jobs(self):
        """The names of jobs that are not over."""
        known = self.asked().jobs()
        lost = [job.name for job in self.jobs if job.id not in known]
        return lost + [job.get("name", id) for id, job in known.items() if job["state"] not in OVER]

    def turn(self):
        while self.due and self.due[0][0] <= time.monotonic():
            heapq.heappop(self.due)[2]()
        self.look()
        time.sleep(TURN_S)

    def rage(self):
        end = self.began + self.options.seconds
        next_hit = next_look = self.began + 0.5
        while time.monotonic() < end or len(self.jobs) < self.options.jobs:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + 0.5
                if len(self.open_jobs()) < self.options.at_once:
                    self.submit()
            if now >= next_hit:
                next_hit = now + self.rng.expovariate(1 / self.options.every)
                self.hit()
            self.turn()

    def heal(self):
        ends = time.monotonic() + PATIENCE_S
        while self.due:
            self.turn()
            if time.monotonic() > ends:
                raise Trouble("no member takes what was to be told of some jobs")
        self.say("all is well again")
        self.flock.until_ready_or_trusted()
        healed = time.monotonic()
        while missing := self.open_jobs():
            self.look()
            if time.monotonic() > healed + PATIENCE_S:
                text = self.asked().do("queue")
                self.explain(job for job in self.jobs if job.name in missing)
                raise Trouble(f"{len(missing)} jobs are not over: {', '.join(missing)}\n{text}")
            time.sleep(0.2)
        self.say(f"all {len(self.jobs)} jobs are over, {time.monotonic() - healed:.1f} s later")

    # --- the judgement ---

    def explain(self, jobs):
        self.reports += [queue_why.explain(self, job) for job in jobs]

    def judge(self):
        """What is wrong, as texts."""
        wrong = []
        try:
            until("the same knowledge of all jobs at all members", self.all_know_the_same)
        except Trouble as trouble:
            wrong.append(str(trouble))
            differing = self.differing()
            self.explain(job for job in self.jobs if job.id in differing)
        told = self.asked().jobs()
        for job in self.jobs:
            why = job.wrong(told[job.id])
            if why is not None:
                wrong.append(f"{job.name} {job.id[:8]}: {why}")
                self.explain([job])
        try:
            until("the end of all children", lambda: len(self.flock.marked()) == len(self.flock.list))
        except Trouble:
            own = {member.process.pid for member in self.flock}
            wrong += [f"a process is left: {pid} {line}" for pid, line in self.flock.marked().items() if pid not in own]
        for member in self.flock:
            member.do("down")
            if (code := member.end()) != 0:
                wrong.append(f"{member.name} ended with {code}: {member.last_words()}")
        wrong += [f"a process is left: {line}" for line in self.flock.marked().values()]
        return wrong

    def tell(self, wrong):
        kinds = collections.Counter(job.kind() for job in self.jobs)
        others = (queue_jobs.Steps, queue_jobs.Cancelled, queue_jobs.Map)
        commands = [job for job in self.jobs if not isinstance(job, others)]
        maps = [job for job in self.jobs if isinstance(job, queue_jobs.Map)]
        tasks = sum(len(job.lives()) - self.options.tasks for job in maps)
        rounds = {queue_jobs.Failing: 2, queue_jobs.Mended: 2}
        more = sum(len(job.lives()) - rounds.get(type(job), 1) for job in commands)
        print("jobs:   " + ", ".join(f"{count} {name}" for name, count in sorted(kinds.items())))
        print("faults: " + ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items())))
        print(f"{more} times more than in a quiet run {len(commands)} commands have had their effect")
        if maps:
            print(f"{tasks} of {len(maps) * self.options.tasks} tasks of maps have run once more")
        for text in [*self.reports, *(f"WRONG: {text}" for text in wrong)]:
            print(text)
        print(f"chaos: {'FAILED' if wrong else 'passed'} (--queue --seed {self.options.seed})", flush=True)


def options_of():
    parser = argparse.ArgumentParser(prog="chaos --queue", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--binary", default="build/godwit", help="the program")
    parser.add_argument("--minutes", type=float, default=1, help="how long faults strike (1)")
    parser.add_argument("--jobs", type=int, default=20, help="at least so many jobs (20)")
    parser.add_argument("--at-once", type=int, default=8, help="so many jobs are not over at a time (8)")
    parser.add_argument("--members", type=int, default=4, help="2 to 9 (4)")
    parser.add_argument("--every", type=float, default=1.2, help="mean seconds between two faults (1.2)")
    parser.add_argument("--seed", type=int, default=None, help="of what is done to whom (the clock)")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="only these faults: "
                        + ",".join(kind.name() for kind in queue_faults.KINDS))
    parser.add_argument("--job-kinds", type=lambda text: text.split(","), help="only these jobs: "
                        + ",".join(kind.kind() for kind in queue_jobs.KINDS))
    parser.add_argument("--tasks", type=int, default=200, help="so many tasks has a map (200)")
    parser.add_argument("--here", action="store_true", help="all members on loopback, which cannot be cut")
    parser.add_argument("--logs", metavar="FOLDER", help="keep what members write")
    options = parser.parse_args()
    if not 2 <= options.members <= 9:
        parser.error("--members is not from 2 to 9")
    options.seconds = options.minutes * 60
    options.seed = time.time_ns() % 10**6 if options.seed is None else options.seed
    return options


def go(options):
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix=places.own_name(), dir=shared, ignore_cleanup_errors=True) as folder:
        network = contextlib.nullcontext() if options.here else places.Network(options.members, folder)
        with network:
            key = os.path.join(folder, "key")
            subprocess.run([options.binary, "keygen", key], check=True, stdout=subprocess.DEVNULL)
            homes = None if options.here else network.places
            flock = Members(folder, options.members, options.binary, [*OPTIONS, "--key", key], homes)
            with flock:
                run = Run(flock, folder, options)
                wrong = ["it was interrupted"]
                try:
                    run.rage()
                    run.heal()
                    wrong = run.judge()
                except Trouble as trouble:
                    wrong = [str(trouble)]
                finally:
                    for job in run.jobs:
                        job.close()
                    run.tell(wrong)
                    if options.logs:
                        keep(flock, options.logs)
    return not wrong


def keep(flock, folder):
    """Copies what members and jobs have written."""
    os.makedirs(folder, exist_ok=True)
    for member in flock:
        with open(os.path.join(folder, f"{member.name}.out"), "w") as file:
            file.write("\n".join(member.history) + "\n")
        shutil.copy(member.errors, folder)
        shutil.copytree(member.directory, os.path.join(folder, member.name), dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("bin", "*.sock"))


def main():
    options = options_of()
    end_on_signals()
    if not options.here:
        why = places.missing()
        if why is not None:
            print(f"chaos: {why}: --here goes without namespaces", file=sys.stderr)
            return 2
        places.sweep()
    try:
        return 0 if go(options) else 1
    except (Trouble, RuntimeError, subprocess.CalledProcessError) as trouble:
        print(f"chaos: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
