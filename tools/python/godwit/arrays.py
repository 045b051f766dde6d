"""NumPy: arrays as a job's state, for what is no PyTorch model. JAX takes copies: ``jnp.array(state["w"])``.

    job = arrays.Job(state={"centers": first}, sums={"total": first, "count": numpy.zeros(8)}, shards=12, updates=50)

    @job.shard
    def shard(s, state):            # sums, weight, reports
        ...
        return {"total": total, "count": count}, len(points), {"loss": loss}

    @job.update
    def update(u, state, totals):   # state can be written to
        state["centers"][:] = totals["total"] / numpy.maximum(totals["count"], 1)[:, None]

    state = job.run().state
"""
from __future__ import annotations

import copy
import mmap
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy

from . import blob, identity, job as jobs, session as sessions
from .errors import Error, Refused
from .protocol import (
    CONSTANT, HAS_ONCE, ONCE_EVALUATED, ONCE_ONLY, STATE, SUM, After, Description, DType, Finish, Layout, Once, Options, Part,
    Phase, Shard, SumFlag, Tensor,
)  # fmt: skip
from .worker import Arenas, Program, can_fork

Array = Any
"""A ``numpy.ndarray``; its type parameters differ between versions."""

_DTYPES: Dict[str, DType] = {
    "float32": DType.F32, "float64": DType.F64, "int32": DType.I32, "int64": DType.I64, "uint8": DType.U8,
    "float16": DType.F16, "int16": DType.I16, "int8": DType.I8, "bool": DType.BOOL,
}  # fmt: skip
_SUM_DTYPES = (DType.F32, DType.F64, DType.I64, DType.F16)
_SUM_BITS, _REPORT_BITS, _WEIGHT_BITS = 40, 30, 20
_VARS = "vars:"
_VARS_ROOM = 4096

_blobs = blob.Blobs((lambda value: None, lambda plain: None))


@dataclass(frozen=True)
class ArraysResult(jobs.Result):
    """What ``run()`` returns: ``state`` is the final state, in memory of its own."""

    state: Dict[str, Array]


def _as_array(what: str, value: Any) -> Array:
    array = numpy.ascontiguousarray(value).reshape(numpy.shape(value))
    if str(array.dtype) not in _DTYPES or array.size == 0 or array.ndim > 8:
        raise Error(
            f"{what} has type {array.dtype} and shape {array.shape}: it must have one of the types {', '.join(_DTYPES)}, "
            "at least one element, and at most 8 dimensions"
        )
    return array


