"""``godwit check``: finds what in a program depends on more than the state and the shard, before weeks depend on it.

Shards of two steps and the update between them are computed in a process that computes them for the first time, in
the same process again in another order, and in fresh processes that start in the middle; the bytes are compared.
What differs tells the kind of impurity, and the program's own sources are searched for what is known to cause it.
"""
from __future__ import annotations

import argparse
import ast
import os
import sys
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from . import peer
from .errors import Error
from .protocol import Phase, ProtocolError, Shard

HISTORY = "it depends on what its process computed before"
PROCESS = "it differs from process to process"
HASHES = "it depends on the order of a set or on hash()"

_CAUSES: Dict[str, Tuple[str, ...]] = {
    "a generator of its own, which goes on from shard to shard: seed it by s.generator_seed": (
        "torch.Generator", "default_rng", "RandomState", "random.Random", "Generator",
    ),
    "the time": ("time.time", "time.time_ns", "time.perf_counter", "time.monotonic", "datetime.now", "datetime.utcnow"),
    "a generator that the system seeds": ("os.urandom", "SystemRandom", "secrets.", "uuid."),
    "a cache, which makes results depend on who computed first": ("lru_cache", "functools.cache", "cache"),
    "a thread, whose results come in any order": ("Thread", "ThreadPoolExecutor", "Queue"),
    "a DataLoader, which goes on from shard to shard: use s.indices or godwit.Loader": ("DataLoader",),
    "seeding within the program: generators are seeded for each shard": (
        "manual_seed", "random.seed", "torch.seed", "set_rng_state",
    ),
    "torch.compile, whose code may depend on the shapes that came before": ("torch.compile",),
    "the name of its process": ("os.getpid", "getpid", "gethostname", "get_ident"),
    "the order of a set: use sorted()": ("set", "frozenset", "hash"),
    "an iterator that goes on from shard to shard: use s.indices": ("iter", "next", "itertools.cycle", "count", "cycle"),
}  # fmt: skip

_FITS: Dict[str, Tuple[str, ...]] = {
    HISTORY: ("a generator of its own", "a cache", "a thread", "a DataLoader", "seeding", "torch.compile", "an iterator",
              "the time", "a generator that", "a variable", "a change in place"),
    PROCESS: ("the time", "a generator that", "the name", "a thread", "a generator of its own"),
    HASHES: ("the order of a set",),
}  # fmt: skip


@dataclass(frozen=True)
class Suspect:
    """A place in the program that is known to cause what was found."""

    file: str
    line: int
    what: str


