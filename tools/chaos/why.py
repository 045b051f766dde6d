"""Holds what `godwit why` tells of runs against what chaos did to them: python3 tools/chaos/why.py [OPTIONS]

Each run is a short one of chaos.py, with a seed of its own. Before its peers' directories are removed, the journals are
recorded with the faults that struck. `godwit why --json` reads each recording, and its findings are held against the
faults: a fault is *found* where a finding of a kind that fits names one of its victims at its time; a finding that fits no
fault is *wrong*. *Unfelt* are faults of which no journal has a trace, as no step, view or warning came of them, or that
last too short to be told of (a peer that is stopped for less than a second): they count neither way. The program needs
root to make runs. It prints a table, and exits with 1 where a peer's death was missed or put down to another peer.

  --runs N       the number of runs (default 3)
  --seconds S    how long faults strike in each (default 60)
  --every S      seconds between two faults (default 6)
  --seed K       the seed of the first run; the others follow (default 1)
  --kinds A,B    make only faults of these kinds
  --jobs A,B     the jobs of the runs, in turn (default synthetic)
  --binary PATH  the program to run (default build/godwit)
  --keep FOLDER  a new folder, in which the recordings are kept
  --again FOLDER judge the recordings in this folder once more, and make no runs
"""

import argparse
import collections
import contextlib
import dataclasses
import itertools
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
    "stop and continue": ({"stall", "unreachable"}, {"slow", "network"}),
    "no processor": ({"stall", "slow", "network"}, {"cut", "death"}),
    "cut": ({"cut", "unreachable", "network"}, {"view"}),
    "cut one way": ({"cut", "unreachable", "network"}, {"view"}),
    "flapping cut": ({"cut", "unreachable", "network", "view"}, set()),
    "delay": ({"network", "cut", "slow"}, {"view"}),
    "slow link": ({"network", "cut", "slow"}, {"view"}),
    "drop": ({"network", "cut", "slow"}, {"view"}),
    "full disk": ({"disk"}, {"death", "refused"}),
    "corrupt chunk": ({"corruption"}, set()),
    "descriptors": ({"limit", "death", "refused"}, {"view", "network", "disk"}),
    "memory": ({"limit", "death", "refused"}, {"view", "network", "worker", "disk"}),
    "clock step": ({"clock"}, set()),
}
SHORT_S = {"stop and continue": 1.2, "no processor": 3, "cut": 0.8}
QUIET = {"checkpoint", "progress", "log", "phase"}  # events that tell of no trouble
JOURNALS = ("journal.jsonl", "journal.1.jsonl")
BEFORE_S, BEHIND_S = 3, 15  # a finding may begin so much before and behind its fault


@dataclasses.dataclass
class Injected:
    """A fault that struck, in the words of the table."""

    kind: str
    text: str
    began: float
    ended: float
    victims: list  # numbers of peers; empty: any
    happened: bool  # False: no peer can have noticed it

    def meets(self, finding):
        """Whether a finding is about its victims at its time."""
        if finding["from"] > self.ended + BEHIND_S or finding["to"] < self.began - BEFORE_S:
            return False
        named = {number_of(peer) for peer in finding["peers"]}
        return not self.victims or None in named or not named or bool(named & set(self.victims))

    def felt(self, times):
        """Whether a journal tells of anything at its time."""
        short = self.ended - self.began < SHORT_S.get(self.kind, 0)
        return self.happened and not short and any(self.began <= time <= self.ended + 1 for time in times)


def number_of(peer):
    """The number of the place of a peer that a finding names; None where its address is not known."""
    return int(peer["address"].rpartition(".")[2]) if "address" in peer else None


def victims_of(fault):
    if hasattr(fault, "pairs"):
        return sorted({place.number for pair in fault.pairs for place in pair})
    for name in ("peer", "place"):
        if hasattr(fault, name):
            return [getattr(fault, name).number]
    return []


def injected(strike, unread):
    ended = strike.ended or strike.due
    victims = victims_of(strike.fault)
    return Injected(strike.kind, strike.text, strike.began, ended, victims, strike not in unread)


def loud_times(folders):
    """When the journals in these folders tell of anything but the usual course."""
    times = []
    for folder, name in itertools.product(folders, JOURNALS):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that a full disk has torn
                    event = json.loads(line)
                    times += [] if event["event"] in QUIET else [event["time"]]
    return times


