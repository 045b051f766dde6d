"""Holds what `godwit why` tells of runs against what chaos did to them: python3 tools/chaos/why.py [OPTIONS]

Each run is a short one of chaos.py, with a seed of its own. Before its peers' directories are removed, `godwit why --json`
reads their journals, and each of its findings is held against the faults that struck: a fault is *found* where a finding of
a kind that fits names one of its victims at its time; a finding that fits no fault is *wrong*. Faults that last too short
to be told of (a peer that is stopped for less than a second), or that no peer can have noticed, are *slight* and count
neither way. The program needs root. It prints a table, and exits with 1 where a peer's death was missed or put down to
another peer.

  --runs N       the number of runs (default 3)
  --seconds S    how long faults strike in each (default 60)
  --every S      seconds between two faults (default 6)
  --seed K       the seed of the first run; the others follow (default 1)
  --kinds A,B    make only faults of these kinds
  --jobs A,B     the jobs of the runs, in turn (default synthetic)
  --binary PATH  the program to run (default build/godwit)
  --keep FOLDER  a new folder, in which the journals, findings and faults of each run are kept
"""

import argparse
import collections
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chaos  # noqa: E402
import faults  # noqa: E402

# What fits a fault: the kinds of findings that find it, and those that may come of it as well.
FITS = {
    "kill": ({"death", "all-ended"}, set()),
    "kill, disk lost": ({"death", "unreachable"}, set()),
    "kill a worker": ({"worker"}, set()),
    "power loss": ({"all-ended", "death"}, {"corruption"}),
    "stop and continue": ({"stall"}, {"slow", "network"}),
    "no processor": ({"stall", "slow", "network"}, {"cut", "death"}),
    "cut": ({"cut", "unreachable", "network"}, {"view"}),
    "cut one way": ({"cut", "unreachable", "network"}, {"view"}),
    "flapping cut": ({"cut", "unreachable", "network", "view"}, set()),
    "delay": ({"network", "cut", "slow"}, {"view"}),
    "slow link": ({"network", "cut", "slow"}, {"view"}),
    "drop": ({"network", "cut", "slow"}, {"view"}),
    "full disk": ({"disk"}, {"death"}),
    "corrupt chunk": ({"corruption"}, set()),
    "descriptors": ({"limit", "death"}, {"view", "network"}),
    "memory": ({"limit", "death"}, {"view", "network", "worker"}),
    "clock step": ({"clock"}, set()),
}
SLIGHT_S = {"stop and continue": 1.2, "no processor": 3, "flapping cut": 2, "delay": 5, "slow link": 5, "drop": 5, "cut": 0.8}
SLIGHT_S["cut one way"] = SLIGHT_S["cut"]
BEFORE_S, BEHIND_S = 3, 15  # a finding may begin so much before and behind its fault


@dataclasses.dataclass
class Injected:
    """A fault that struck, in the words of the table."""

    kind: str
    text: str
    began: float
    ended: float
    victims: set  # numbers of peers; empty: any
    slight: bool

    def meets(self, finding, numbers):
        """Whether a finding is about its victims at its time."""
        if finding["from"] > self.ended + BEHIND_S or finding["to"] < self.began - BEFORE_S:
            return False
        named = {numbers.get(peer["peer"]) for peer in finding["peers"]}
        return not self.victims or not named or bool(named & self.victims)


def victims_of(fault):
    if hasattr(fault, "pairs"):
        return {place.number for pair in fault.pairs for place in pair}
    for name in ("peer", "place"):
        if hasattr(fault, name):
            return {getattr(fault, name).number}
    return set()


def injected(strike, unread):
    ended = strike.ended or strike.due
    slight = strike in unread or ended - strike.began < SLIGHT_S.get(strike.kind, 0)
    return Injected(strike.kind, strike.text, strike.began, ended, victims_of(strike.fault), slight)


def numbers_of(events):
    """The number of the peer that each id belongs to: a peer whose disk was lost has several."""
    with open(events) as file:
        lines = [json.loads(line) for line in file]
    return {line["peer"]: line["number"] for line in lines if line["event"] == "start"}