def _dotted(node: ast.expr) -> str:
    parts: List[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if isinstance(at, ast.Name):
        parts.append(at.id)
    return ".".join(reversed(parts))


def _is_named(name: str, pattern: str) -> bool:
    if pattern.endswith("."):
        return name.startswith(pattern)
    return name == pattern or (name.endswith("." + pattern) and pattern not in ("set", "next", "iter", "hash", "cache"))


class _Search(ast.NodeVisitor):
    """Collects the suspects of a file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: List[Suspect] = []
        self._depth = 0
        self._tops: Dict[str, int] = {}

    def _add(self, node: ast.AST, what: str) -> None:
        self.found.append(Suspect(self.file, getattr(node, "lineno", 0), what))

    def visit_Module(self, node: ast.Module) -> None:
        for statement in node.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            for target in targets:
                if isinstance(target, ast.Name):
                    self._tops[target.id] = statement.lineno
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            name = _dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name.rpartition(".")[2] in ("lru_cache", "cache"):
                self._add(node, "a cache, which makes results depend on who computed first")
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    def visit_Call(self, node: ast.Call) -> None:
        name = _dotted(node.func)
        for what, patterns in _CAUSES.items():
            if any(_is_named(name, pattern) for pattern in patterns):
                self._add(node, what)
                break
        owner, _, method = name.rpartition(".")
        if self._depth and owner in self._tops and (
            method in ("append", "add", "update", "pop", "popleft", "extend", "setdefault") or method.endswith("_")
        ):
            self._add(node, f"a change in place of '{owner}', which outlives the shard")
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._add(node, "the order of a set: use sorted()")
        self.generic_visit(node)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._add(node, "the order of a set: use sorted()")
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self._add(node, f"a variable '{node.names[0]}' that outlives the shard: keep it in job.vars")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._add(node, f"a variable '{node.names[0]}' that outlives the shard: keep it in job.vars")

    def _target(self, node: ast.expr) -> None:
        if not self._depth:
            return
        base: ast.expr = node
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            base = base.value
        if base is not node and isinstance(base, ast.Name):
            if base.id in self._tops:
                self._add(node, f"a change in place of '{base.id}', which outlives the shard")
            elif base.id == "self" and isinstance(node, ast.Attribute):
                self._add(node, f"a variable 'self.{node.attr}' that outlives the shard")

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._target(target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target)
        self.generic_visit(node)


def suspects(files: Sequence[str], symptom: str) -> List[Suspect]:
    """The places in source files that may cause a symptom, the likeliest kinds first."""
    found: List[Suspect] = []
    for file in files:
        try:
            with open(file, encoding="utf-8") as source:
                tree = ast.parse(source.read(), file)
        except (OSError, SyntaxError, ValueError):
            continue
        search = _Search(file)
        search.visit(tree)
        found += search.found
    fits = _FITS[symptom]
    fitting: List[Suspect] = []
    for suspect in found:  # one place for each kind
        if suspect.what.startswith(fits) and suspect.what not in [f.what for f in fitting]:
            fitting.append(suspect)
    return sorted(fitting, key=lambda s: next(i for i, f in enumerate(fits) if s.what.startswith(f)))


@dataclass(frozen=True)
class Finding:
    """Something that is not pure: what it is, the symptom, and the first tensor that differs."""

    what: str
    symptom: str
    tensor: str

    def __str__(self) -> str:
        return f"{self.what} is not pure: {self.symptom}. The first difference is in '{self.tensor}'"


class _Run:
    """The shards of some steps, and the states between, as one process computes them."""

    def __init__(self, process: peer.Process) -> None:
        self.process = process
        options = process.description.options
        self.shards = min(options.shards, 4)
        self.evaluations = min(options.eval_shards, 2)
        self._options = options

    def requests(self, update: int) -> Iterator[Shard]:
        """The shards that are computed at the state after so many updates."""
        for shard in range(self.shards):
            yield Shard(update, update, Phase.TRAIN, shard, self._options.shards)
        for shard in range(self.evaluations):
            yield Shard(update, update, Phase.EVALUATE, shard, self._options.eval_shards)

    def compute(self, update: int, backwards: bool = False) -> Dict[Shard, Dict[str, bytes]]:
        """The contributions of all these shards."""
        requests = list(self.requests(update))
        return {r: self.process.shard(r) for r in (reversed(requests) if backwards else requests)}

    def advance(self, update: int, contributions: Dict[Shard, Dict[str, bytes]]) -> bytes:
        """Makes the next state, and returns it."""
        used = [c for r, c in contributions.items() if r.phase == Phase.TRAIN]
        self.process.update(update, update, used)
        return self.process.state[:]


def _differ(
    process: peer.Process, a: Dict[Shard, Dict[str, bytes]], b: Dict[Shard, Dict[str, bytes]]
) -> Optional[Tuple[str, str]]:
    """The first shard and the first sum of it in which two results differ."""
    for request in a:
        for tensor in process.description.sums:
            if a[request].get(tensor.name) != b[request].get(tensor.name):
                kind = "shard" if request.phase == Phase.TRAIN else "evaluation, shard"
                return f"{kind} {request.shard} at update {request.update}", tensor.name.replace("sum:", "")
    return None


class Check:
    """A check of a script. ``findings`` are what is not pure."""

    def __init__(self, script: str, argv: Sequence[str], seed: int) -> None:
        self._script = script
        self._argv = list(argv)
        self._seed = seed
        self.findings: List[Finding] = []
        self.files: List[str] = []

    def _start(self, threads: int = 1, hash_seed: int = 0) -> peer.Process:
        return peer.Process(self._script, self._argv, self._seed, threads, hash_seed)

    def _find(self, what: str, symptom: str, tensor: str) -> None:
        if not any(f.what == what and f.symptom == symptom for f in self.findings):
            self.findings.append(Finding(what, symptom, tensor))

    def run(self) -> None:
        """Runs the check. Raises Error where the script cannot run at all."""
        first = self._start()
        try:
            self._used(first)
        finally:
            first.end()

    def _used(self, first: peer.Process) -> None:
        base = os.path.dirname(os.path.abspath(self._script))
        names = [n.partition(":")[2] for n in first.description.lines if n.startswith("file:")]
        self.files = [os.path.join(base, name) for name in names]
        initial = first.initial()
        first.attach()
        first.state[:] = initial
        run = _Run(first)
        a0 = run.compute(0)
        self._compare(first, a0, run.compute(0, backwards=True), HISTORY)
        middle = run.advance(0, a0)
        a1 = run.compute(1)
        self._compare(first, a1, run.compute(1, backwards=True), HISTORY)
        first.state[:] = initial
        again = run.advance(0, a0)
        self._state(first, "the update", HISTORY, middle, again)
        self._fresh(first, initial, a0, middle, a1, 0)
        self._fresh(first, initial, a0, middle, a1, 4711)

    def _compare(
        self, process: peer.Process, a: Dict[Shard, Dict[str, bytes]], b: Dict[Shard, Dict[str, bytes]], symptom: str
    ) -> bool:
        found = _differ(process, a, b)
        if found is not None:
            self._find(found[0], symptom, found[1])
        return found is None

    def _state(self, process: peer.Process, what: str, symptom: str, a: bytes, b: bytes) -> None:
        name = peer.first_difference(process.description.state, process.layout.state, a, b)
        if name is not None:
            self._find(what, symptom, name)

    def _fresh(
        self,
        first: peer.Process,
        initial: bytes,
        a0: Dict[Shard, Dict[str, bytes]],
        middle: bytes,
        a1: Dict[Shard, Dict[str, bytes]],
        hash_seed: int,
    ) -> None:
        """Compares with a fresh process, which computes the second step's shards first."""
        symptom = PROCESS if hash_seed == 0 else HASHES
        if hash_seed != 0 and self.findings:
            return  # what differs anyway tells nothing of hashes
        other = self._start(hash_seed=hash_seed)
        try:
            if other.description.state != first.description.state:
                self._find("the model", symptom, "its shapes")
                return
            start = other.initial()
            self._state(first, "the initial state", symptom, initial, start)
            other.attach()
            other.state[:] = middle
            run = _Run(other)
            kind = symptom if start != initial or hash_seed else HISTORY
            self._compare(first, a1, run.compute(1, backwards=True), kind)
            other.state[:] = initial
            self._compare(first, a0, run.compute(0), symptom)
            self._state(first, "the update", symptom, middle, run.advance(0, a0))
        finally:
            other.end()


def main(arguments: Sequence[str]) -> int:
    """``python -m godwit check SCRIPT [ARGUMENT...]``. Returns the exit status: 0 where nothing was found, 1 where
    something was, 2 where the script could not be checked."""
    parser = argparse.ArgumentParser(prog="godwit check", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="the job's seed (1)")
    parser.add_argument("script", help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    given = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    if not os.access(options.script, os.R_OK):
        print(f"godwit check: {options.script} cannot be read", file=sys.stderr)
        return 2
    check = Check(options.script, given, options.seed)
    try:
        check.run()
    except (Error, ProtocolError) as error:
        print(f"godwit check: {error}", file=sys.stderr)
        return 2
    for finding in check.findings:
        print(f"{options.script}: {finding}")
        for suspect in suspects(check.files, finding.symptom):
            print(f"    {suspect.file}:{suspect.line}: perhaps {suspect.what}")
    if not check.findings:
        print(f"{options.script}: nothing was found that is not pure")
    return 1 if check.findings else 0