class Table:
    def __init__(self):
        self.rows = collections.defaultdict(collections.Counter)
        self.wrong = collections.Counter()
        self.lines = []  # what was missed, and what was wrong
        self.bad = 0  # deaths that were missed or put down to another peer

    def take(self, run, strikes, findings, times):
        happened = [finding for finding in findings if not finding["pattern"]]
        for strike in strikes:
            kinds = FITS[strike.kind][0]
            found = any(one["kind"] in kinds and strike.meets(one) for one in happened)
            state = "found" if found else "missed" if strike.felt(times) else "unfelt"
            self.rows[strike.kind][state] += 1
            if state == "missed":
                self.lines.append(f"run {run}: missed: {strike.kind}: {strike.text}")
                self.bad += strike.kind in ("kill", "power loss")
        for one in happened:
            right = [strike for strike in strikes if one["kind"] in set().union(*FITS[strike.kind])]
            if one["kind"] == "view" or any(strike.meets(one) for strike in right):
                continue
            self.wrong[one["kind"]] += 1
            self.bad += one["kind"] in ("death", "all-ended")
            self.lines.append(f"run {run}: wrong: {one['kind']}: {one['text']}")

    def print(self):
        print(f"{'fault':20} {'struck':>7} {'found':>7} {'missed':>7} {'unfelt':>7}")
        total = collections.Counter()
        for kind in sorted(self.rows):
            row = self.rows[kind]
            total.update(row)
            print(f"{kind:20} {row.total():7} {row['found']:7} {row['missed']:7} {row['unfelt']:7}")
        print(f"{'all':20} {total.total():7} {total['found']:7} {total['missed']:7} {total['unfelt']:7}")
        wrong = ", ".join(f"{count} {kind}" for kind, count in sorted(self.wrong.items())) or "none"
        print(f"findings that fit no fault: {wrong}")
        for line in self.lines:
            print(line)


def why(binary, folders):
    command = [binary, "why", "--json", *(f"--dir={folder}" for folder in folders)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def record(place, folders, strikes):
    """Copies the journals of a run and writes down its faults."""
    for number, folder in enumerate(folders, 1):
        os.makedirs(os.path.join(place, f"peer{number}"))
        for name in JOURNALS:
            if os.path.exists(os.path.join(folder, name)):
                shutil.copy(os.path.join(folder, name), os.path.join(place, f"peer{number}", name))
    with open(os.path.join(place, "faults.json"), "w") as file:
        json.dump([dataclasses.asdict(one) for one in strikes], file, indent=1)


def judge(binary, place, table):
    """Holds what is told of a recording against its faults."""
    folders = sorted(os.path.join(place, name) for name in os.listdir(place) if name.startswith("peer"))
    with open(os.path.join(place, "faults.json")) as file:
        strikes = [Injected(**one) for one in json.load(file)]
    table.take(os.path.basename(place), strikes, why(binary, folders)["findings"], loud_times(folders))


def one_run(options, seed, place):
    """Makes one run, and records it."""
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
        logs=None,
    )

    def look(run):
        folders = [peer.home.inside(peer.directory) for peer in run.flock.peers]
        record(place, folders, [injected(strike, run.unread) for strike in [*run.faults, *run.unread]])

    with tempfile.TemporaryDirectory() as folder:
        settings.timeline = os.path.join(folder, "chaos.svg")
        chaos.run(settings, look)


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
    parser.add_argument("--again")
    options = parser.parse_args()
    wrong = set(options.kinds) - {kind.name for kind in faults.KINDS}
    if wrong:
        parser.error(f"there is no kind {sorted(wrong)}")
    if options.keep and os.path.exists(options.keep):
        parser.error(f"--keep: {options.keep} exists already; name a folder that does not")
    return options


def make(options, folder, table):
    for seed in range(options.seed, options.seed + options.runs):
        print(f"run {seed}, {time.strftime('%H:%M:%S')}", flush=True)
        place = os.path.join(folder, str(seed))
        os.makedirs(place)
        one_run(options, seed, place)
        judge(options.binary, place, table)


def hold(options, table):
    """Makes the runs, or takes those that are recorded."""
    if options.again:
        for name in sorted(os.listdir(options.again)):
            judge(options.binary, os.path.join(options.again, name), table)
        return
    chaos.sweep()
    with tempfile.TemporaryDirectory() as folder:
        make(options, options.keep or folder, table)


def main():
    options = options_of()
    chaos.handle(chaos.interrupted, chaos.INTERRUPTIONS)
    reason = None if options.again else chaos.missing()
    if reason is not None:
        print(f"why: {reason}", file=sys.stderr)
        return 2
    table = Table()
    try:
        hold(options, table)
    except (chaos.Trouble, RuntimeError, LookupError, OSError, subprocess.CalledProcessError) as trouble:
        print(f"why: {trouble}", file=sys.stderr)
        table.print()
        return 1
    except KeyboardInterrupt:
        return 130
    table.print()
    return 1 if table.bad else 0


if __name__ == "__main__":
    sys.exit(main())
