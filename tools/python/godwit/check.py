"""finds what in a program depends on more than the state and the shard, before weeks depend on it.

The first shards of some steps, and the updates between these, are computed in one
process, there again in another order, in a fresh process that begins in the middle,
and in one that hashes strings otherwise; the bytes are compared. Where they differ,
the program's own sources are searched for what is known to cause it. Another number
of threads is tried as well: it may change bits, which is no fault.

The exit status is 0 where nothing was found, 1 where something was, and 2 where the
program could not be checked, or not all of it.
"""
from __future__ import annotations

import argparse
import os
import sys
import textwrap
import time
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence

from . import peer
from .errors import Error
from .protocol import Description, Phase, ProtocolError, Shard
from .suspects import Symptom, suspects

_WIDTH = 79
_OTHER_HASHES = 4711
_CONFIRMATIONS = 2

_Contributions = Dict[Shard, peer.Digests]


@dataclass(frozen=True)
class Finding:
    """Something that is not pure: what it is, the symptom, and the first tensor that differs."""

    what: str
    symptom: Symptom
    tensor: str = ""

    def __str__(self) -> str:
        if self.symptom == Symptom.REFUSED:
            return f"{self.what}"
        text = f"{self.what} is not pure: {self.symptom.value}."
        return text + (f" The first difference is in '{self.tensor}'" if self.tensor else "")


@dataclass(frozen=True)
class Limits:
    """How much of a program is checked. ``until`` is when the check ends (``time.monotonic``)."""

    shards: int
    steps: int
    threads: int
    until: float


class _Reference:
    """What the first process has computed, with which all others are compared."""

    def __init__(self, description: Description, initial: bytes) -> None:
        self.description = description
        self.initial = initial
        self.last = initial  # the state of the last step
        self.states: List[peer.Digests] = []  # of each step
        self.contributions: List[_Contributions] = []  # of each step
        self.sums: List[peer.Sums] = []  # of each step but the last
        self.evaluation = peer.Sums()  # of the last step
        self.evaluated: Optional[peer.Digests] = None  # the state that the end of this evaluation leaves