class ArraysProgram(Program):
    """Arrays and functions as the worker of a peer. The whole update is ONCE."""

    def __init__(self, job: "Job") -> None:
        self._job = job
        changes = ONCE_ONLY if job.flags & (HAS_ONCE | ONCE_EVALUATED) else CONSTANT
        vars_bytes = _blobs.encode(jobs.vars_of(job), "job.vars")
        size = blob.room_for(vars_bytes, _VARS_ROOM)
        self._first: Dict[str, Array] = dict(job.state)
        self._first[_VARS] = numpy.frombuffer(blob.padded(vars_bytes, size, "job.vars"), dtype=numpy.uint8)
        state = [
            Tensor(STATE, _DTYPES[str(a.dtype)], 0, 0, changes, a.shape, name) for name, a in self._first.items()
        ]
        both = SumFlag.TRAIN | SumFlag.EVALUATE if job.settings.eval_every else SumFlag.TRAIN
        sums: List[Tensor] = []
        for name, a in job.sums.items():
            bits = 0 if a.dtype == numpy.int64 else _SUM_BITS
            sums.append(Tensor(SUM, _DTYPES[str(a.dtype)], int(SumFlag.TRAIN), bits, ONCE_ONLY, a.shape, f"sum:{name}"))
        report = int(both | SumFlag.REPORT | SumFlag.BY_WEIGHT)
        sums.append(Tensor(SUM, DType.F64, int(both), _WEIGHT_BITS, CONSTANT, (), "sum:weight"))
        for name in job.settings.reports:
            sums.append(Tensor(SUM, DType.F64, report, _REPORT_BITS, CONSTANT, (), name))
        s = job.settings
        options = Options(
            s.shards, s.updates, s.eval_every, s.eval_shards, 1, 0.0, job.flags, len(job.sums), 0,
            f"arrays of {sum(a.size for a in job.state.values()):,} numbers", "", identity.data_text(s.data),
        )  # fmt: skip
        self.description = Description(options, state, sums, identity.lines(s.data), can_fork())
        self.layout = Layout(self.description)
        self._sum_names = [*job.sums, "", *job.settings.reports]
        self._seen = b""
        self._shards_verified = 0
        self._vars: Any = None

    def _views(self, memory: mmap.mmap, tensors: Sequence[Tensor], offsets: Sequence[int]) -> List[Array]:
        found: List[Array] = []
        names = {number: name for name, number in _DTYPES.items()}
        for tensor, offset in zip(tensors, offsets):
            dtype = numpy.dtype(names[tensor.dtype])
            found.append(numpy.frombuffer(memory, dtype, tensor.elements, offset).reshape(tensor.shape))
        return found

    def initial(self, memory: mmap.mmap) -> None:
        for tensor, offset in zip(self.description.state, self.layout.state):
            memory[offset : offset + tensor.bytes] = self._first[tensor.name].tobytes()

    def attach(self, arenas: Arenas) -> None:
        names = list(self._first)
        self._state = dict(zip(names, self._views(arenas.state, self.description.state, self.layout.state)))
        self._next = dict(zip(names, self._views(arenas.next, self.description.state, self.layout.state)))
        self._own = self._views(arenas.own, self.description.sums, self.layout.sums)
        self._presence = memoryview(arenas.own)[: len(self._own)]
        self._vars_state, self._vars_next = self._state.pop(_VARS), self._next.pop(_VARS)

    def _see(self, memory: Array) -> None:
        data = memory.tobytes()
        if data != self._seen:
            self._vars, self._seen = _blobs.decode(data), data
        jobs.set_vars(self._job, copy.deepcopy(self._vars))

    def shard(self, request: Shard) -> None:
        job = self._job
        assert job.shard_function is not None
        self._presence[:] = bytes(len(self._presence))
        self._see(self._vars_state)
        context = jobs.context_of(job.seed, request.step, request.update, request.phase, request.shard, request.shards)
        answer = job.shard_function(context, dict(self._state))
        values = answer if isinstance(answer, tuple) else (answer,)
        sums, weight, reports = (*values, 1, {})[:3] if len(values) == 1 else (*values, {})[:3]
        if not isinstance(sums, Mapping) or not isinstance(reports, Mapping):
            raise Refused("the shard function must return a dict of sums, and may return a weight and a dict of reports")
        if request.phase == Phase.TRAIN and set(sums) != set(job.sums):
            raise Refused(f"the shard function returned the sums {sorted(sums)}, but the job has {sorted(job.sums)}")
        if set(reports) != set(job.settings.reports):
            raise Refused(
                f"the shard function returned the reports {sorted(reports)}, but the job has "
                f"reports={sorted(job.settings.reports)}"
            )
        given = {**(sums if request.phase == Phase.TRAIN else {}), "": float(weight), **reports}
        for number, (name, own) in enumerate(zip(self._sum_names, self._own)):
            if name not in given:
                continue
            value = numpy.asarray(given[name])
            if value.shape != own.shape or not numpy.can_cast(value.dtype, own.dtype, "same_kind"):
                raise Refused(
                    f"the shard's '{name}' has type {value.dtype} and shape {value.shape}, but the job has {own.dtype} "
                    f"and {own.shape}"
                )
            own[...] = value
            self._presence[number] = 1
        if self._shards_verified < jobs.SHARDS_VERIFIED or sessions.IS_CHECKED:
            self._shards_verified += 1
            if _blobs.encode(jobs.vars_of(job), "job.vars") != self._seen.rstrip(b"\0"):
                raise Refused("the shard changes job.vars, which is part of the state: only @job.update may change it")

    def part(self, request: Part) -> None:
        """Nothing belongs to a part."""

    def once(self, request: Once) -> bool:
        job = self._job
        self._see(self._vars_next)
        context = jobs.UpdateContext(
            request.step, request.update, dict(request.reports), request.totals.weight, request.totals.norm
        )
        jobs.seed_update(job.seed, request.step, -1)
        totals = dict(zip(job.sums, self._own))
        state = dict(self._next)
        job.function_once(request.phase)(context, state, totals)
        for name, array in self._next.items():
            value = state.get(name)
            if value is not array:
                if value is None or numpy.shape(value) != array.shape:
                    raise Refused(f"the update changes the shape of '{name}', which is part of the state")
                array[...] = value
        data = _blobs.encode(jobs.vars_of(job), "job.vars")
        self._vars_next[:] = numpy.frombuffer(blob.padded(data, self._vars_next.size, "job.vars"), numpy.uint8)
        return bool(context.stop)

    def after(self, request: After) -> None:
        assert self._job.after_function is not None
        self._see(self._vars_state)
        context = jobs.AfterContext(request.step, request.update, request.phase == Phase.TRAIN, dict(request.reports))
        self._job.after_function(context, dict(self._state))

    def finish(self, request: Finish) -> None:
        self._see(self._vars_state)
        self._job.state = {name: array.copy() for name, array in self._state.items()}


