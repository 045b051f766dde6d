"""A peer in Python, for ``godwit check``: it starts processes of a script and asks them for shards and updates.

It adds contributions in double precision, in the order of the shards, which is enough to go from one state to the
next. It is no peer of a flock: results of jobs come from the program ``godwit`` alone.
"""
from __future__ import annotations

import array
import hashlib
import mmap
import os
import socket
import struct
import subprocess
import sys
from typing import Dict, List, Optional, Sequence, Tuple

from . import pin
from .errors import Error
from .protocol import (
    ALIKE, HAS_ONCE, NO_WEIGHT, ONCE_ONLY, Description, DType, Fault, Kind, Layout, Options, Part, Phase,
    ProtocolError, Reader, Role, Shard, SumFlag, Tensor, Tie, Totals, Welcome, Writer,
)  # fmt: skip

_CODES = {DType.F32: "f", DType.F64: "d", DType.I64: "q", DType.F16: "e"}


class Failed(Error):
    """A process has answered with an error, or has ended."""


def _memory(name: str, size: int) -> Tuple[int, mmap.mmap]:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    return fd, mmap.mmap(fd, size)


class Process:
    """A process of a script that has described its job."""

    def __init__(
        self, script: str, argv: Sequence[str], seed: int, threads: int, hash_seed: int, python: str = sys.executable
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.send(Welcome(Role.WORKER, True, 1, threads, seed, "", "").write().bytes)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "MKL_", "OPENBLAS_"))}
        environment.update(pin.environment(threads))
        environment.update(
            PYTHONHASHSEED=str(hash_seed), PYTHONUNBUFFERED="1", GODWIT_WORKER_FD=str(theirs.fileno())
        )
        self._process = subprocess.Popen(
            [python, script, *argv], pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._tie = Tie(ours.detach())
        self._expect(Kind.HELLO)
        self.description = self._describe()
        self.layout = Layout(self.description)

    def _receive(self) -> Reader:
        try:
            message, fds = self._tie.receive()
        except EOFError:
            raise Failed(f"the script has ended with status {self._process.wait()} before the job had") from None
        for fd in fds:
            os.close(fd)
        if message.kind == Kind.ERROR:
            (fault,) = message.get("B")
            file = message.text()
            (line,) = message.get("I")
            text = message.text()
            place = f"{file}:{line}: " if file else ""
            raise Failed(place + (text if fault == Fault.REFUSED else text.splitlines()[-1]))
        return message

    def _expect(self, kind: Kind) -> Reader:
        message = self._receive()
        if message.kind != kind:
            raise ProtocolError(f"the script's process sent {message.kind.name} instead of {kind.name}")
        return message

    def _describe(self) -> Description:
        found = Description(Options.read(self._expect(Kind.OPTIONS)))
        while True:
            message = self._receive()
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

    def ask(self, message: Writer, fds: Sequence[int] = ()) -> Reader:
        """Sends a request and waits for its answer."""
        self._tie.send(message, fds)
        return self._receive()

    def initial(self) -> bytes:
        """S_0, as it lies in *state*."""
        fd, memory = _memory("initial", self.layout.state_bytes)
        with memory:
            self.ask(Writer(Kind.INIT), [fd])
            os.close(fd)
            return memory[:]

    def attach(self) -> None:
        """Gives the process its arenas."""
        size = self.layout.state_bytes
        state_fd, self.state = _memory("state", size)
        next_fd, self.next = _memory("next", size)
        own_fd, self.own = _memory("own", self.layout.own_bytes)
        fds = [state_fd, next_fd, own_fd]
        self.ask(Writer(Kind.ARENAS).put("QQ", size, self.layout.own_bytes), fds)
        for fd in fds:
            os.close(fd)

    def shard(self, request: Shard) -> Dict[str, bytes]:
        """The contributions to each sum, by name; a sum that the shard leaves out is not there."""
        self.ask(request.write())
        wanted = SumFlag.TRAIN if request.phase == Phase.TRAIN else SumFlag.EVALUATE
        found: Dict[str, bytes] = {}
        for number, (tensor, at) in enumerate(zip(self.description.sums, self.layout.sums)):
            if tensor.flags & wanted and self.own[number]:
                found[tensor.name] = self.own[at : at + tensor.bytes]
        return found

    def update(self, step: int, update: int, shards: Sequence[Dict[str, bytes]]) -> None:
        """Computes the next state from contributions, and makes it the state."""
        totals, reports = self._totals(shards)
        copies: Dict[int, bytes] = {}
        for part in range(self.description.options.parts):
            self._write_totals(shards, totals, part)
            self.ask(Part(step, update, part, totals).write())
            for number, at in self.layout.copies.items():
                copies[number] = self.own[at : at + self.description.state[number].bytes]
        for number, tensor in enumerate(self.description.state):
            at = self.layout.state[number]
            if number in copies:
                self.next[at : at + tensor.bytes] = copies[number]
            elif tensor.part >= self.description.options.parts:
                self.next[at : at + tensor.bytes] = self.state[at : at + tensor.bytes]
        if self.description.options.flags & HAS_ONCE:
            self._write_totals(shards, totals, ONCE_ONLY)
            message = totals.write(Writer(Kind.ONCE).put("QQB", step, update, Phase.TRAIN)).put("H", len(reports))
            for name, value in reports.items():
                message.text(name).put("d", value)
            self.ask(message)
        self.state[:] = self.next[:]

    def _totals(self, shards: Sequence[Dict[str, bytes]]) -> Tuple[Totals, Dict[str, float]]:
        options, sums = self.description.options, self.description.sums
        weight = float(len(shards))
        if options.weight != NO_WEIGHT:
            weight = sum(self._added(sums[options.weight], shards))
        totals = Totals(len(shards), weight, 1.0, 1.0)  # nothing is clipped: it is no matter for purity
        reports = {t.name: sum(self._added(t, shards)) / weight for t in sums if t.flags & SumFlag.REPORT}
        return totals, reports

    @staticmethod
    def _values(tensor: Tensor, data: bytes) -> Sequence[float]:
        if tensor.dtype == DType.BF16:
            return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
        if tensor.dtype == DType.F16:
            return struct.unpack(f"<{tensor.elements}e", data)
        found = array.array(_CODES[tensor.dtype])
        found.frombytes(data)
        return found

    def _added(self, tensor: Tensor, shards: Sequence[Dict[str, bytes]]) -> List[float]:
        found = [0.0] * tensor.elements
        for shard in shards:
            if tensor.name in shard:
                found = [a + b for a, b in zip(found, self._values(tensor, shard[tensor.name]))]
        return found

    def _write_totals(self, shards: Sequence[Dict[str, bytes]], totals: Totals, part: int) -> None:
        for tensor, at in zip(self.description.sums, self.layout.sums):
            if tensor.part not in (part, ALIKE):
                continue
            divisor = 1.0
            if tensor.flags & SumFlag.BY_WEIGHT:
                divisor = totals.weight
            elif tensor.flags & SumFlag.BY_SHARDS:
                divisor = float(totals.shards)
            values = [value / divisor for value in self._added(tensor, shards)]
            if tensor.dtype == DType.I64:
                data = struct.pack(f"<{len(values)}q", *(int(v) for v in values))
            elif tensor.dtype == DType.BF16:
                data = b"".join(struct.pack("<f", v)[2:] for v in values)
            else:
                data = struct.pack(f"<{len(values)}{_CODES[tensor.dtype]}", *values)
            self.own[at : at + len(data)] = data

    def end(self) -> None:
        """Ends the process."""
        try:
            self._tie.send(Writer(Kind.LEAVE))
        except OSError:
            pass
        self._tie.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def first_difference(tensors: Sequence[Tensor], offsets: Sequence[int], a: bytes, b: bytes) -> Optional[str]:
    """The name of the first tensor in which two arenas differ."""
    for tensor, at in zip(tensors, offsets):
        if a[at : at + tensor.bytes] != b[at : at + tensor.bytes]:
            return tensor.name
    return None


def digest(contributions: Dict[str, bytes]) -> Dict[str, str]:
    """The contributions in few bytes."""
    return {name: hashlib.blake2b(data, digest_size=16).hexdigest() for name, data in contributions.items()}