class Check:
    """A check of a script. ``findings`` are what is not pure, ``compared`` what was compared, in words for people,
    ``notes`` what else people should know, ``left`` what was not compared for lack of time."""

    def __init__(self, script: str, argv: Sequence[str], seed: int, limits: Limits) -> None:
        self._script = script
        self._argv = list(argv)
        self._seed = seed
        self._limits = limits
        self._processes: List[peer.Process] = []
        self.findings: List[Finding] = []
        self.compared: List[str] = []
        self.notes: List[str] = []
        self.left = ""
        self.files: List[str] = [script]

    def run(self) -> None:
        """Runs the check. Raises Error where the script cannot run at all."""
        try:
            self._all()
        except peer.Late as error:
            self.left = str(error)
        except peer.Unlike as error:
            self.findings.append(Finding("an update in parts", Symptom.PARTS, error.tensor))
        except peer.Failed as error:
            if not error.refused:
                raise
            self.findings.append(Finding(str(error), Symptom.REFUSED))
        finally:
            for process in list(self._processes):
                self._end(process)

    def _start(self, threads: int, hash_seed: int = 0) -> peer.Process:
        process = peer.Process(self._script, self._argv, self._seed, threads, hash_seed, self._limits.until)
        self._processes.append(process)
        return process

    def _end(self, process: peer.Process) -> None:
        process.end()
        self._processes.remove(process)
        self.notes += [text for text in process.warnings if text not in self.notes]

    def _all(self) -> None:
        threads = self._limits.threads
        first = self._start(threads)
        first.describe()
        self._find_files(first.description)
        fresh = self._start(threads)  # it starts while the first one computes
        reference = self._first(first)
        self._end(first)
        other_hashes = None if self.findings else self._start(threads, _OTHER_HASHES)
        self._fresh(fresh, reference, Symptom.PROCESS)
        self._end(fresh)
        if self.findings or other_hashes is None:
            return  # what differs anyway tells nothing of hashes and threads
        other_threads = self._start(2 if threads == 1 else 1)
        self._fresh(other_hashes, reference, Symptom.HASHES)
        self._end(other_hashes)
        if self.findings:
            self._confirm_hashes(reference)
        self._threads(other_threads, reference)

    def _confirm_hashes(self, reference: _Reference) -> None:
        """Strings' hashes are to blame only where processes with the same hashes agree: what differs between two of these
        as well (by the numbers of processes, whose halves are alike) is no matter of hashes."""
        by_hashes, self.findings = self.findings, []
        for _ in range(_CONFIRMATIONS):
            same = self._start(self._limits.threads)
            self._fresh(same, reference, Symptom.PROCESS)
            self._end(same)
            if self.findings:
                return
        self.findings = by_hashes

    def _find_files(self, description: Description) -> None:
        base = os.path.dirname(os.path.abspath(self._script))
        names = [n.partition(":")[2] for n in description.lines if n.startswith("file:")]
        paths = [os.path.join(base, name) for name in names]
        here = os.getcwd() + os.sep
        self.files = [path[len(here) :] if path.startswith(here) else path for path in paths]

    def _requests(self, description: Description, step: int) -> Iterator[Shard]:
        """The shards that are computed at the state after so many updates."""
        options = description.options
        for shard in range(min(options.shards, self._limits.shards)):
            yield Shard(step, step, Phase.TRAIN, 0, shard, options.shards)
        for shard in range(min(options.eval_shards, (self._limits.shards + 1) // 2)):
            yield Shard(step, step, Phase.EVALUATE, 0, shard, options.eval_shards)

    def _compute(
        self, process: peer.Process, step: int, sums: Optional[Dict[Phase, peer.Sums]] = None
    ) -> _Contributions:
        """The contributions of all these shards. They are added to the sums of their phase, each also for those that
        are not computed."""
        requests = list(self._requests(process.description, step))
        computed = {phase: sum(r.phase == phase for r in requests) for phase in Phase}
        return {
            r: process.shard(
                r, None if sums is None else sums[r.phase], len(range(r.shard, r.shards, computed[r.phase]))
            )
            for r in requests
        }

    def _backwards(self, process: peer.Process, step: int) -> _Contributions:
        return {r: process.shard(r) for r in reversed(list(self._requests(process.description, step)))}

    def _first(self, process: peer.Process) -> _Reference:
        """Computes what all others are compared with, and all of it a second time in another order."""
        self._tell_amount(process.description)
        reference = _Reference(process.description, process.initial())
        process.attach()
        process.set_state(reference.initial)
        for step in range(self._limits.steps):
            sums, evaluation = peer.Sums(), peer.Sums()
            reference.states.append(process.digests())
            both = {Phase.TRAIN: sums, Phase.EVALUATE: evaluation}
            reference.contributions.append(self._compute(process, step, both))
            reference.evaluation = evaluation
            self._compare(reference, step, self._backwards(process, step), Symptom.HISTORY)
            if step + 1 < self._limits.steps:
                reference.sums.append(sums)
                process.update(step, step, sums)
        reference.last = process.state[:]
        self.compared.append("in one process, and there again backwards")
        self._updates(process, reference, Symptom.HISTORY)
        for _ in range(2):
            self._evaluated(process, reference, Symptom.HISTORY)
        return reference

    def _tell_amount(self, description: Description) -> None:
        steps, all_of = self._limits.steps, description.options
        shards = min(all_of.shards, self._limits.shards)
        evaluations = min(all_of.eval_shards, (self._limits.shards + 1) // 2)
        text = f"{shards} of {all_of.shards} shards"
        if evaluations:
            text += f" and {evaluations} of {all_of.eval_shards} of an evaluation"
        at = f", at updates 0 to {steps - 1}" if steps > 1 else ", at the first state"
        self.compared.append(text + at)

    def _updates(self, process: peer.Process, reference: _Reference, symptom: Symptom) -> None:
        """Makes all updates again, from the sums that the first process has found."""
        process.set_state(reference.initial)
        for step, sums in enumerate(reference.sums):
            process.update(step, step, sums)
            name = peer.first_difference(reference.states[step + 1], process.digests())
            if name is not None:
                self._find(f"update {step}", symptom, name)
                return

    def _evaluated(self, process: peer.Process, reference: _Reference, symptom: Symptom) -> None:
        """Ends the evaluation of the last step, and compares the state that this leaves with that of the first time."""
        last = self._limits.steps - 1
        process.set_state(reference.last)
        if reference.evaluation.shards == 0 or not process.evaluated(last, last, reference.evaluation):
            return
        found = process.digests()
        name = peer.first_difference(reference.evaluated, found) if reference.evaluated is not None else None
        if name is not None:
            self._find(f"the end of the evaluation at update {last}", symptom, name)
        reference.evaluated = reference.evaluated or found

    def _find(self, what: str, symptom: Symptom, tensor: str) -> None:
        name = tensor.replace("sum:", "")
        if not any(f.tensor == name and f.symptom == symptom for f in self.findings):
            self.findings.append(Finding(what, symptom, name))

    def _compare(self, reference: _Reference, step: int, found: _Contributions, symptom: Symptom) -> None:
        difference = self._difference(reference, step, found)
        if difference is not None:
            self._find(difference[0], symptom, difference[1])

    @staticmethod
    def _difference(reference: _Reference, step: int, found: _Contributions) -> Optional[Sequence[str]]:
        """The first shard of a step, and the first sum of it, that are not as the first process has found them."""
        for request, digests in reference.contributions[step].items():
            name = peer.first_difference(digests, found[request])
            if name is not None:
                kind = "shard" if request.phase == Phase.TRAIN else "evaluation, shard"
                return f"{kind} {request.shard} at update {request.update}", name
        return None

    def _fresh(self, process: peer.Process, reference: _Reference, symptom: Symptom) -> None:
        """Compares with a fresh process, which computes the last step's shards first."""
        process.describe()
        name = _described_otherwise(reference.description, process.description)
        if name is not None:
            self._find("the job's description", symptom, name)
            return
        initial = process.initial()
        process.attach()
        process.set_state(initial)
        name = peer.first_difference(reference.states[0], process.digests())
        if name is not None:
            self._find("the initial state", symptom, name)
        last = self._limits.steps - 1
        process.set_state(reference.last)
        alike = name is None and symptom == Symptom.PROCESS  # only what was computed before differs then
        self._compare(reference, last, self._backwards(process, last), Symptom.HISTORY if alike else symptom)
        process.set_state(reference.initial)
        self._compare(reference, 0, self._compute(process, 0), symptom)
        self._updates(process, reference, symptom)
        self._evaluated(process, reference, symptom)
        self.compared.append(
            "in a fresh process that begins in the middle" if symptom == Symptom.PROCESS else "with other hashes of strings"
        )

    def _threads(self, process: peer.Process, reference: _Reference) -> None:
        """Says whether results depend on the number of threads, which they may."""
        process.describe()
        if process.description.state != reference.description.state:
            return  # that the model differs has been found before
        process.attach()
        process.set_state(reference.initial)
        difference = self._difference(reference, 0, self._compute(process, 0))
        threads = "with 2 threads" if self._limits.threads == 1 else "with 1 thread"
        self.compared.append(f"{threads} instead of {self._limits.threads}")
        if difference is not None and not self.findings:
            self.notes.append(
                f"results differ {threads}, first in '{difference[1].replace('sum:', '')}': the number of threads is part "
                "of the job's identity, so that all peers need the same --threads"
            )


def _described_otherwise(a: Description, b: Description) -> Optional[str]:
    """The first tensor, or the first line of identity, that two descriptions have otherwise."""
    for one, other in zip((*a.state, *a.sums), (*b.state, *b.sums)):
        if one != other:
            return one.name
    if (len(a.state), len(a.sums)) != (len(b.state), len(b.sums)):
        return "the number of tensors"
    names = sorted({*a.lines, *b.lines})
    return next((name for name in names if a.lines.get(name) != b.lines.get(name)), None)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "    ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _report(script: str, check: Check, limit: int) -> int:
    """Prints what was found. Returns the exit status."""
    for finding in check.findings:
        print(_wrapped(f"{script}: {finding}"))
    for suspect in suspects(check.files, [finding.symptom for finding in check.findings]):
        print(_wrapped(f"{suspect.file}:{suspect.line}: perhaps {suspect.what}", "    "))
    if not check.findings and not check.left:
        print(_wrapped(
            f"{script}: nothing was found that is not pure in what was compared. A job that runs with --verify 1% goes on checking"
        ))  # fmt: skip
    for note in check.notes:
        print(_wrapped(f"note: {note}", "    "))
    if check.compared:
        print(_wrapped(f"compared: {'; '.join(check.compared)}", "    "))
    if check.left:
        print(_wrapped(
            f"{script}: the check is not complete: after {limit} seconds (--limit), {check.left}. Fewer shards (--shards) "
            "take less time"
        ))  # fmt: skip
    if check.findings:
        return 1
    return 2 if check.left else 0


def _number(least: int, most: int) -> "type":
    class Number(int):
        """A whole number within bounds."""

        def __new__(cls, text: str) -> "Number":
            if not text.isdecimal() or not least <= int(text) <= most:
                raise argparse.ArgumentTypeError(f"'{text}' is no number from {least} to {most}")
            return super().__new__(cls, int(text))

    return Number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="godwit check", description="godwit check " + str(__doc__), allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--seed", type=_number(0, (1 << 63) - 1), default=1, metavar="N", help="the job's seed (1)")
    parser.add_argument("--shards", type=_number(1, 1048575), default=4, metavar="N",
                        help="how many shards of each step, and half as many of an evaluation (4)")  # fmt: skip
    parser.add_argument("--steps", type=_number(1, 1000), default=2, metavar="N", help="how many steps (2)")
    parser.add_argument("--threads", type=_number(1, 1024), default=1, metavar="N",
                        help="threads of a computation; 2 (or 1) are tried as well (1)")  # fmt: skip
    parser.add_argument("--limit", type=_number(1, 1 << 31), default=600, metavar="SECONDS",
                        help="how long the check may take (600)")  # fmt: skip
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def main(arguments: Sequence[str]) -> int:
    """``python -m godwit check [OPTION...] SCRIPT [ARGUMENT...]``. Returns the exit status, as the module's text has
    it."""
    options = _parser().parse_args(arguments)
    given = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    if not os.access(options.script, os.R_OK):
        print(f"godwit check: {options.script} cannot be read", file=sys.stderr)
        return 2
    limits = Limits(options.shards, options.steps, options.threads, time.monotonic() + options.limit)
    check = Check(options.script, given, options.seed, limits)
    try:
        check.run()
    except (Error, ProtocolError) as error:
        print(_wrapped(f"godwit check: {error}"), file=sys.stderr)
        return 2
    return _report(options.script, check, options.limit)