class Table:
    def __init__(self):
        self.rows = collections.defaultdict(collections.Counter)
        self.wrong = collections.Counter()
        self.lines = []  # what was missed, and what was wrong
        self.bad = 0  # deaths that were missed or put down to another peer

    def take(self, seed, strikes, findings, numbers):
        happened = [finding for finding in findings if not finding["pattern"]]
        for strike in strikes:
            kinds = FITS[strike.kind][0]
            found = any(one["kind"] in kinds and strike.meets(one, numbers) for one in happened)
            state = "found" if found else "slight" if strike.slight else "missed"
            self.rows[strike.kind][state] += 1
            if state == "missed":
                self.lines.append(f"run {seed}: missed: {strike.kind}: {strike.text}")
                self.bad += strike.kind in ("kill", "power loss")
        for one in happened:
            right = [strike for strike in strikes if one["kind"] in set().union(*FITS[strike.kind])]
            if one["kind"] == "view" or any(strike.meets(one, numbers) for strike in right):
                continue
            self.wrong[one["kind"]] += 1
            self.bad += one["kind"] in ("death", "all-ended")
            self.lines.append(f"run {seed}: wrong: {one['kind']}: {one['text']}")

    def print(self):
        print(f"{'fault':20} {'struck':>7} {'found':>7} {'missed':>7} {'slight':>7}")
        total = collections.Counter()
        for kind in sorted(self.rows):
            row = self.rows[kind]
            total.update(row)
            print(f"{kind:20} {row.total():7} {row['found']:7} {row['missed']:7} {row['slight']:7}")
        print(f"{'all':20} {total.total():7} {total['found']:7} {total['missed']:7} {total['slight']:7}")
        wrong = ", ".join(f"{count} {kind}" for kind, count in sorted(self.wrong.items())) or "none"
        print(f"findings that fit no fault: {wrong}")
        for line in self.lines:
            print(line)


def why(binary, folders):
    command = [binary, "why", "--json", *(f"--dir={folder}" for folder in folders)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def keep(folder, seed, folders, told, strikes):
    place = os.path.join(folder, str(seed))
    for number, one in enumerate(folders):
        os.makedirs(os.path.join(place, str(number)))
        for name in ("journal.jsonl", "journal.1.jsonl"):
            if os.path.exists(os.path.join(one, name)):
                shutil.copy(os.path.join(one, name), os.path.join(place, str(number), name))
    with open(os.path.join(place, "why.json"), "w") as file:
        json.dump(told, file, indent=1)
    with open(os.path.join(place, "faults.json"), "w") as file:
        json.dump([{**dataclasses.asdict(one), "victims": sorted(one.victims)} for one in strikes], file, indent=1)


def one_run(options, seed, table):
    """Makes one run, and enters in the table what was found."""
    settings = argparse.Namespace(
        minutes=options.seconds / 60,
        every=options.every,
        seed=seed,
        peers=3 + seed % 2,
        kinds=options.kinds,
        job=options.jobs[seed % len(options.jobs)],
        shard_ms=None,
        majority=False,
        verify="off",
        judge=False,
        binary=options.binary,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings.logs = logs = os.path.join(folder, "logs")
        settings.timeline = os.path.join(folder, "chaos.svg")

        def look(run):
            folders = [peer.home.inside(peer.directory) for peer in run.flock.peers]
            told = why(run.flock.binary, folders)
            strikes = [injected(strike, run.unread) for strike in [*run.faults, *run.unread]]
            table.take(seed, strikes, told["findings"], numbers_of(os.path.join(logs, "events.jsonl")))
            if options.keep:
                keep(options.keep, seed, folders, told, strikes)

        return chaos.run(settings, look)


def options_of():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[])
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=["synthetic"])
    parser.add_argument("--binary", default="build/godwit")
    parser.add_argument("--keep")
    options = parser.parse_args()
    wrong = set(options.kinds) - {kind.name for kind in faults.KINDS}
    if wrong:
        parser.error(f"there is no kind {sorted(wrong)}")
    if options.keep and os.path.exists(options.keep):
        parser.error(f"--keep: {options.keep} exists already; name a folder that does not")
    return options


def main():
    options = options_of()
    chaos.handle(chaos.interrupted, chaos.INTERRUPTIONS)
    reason = chaos.missing()
    if reason is not None:
        print(f"why: {reason}", file=sys.stderr)
        return 2
    chaos.sweep()
    table = Table()
    try:
        for seed in range(options.seed, options.seed + options.runs):
            print(f"run {seed}, {time.strftime('%H:%M:%S')}", flush=True)
            one_run(options, seed, table)
    except (chaos.Trouble, RuntimeError, LookupError, subprocess.CalledProcessError) as trouble:
        print(f"why: {trouble}", file=sys.stderr)
        table.print()
        return 1
    except KeyboardInterrupt:
        return 130
    table.print()
    return 1 if table.bad else 0


if __name__ == "__main__":
    sys.exit(main())
