"""What a user's program says of its job, whichever library computes."""
from __future__ import annotations

import os

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import identity, pin, session as sessions, worker
from .errors import Error
from .permutation import derived, permutation
from .probe import LINE, Probe
from .protocol import HAS_AFTER, HAS_ONCE, ONCE_EVALUATED, TELLS_SAMPLES, Finish, Phase
from .worker import Leave, Program, can_fork, error_of, serve, serve_alone

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ORDER, _PURPOSE_SHARD, _PURPOSE_UPDATE = 0x6F72646572, 1, 2

SHARDS_VERIFIED = 2
"""After so many shards of a process it is verified that they leave alone the numbers that are state."""
_has_run = False
"""Whether a job of this script has run."""

at_end: List[Callable[[], None]] = []
"""What is called once in this process when its job has ended."""


class ShardContext:
    """What a shard function is given: which shard of which step it is.

    ``step`` counts updates and evaluations, ``update`` only updates, both from 0; ``shard`` is below ``shards``;
    ``training`` is False in an evaluation.
    """

    def __init__(self, seed: int, step: int, update: int, training: bool, shard: int, shards: int) -> None:
        self.seed = seed
        self.step = step
        self.update = update
        self.training = training
        self.shard = shard
        self.shards = shards
        self.samples: List[int] = []
        """The samples that this shard has taken, for ``godwit audit``."""

    def note(self, samples: Sequence[int]) -> None:
        """Takes note that the shard takes these samples of the data set; ``indices`` does it by itself. A shard function
        with an order of its own calls it, so that ``godwit audit`` can name the samples of a shard."""
        self.samples += samples

    def indices(self, n: int, k: int) -> List[int]:
        """The samples of this shard: ``k`` numbers below ``n``.

        In training, shards take ``k`` samples each in the order of a permutation that is another one in each
        epoch; an epoch may end within a shard. In an evaluation the order is the same each time, no sample comes
        twice, and fewer than ``k`` (or none) are left for the last shards where ``shards * k`` exceeds ``n``.
        The numbers are those of Godwit's own jobs (kernels/math/permutation.h).
        """
        if n < 1 or k < 1:
            raise ValueError(f"indices({n}, {k}): both must be 1 or more")
        if not self.training:
            first = self.shard * k
            order = permutation(self.seed ^ _ORDER, 0, n)
            found = [order.at(i) for i in range(first, min(first + k, n))]
        else:
            first = (self.update * self.shards + self.shard) * k
            found = [permutation(self.seed, i // n, n).at(i % n) for i in range(first, first + k)]
        self.note(found)
        return found

    @property
    def generator_seed(self) -> int:
        """The seed (63 bits) that the generators of random, NumPy and PyTorch have at the beginning of the shard."""
        return derived(self.seed, _PURPOSE_SHARD, self.step, self.shard)

@dataclass
class UpdateContext:
    """What the update function is given. ``stop`` ends the job when it is set to True.

    ``reports`` are those of this step, and as ``val_...`` those of the last evaluation; ``weight`` is the sum of
    the shards' weights, ``norm`` that of the gradient before it was clipped. For the function for evaluations,
    ``update`` is the number of updates so far, and ``norm`` is 0.
    """

    step: int
    update: int
    reports: Dict[str, float]
    weight: float
    norm: float
    stop: bool = False

@dataclass(frozen=True)
class AfterContext:
    """What the function for committed steps is given. ``step`` counts updates and evaluations from 0, ``update`` is the
    number of updates so far; ``training`` is False behind an evaluation. ``reports`` are those of this step, and beside
    them the last ones of the other kind: ``val_...`` are those of the last evaluation."""

    step: int
    update: int
    training: bool
    reports: Dict[str, float]

@dataclass(frozen=True)
class Result:
    """What ``job.run()`` returns, in the one process that goes on behind it."""

    steps: int
    updates: int
    reports: Dict[str, float]

@dataclass(frozen=True)
class Settings:
    """The arguments of a job, checked."""

    shards: int
    updates: int
    clip: float
    eval_every: int
    eval_shards: int
    data: Tuple[str, ...]
    reports: Tuple[str, ...]
    parts: Optional[int]

def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Error(f"{name}={value!r}: it must be a whole number from {least} to {most}")
    return value

def check_settings(
    shards: int,
    updates: int,
    clip: Optional[float],
    eval_every: int,
    eval_shards: int,
    data: Sequence[Any],
    reports: Sequence[str],
    parts: Optional[int],
    taken: Sequence[str] = ("loss", "weight", "norm"),
) -> Settings:
    """The arguments of a job; reports may not have the names ``taken``. Raises Error, which names the argument."""
    _whole("shards", shards, 1, 1048575)
    _whole("updates", updates, 0, 1 << 62)
    _whole("eval_every", eval_every, 0, 1 << 62)
    _whole("eval_shards", eval_shards, 0, 1048575)
    if (eval_every == 0) != (eval_shards == 0):
        raise Error("eval_every= and eval_shards= need each other: every how many updates, and in how many shards")
    if clip is not None and not (isinstance(clip, (int, float)) and 0 <= clip < float("inf")):
        raise Error(f"clip={clip!r}: it must be a positive number: the most that the gradient's norm may be")
    if not isinstance(data, (list, tuple)) or not all(isinstance(path, (str, os.PathLike)) for path in data):
        raise Error(f"data={data!r}: it must be a list of paths, of the files that are to be equal on all peers")
    for name in reports:
        plain = name.replace("_", "a")
        if not (1 <= len(name) <= 27 and plain.isascii() and plain.isalnum()) or name.startswith("val_"):
            raise Error(f"reports={name!r}: a name has 1 to 27 letters, digits and _, and does not begin with val_")
        if name in taken or list(reports).count(name) > 1:
            raise Error(f"reports={name!r}: this name is taken")
    if len(reports) > 60:
        raise Error(f"reports= has {len(reports)} names, and 60 is the most")
    if parts is not None:
        _whole("parts", parts, 1, 65536)
    return Settings(
        shards, updates, float(clip or 0), eval_every, eval_shards, tuple(os.fspath(p) for p in data),
        tuple(reports), parts,
    )  # fmt: skip

class JobBase:
    """What jobs of all libraries have in common: their functions, their variables, and ``run``."""

    def __init__(self, settings: Settings, probe: Union[bool, Callable[[], Any]] = False) -> None:
        self.settings = settings
        self.seed = sessions.settings.seed
        self._probe = None if probe is False else Probe(probe, self.seed)
        self.vars = SimpleNamespace()
        """Variables that are state: numbers, strings, and lists and dictionaries of them. Set them before
        ``run()``; then the update function alone may change them."""
        self.shard_function: Optional[Callable[..., Any]] = None
        self.update_function: Optional[Callable[..., Any]] = None
        self.evaluated_function: Optional[Callable[..., Any]] = None
        self.after_function: Optional[Callable[..., Any]] = None
        sessions.end_without_job = (
            "it makes a job and ends without job.run(), which trains; what it has saved is the model as it was made: call "
            "job.run() before"
        )
        self.lines: Dict[str, str] = {}
        """Further lines of identity: what else must be equal on all peers, by name."""

    def shard(self, function: _Function) -> _Function:
        """Makes a function the job's shard: ``function(s)`` returns the sum of the losses of the shard's samples,
        and the number of samples (or any weight by which losses are averaged), and as a third value, where the
        job has ``reports=``, a dict of sums for them. It must not depend on anything but ``s`` and the state."""
        return self._set("shard_function", function)

    def update(self, function: _Function) -> _Function:
        """Makes a function the end of each update: ``function(u)`` is called once, behind the optimizer's step, and
        is the only place that may change ``keep=``, ``job.vars``, learning rates, and what is in the model."""
        return self._set("update_function", function)

    def evaluated(self, function: _Function) -> _Function:
        """Makes a function the end of each evaluation: ``function(u)`` may change and stop what the update function
        may, before the next update: a learning rate that follows a held-out loss, an early end."""
        return self._set("evaluated_function", function)

    @property
    def flags(self) -> int:
        """What the description says of the functions that this job has, and of what its workers answer."""
        return (
            (HAS_ONCE if self.update_function is not None else 0)
            | (ONCE_EVALUATED if self.evaluated_function is not None else 0)
            | (HAS_AFTER if self.after_function is not None else 0)
            | TELLS_SAMPLES
        )

    def function_once(self, phase: Phase) -> Callable[..., Any]:
        """The function for the end of a step."""
        found = self.evaluated_function if phase == Phase.EVALUATE else self.update_function
        assert found is not None
        return found

    def after(self, function: _Function) -> _Function:
        """Makes a function the news of committed steps: ``function(e)`` is called at least once for each on every
        peer, in order, in one process. It may read all of the state and write none of it."""
        return self._set("after_function", function)

    def _set(self, name: str, function: _Function) -> _Function:
        if getattr(self, name) is not None:
            raise Error(f"@job.{name.partition('_')[0]} is given twice")
        if not callable(function):
            raise Error(f"@job.{name.partition('_')[0]} is for a function")
        setattr(self, name, function)
        return function

    def program(self) -> Program:
        """What a worker computes; each library has its own."""
        raise NotImplementedError

    def run(self, dir: Optional[str] = None) -> Result:
        """Runs the job, and returns in one process when it has ended; the model then has the final state.

        On a flock, this process serves its peer. Alone, it starts a peer of its own, which keeps checkpoints in
        ``dir`` and resumes from them; None is a folder that is removed behind the job. Raises Error where the job
        is not possible.
        """
        global _has_run
        if _has_run:
            raise Error("job.run() is called twice: a script has one job, so that a second one needs its own script")
        _has_run = True
        sessions.end_without_job = ""
        if self.shard_function is None:
            raise Error("the job has no shard function: write one and mark it with @job.shard")
        current = sessions.session
        try:
            program = self.program()
            program.probe = self._probe
            if self._probe is not None:
                program.description.lines[LINE] = self._probe.begin(apart=can_fork())
        except Exception as error:
            if current is not None:
                refuse(current, error)
            raise
        identity.close()
        finish = _serve_alone(program, dir) if current is None else serve(current, program)
        identity.open_again()
        while at_end:
            at_end.pop()()
        return Result(finish.steps, finish.updates, finish.reports)


def _serve_alone(program: Program, dir: Optional[str]) -> Finish:
    """Serves a peer of this process's own. Exits with the peer's status where the job has no result."""
    alone = sessions.Alone(identity.script(), sys.argv[1:], dir)
    try:
        finish = serve_alone(alone.session, program)
    except Leave:
        alone.end()
        sys.exit(1)
    alone.end()
    return finish


def refuse(current: "sessions.Session", error: Exception) -> None:
    """Tells the peer why there is no job."""
    try:
        current.tie.send(error_of(error))
    except OSError:
        pass

def context_of(seed: int, step: int, update: int, phase: Phase, shard: int, shards: int) -> ShardContext:
    """The context of a shard, with all generators of the process seeded for it."""
    context = ShardContext(seed, step, update, phase == Phase.TRAIN, shard, shards)
    worker.shard_samples = context.samples
    pin.shard_generators(context.generator_seed)
    return context

def seed_update(seed: int, step: int, part: int) -> None:
    """Seeds all generators for a part of an update."""
    pin.shard_generators(derived(seed, _PURPOSE_UPDATE, step, part))

def vars_of(job: JobBase) -> Dict[str, Any]:
    """The variables as they are."""
    return dict(vars(job.vars))

def set_vars(job: JobBase, values: Mapping[str, Any]) -> None:
    """Makes the variables what the state says."""
    job.vars.__dict__.clear()
    job.vars.__dict__.update(values)
