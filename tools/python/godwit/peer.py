"""A peer in Python, for ``godwit check``: it starts processes of a script and asks them for shards and updates.

It adds contributions in double precision, in the order of the shards, which is enough to go from one state to the
next. It is no peer of a flock: results of jobs come from the program ``godwit`` alone.
"""
from __future__ import annotations

import array
import mmap
import os
import select
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import pin
from .errors import Error
from .protocol import (
    ALIKE, HAS_ONCE, NO_WEIGHT, ONCE_EVALUATED, ONCE_ONLY, Description, DType, Fault, Kind, Layout, Options, Part, Phase,
    ProtocolError, Reader, Role, Shard, SumFlag, Tensor, Tie, Totals, Welcome, Writer, digest,
)  # fmt: skip

_CODES = {DType.F32: "f", DType.F64: "d", DType.I64: "q", DType.F16: "e"}

try:
    import numpy as _numpy
except ImportError:  # a program that needs no NumPy has sums that lists can hold
    _numpy = None  # type: ignore[assignment,unused-ignore]

Digests = Dict[str, bytes]
"""The digest of each tensor, or of what a shard gives to each sum, by name."""


class Failed(Error):
    """A process has answered with an error, or has ended. ``refused``: the program is no possible job."""

    def __init__(self, text: str, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class Late(Failed):
    """A process has not answered within the time that there is."""


class Unlike(Failed):
    """Two parts of an update have left other bytes in a state tensor that all of them write alike."""

    def __init__(self, tensor: str, part: int) -> None:
        super().__init__(f"part {part} of the update leaves '{tensor}' otherwise than part 0", True)
        self.tensor = tensor
        self.part = part


def _memory(name: str, size: int) -> Tuple[int, mmap.mmap]:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    return fd, mmap.mmap(fd, size)


class Sums:
    """Contributions of shards of a step, added up in double precision. A shard that is computed may stand for others,
    which are not: a program may count on the contributions of all shards of the step."""

    def __init__(self) -> None:
        self.shards = 0
        self._values: Dict[str, Any] = {}

    def add(self, tensor: Tensor, data: bytes, times: int) -> None:
        """Adds what a shard gives to a sum, so many times."""
        values, before = _decoded(tensor, data), self._values.get(tensor.name)
        values = [times * value for value in values] if _numpy is None else times * values
        if _numpy is None and before is not None:
            values = [a + b for a, b in zip(before, values)]
        elif before is not None:
            values = before + values
        self._values[tensor.name] = values

    def value(self, tensor: Tensor) -> float:
        """The sum of one element, or 0 where no shard gave any."""
        return float(self._values[tensor.name][0]) if tensor.name in self._values else 0.0

    def total(self, tensor: Tensor, divisor: float) -> bytes:
        """The sum divided by something, in the sum's own type."""
        values = self._values.get(tensor.name)
        if values is None:
            return bytes(tensor.bytes)
        if _numpy is None:
            return _encoded(tensor, [value / divisor for value in values])
        return _encoded(tensor, values / divisor)


def _decoded(tensor: Tensor, data: bytes) -> Any:
    """The values of a sum as doubles."""
    if tensor.dtype == DType.BF16:  # the upper half of a float
        data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
    code = "f" if tensor.dtype == DType.BF16 else _CODES[tensor.dtype]
    if _numpy is not None:
        return _numpy.frombuffer(data, code).astype(float)
    if code == "e":
        return struct.unpack(f"<{tensor.elements}e", data)
    found = array.array(code)
    found.frombytes(data)
    return found


def _encoded(tensor: Tensor, values: Any) -> bytes:
    if tensor.dtype == DType.BF16:
        return b"".join(struct.pack("<f", float(v))[2:] for v in values)
    if _numpy is not None:
        return bytes(_numpy.asarray(values).astype(_CODES[tensor.dtype]).tobytes())
    if tensor.dtype == DType.I64:
        return struct.pack(f"<{len(values)}q", *(int(v) for v in values))
    return struct.pack(f"<{len(values)}{_CODES[tensor.dtype]}", *values)


class Process:
    """A process of a script."""

    def __init__(
        self, script: str, argv: Sequence[str], seed: int, threads: int, hash_seed: int, until: float
    ) -> None:
        """Starts it. ``until`` is when (``time.monotonic``) the last answer has to be there."""
        self._until = until
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.send(Welcome(Role.WORKER, True, 1, threads, 0, seed, "", "").write().bytes)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "MKL_", "OPENBLAS_"))}
        environment.update(pin.environment(threads))
        environment.update(
            PYTHONHASHSEED=str(hash_seed), PYTHONUNBUFFERED="1", GODWIT_WORKER_FD=str(theirs.fileno()), GODWIT_CHECK="1"
        )
        self._process = subprocess.Popen(
            [sys.executable, script, *argv], pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._tie = Tie(ours.detach())
        self._generation = 0
        self.warnings: List[str] = []
        """What it has warned people of."""

    def describe(self) -> None:
        """Waits until the script has described its job: ``description`` and ``layout`` are there then."""
        self._expect(Kind.HELLO, "the script's start")
        self.description = self._describe()
        self.layout = Layout(self.description)

    def _receive(self, what: str) -> Reader:
        poll = select.poll()
        poll.register(self._tie.fileno(), select.POLLIN)
        if not poll.poll(max(0.0, self._until - time.monotonic()) * 1000):
            self._process.kill()
            raise Late(f"{what} has not ended")
        try:
            message, fds = self._tie.receive()
        except EOFError:
            raise Failed(f"the script has ended with status {self._process.wait()} before the job had") from None
        for fd in fds:
            os.close(fd)
        if message.kind == Kind.LOG:
            (level,) = message.get("B")
            text = message.text()
            if level > 1 and text not in self.warnings:
                self.warnings.append(text)
            return self._receive(what)
        if message.kind == Kind.ERROR:
            (fault,) = message.get("B")
            file = message.text()
            (line,) = message.get("I")
            text = message.text()
            place = f"{file}:{line}: " if file else ""
            refused = fault == Fault.REFUSED
            raise Failed(place + (text if refused else text.splitlines()[-1]), refused)
        return message

    def _expect(self, kind: Kind, what: str) -> Reader:
        message = self._receive(what)
        if message.kind != kind:
            raise ProtocolError(f"the script's process sent {message.kind.name} instead of {kind.name}")
        return message

    def _describe(self) -> Description:
        found = Description(Options.read(self._expect(Kind.OPTIONS, "the script's way to job.run()")))
        while True:
            message = self._receive("the script's way to job.run()")
            if message.kind == Kind.DESCRIBED:
                return found
            (count,) = message.get("H")
            for _ in range(count):
                if message.kind == Kind.TENSORS:
                    tensor = Tensor.read(message)
                    (found.state if tensor.role == 1 else found.sums).append(tensor)
                else:
                    name = message.text()
                    found.lines[name] = message.text()

    def ask(self, message: Writer, what: str, fds: Sequence[int] = ()) -> Reader:
        """Sends a request and waits for its answer. ``what`` names it in an error."""
        self._tie.send(message, fds)
        return self._receive(what)

    def initial(self) -> bytes:
        """S_0, as it lies in *state*."""
        fd, memory = _memory("initial", self.layout.state_bytes)
        with memory:
            self.ask(Writer(Kind.INIT), "the initial state", [fd])
            os.close(fd)
            return memory[:]

    def attach(self) -> None:
        """Gives the process its arenas."""
        size = self.layout.state_bytes
        state_fd, self.state = _memory("state", size)
        next_fd, self.next = _memory("next", size)
        own_fd, self.own = _memory("own", self.layout.own_bytes)
        fds = [state_fd, next_fd, own_fd]
        self.ask(Writer(Kind.ARENAS).put("QQ", size, self.layout.own_bytes), "the first look at the state", fds)
        for fd in fds:
            os.close(fd)

    def set_state(self, data: bytes) -> None:
        """Makes these bytes the state."""
        self.state[:] = data
        self._generation += 1

    def shard(self, request: Shard, sums: Optional[Sums] = None, times: int = 1) -> Digests:
        """Computes a shard. What it gives is also added to ``sums``, for so many shards; a sum that it leaves out has
        no digest."""
        request = request._replace(generation=self._generation)
        self.ask(request.write(), f"shard {request.shard} at update {request.update}")
        wanted = SumFlag.TRAIN if request.phase == Phase.TRAIN else SumFlag.EVALUATE
        found: Digests = {}
        if sums is not None:
            sums.shards += times
        for number, (tensor, at) in enumerate(zip(self.description.sums, self.layout.sums)):
            if tensor.flags & wanted and self.own[number]:
                found[tensor.name] = digest(self.own, at, tensor.bytes)
                if sums is not None:
                    sums.add(tensor, self.own[at : at + tensor.bytes], times)
        return found

    def digests(self) -> Digests:
        """The state's tensors."""
        places = zip(self.description.state, self.layout.state)
        return {tensor.name: digest(self.state, at, tensor.bytes) for tensor, at in places}

    def update(self, step: int, update: int, sums: Sums) -> None:
        """Computes the next state from the sums of a step, and makes it the state. Raises Unlike where parts
        differ in what they are to write alike."""
        what = f"update {update}"
        totals = self._totals(sums)
        copies: Dict[int, bytes] = {}
        for part in range(self.description.options.parts):
            self._write_totals(sums, totals, part)
            self.ask(Part(step, update, self._generation, part, totals).write(), what)
            for number, at in self.layout.copies.items():
                tensor = self.description.state[number]
                data = self.own[at : at + tensor.bytes]
                if copies.setdefault(number, data) != data:
                    raise Unlike(tensor.name, part)
        for number, tensor in enumerate(self.description.state):
            at = self.layout.state[number]
            if number in copies:
                self.next[at : at + tensor.bytes] = copies[number]
            elif tensor.part >= self.description.options.parts:
                self.next[at : at + tensor.bytes] = self.state[at : at + tensor.bytes]
        if self.description.options.flags & HAS_ONCE:
            self._once(step, update, Phase.TRAIN, totals, sums)
        self.set_state(self.next[:])

    def evaluated(self, step: int, update: int, sums: Sums) -> bool:
        """Ends an evaluation, and makes the state what that leaves. Returns False where the program has nothing to do
        then."""
        if not self.description.options.flags & ONCE_EVALUATED:
            return False
        self.next[:] = self.state[:]
        self._once(step, update, Phase.EVALUATE, self._totals(sums), sums)
        self.set_state(self.next[:])
        return True

    def _once(self, step: int, update: int, phase: Phase, totals: Totals, sums: Sums) -> None:
        self._write_totals(sums, totals, ONCE_ONLY)
        wanted, prefix = (SumFlag.TRAIN, "") if phase == Phase.TRAIN else (SumFlag.EVALUATE, "val_")
        found = [t for t in self.description.sums if t.flags & SumFlag.REPORT and t.flags & wanted]
        message = totals.write(Writer(Kind.ONCE).put("QQBQ", step, update, phase, self._generation)).put("H", len(found))
        for tensor in found:
            message.text(prefix + tensor.name).put("d", sums.value(tensor) / totals.weight)
        self.ask(message, f"the end of {'update' if phase == Phase.TRAIN else 'the evaluation at update'} {update}")

    def _totals(self, sums: Sums) -> Totals:
        weight = float(sums.shards)
        if self.description.options.weight != NO_WEIGHT:
            weight = sums.value(self.description.sums[self.description.options.weight])
        if not weight > 0:
            raise Failed(f"the weights of the shards that are computed add up to {weight:g}: more of them (--shards) may have samples")
        return Totals(sums.shards, weight, 1.0, 1.0)  # nothing is clipped: it is no matter for purity

    def _write_totals(self, sums: Sums, totals: Totals, part: int) -> None:
        for tensor, at in zip(self.description.sums, self.layout.sums):
            if tensor.part not in (part, ALIKE):
                continue
            divisor = 1.0
            if tensor.flags & SumFlag.BY_WEIGHT:
                divisor = totals.weight
            elif tensor.flags & SumFlag.BY_SHARDS:
                divisor = float(totals.shards)
            self.own[at : at + tensor.bytes] = sums.total(tensor, divisor)

    def end(self) -> None:
        """Ends the process, which has nothing to lose."""
        self._tie.close()
        self._process.kill()
        self._process.wait()


def first_difference(a: Digests, b: Digests) -> Optional[str]:
    """The name of the first tensor in which two results differ."""
    for name in (*a, *b):
        if a.get(name) != b.get(name):
            return name
    return None