class Job(jobs.JobBase):
    """A computation on arrays.

    Args:
        state: the arrays of the state, by name, as they are in the beginning.
        sums: what the shards of an update add up, by name: arrays (or numbers) whose type and shape count; float32,
            float64, int64 or float16.
        reports: names of numbers that shards return besides; divided by the weight, and shown.
        shards, updates, eval_every, eval_shards, data, probe: as for ``godwit.Job``.

    ``@job.shard`` is ``function(s, state)``, which returns a dict of sums, a weight (1) and a dict of reports;
    ``@job.update`` is ``function(u, state, totals)``, which writes to the state or puts new arrays into the dict;
    ``@job.evaluated`` is the same for the end of an evaluation, to which no array is added;
    ``@job.after`` is ``function(e, state)``. Raises Error for arguments that are not possible.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        sums: Mapping[str, Any],
        *,
        shards: int,
        updates: int = 0,
        reports: Sequence[str] = (),
        eval_every: int = 0,
        eval_shards: int = 0,
        data: Sequence[Any] = (),
        probe: Union[bool, Callable[[], Any]] = False,
    ) -> None:
        settings = jobs.check_settings(
            shards, updates, None, eval_every, eval_shards, data, reports, None, ("weight", "norm")
        )
        super().__init__(settings, probe)
        self.state: Dict[str, Array] = {n: _as_array(f"state {n!r}", a) for n, a in state.items()}
        self.sums: Dict[str, Array] = {n: _as_array(f"sums {n!r}", a) for n, a in sums.items()}
        for name, array in self.sums.items():
            if _DTYPES[str(array.dtype)] not in _SUM_DTYPES:
                raise Error(f"sums {name!r} has type {array.dtype}; it must be float32, float64, int64 or float16")
        for name in (*state, *sums):
            if not name or ":" in name or name.startswith("godwit."):
                raise Error(f"{name!r} is no name for an array: it has a colon, or begins with 'godwit.'")
        if not self.state:
            raise Error("the state has no array")

    def program(self) -> ArraysProgram:
        return ArraysProgram(self)

    def run(self, dir: Optional[str] = None) -> ArraysResult:
        """As ``godwit.Job.run``; the result has the final state."""
        found = super().run(dir)
        return ArraysResult(found.steps, found.updates, found.reports, self.state)


__all__: Tuple[str, ...] = ("ArraysResult", "Job")
