"""The messages between a peer and the worker processes of a program, and the tie that carries them.

kernels/program/README.md is the protocol: what each message means, who sends it when, and what both sides
check. This module is its codec for both directions, since ``godwit check`` plays the part of a peer. It knows
nothing of tensors' contents, PyTorch or NumPy.
"""
from __future__ import annotations

import array
import enum
import hashlib
import mmap
import os
import socket
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Dict, List, NamedTuple, Sequence, Tuple

VERSION = 1
MESSAGE_MOST = 65536
TEXT_MOST = 60000
LINE_VALUE_MOST = 1000
DESCRIPTORS_MOST = 3

CONSTANT = 0xFFFFFFFD
"""``part`` of a state tensor that never changes, or of a sum whose total nobody is given."""
ALIKE = 0xFFFFFFFE
"""``part`` of a state tensor that every part writes with the same bytes; of a sum that all are given."""
ONCE_ONLY = 0xFFFFFFFF
"""``part`` of a state tensor that ONCE writes, or of a sum that is given to ONCE."""
NO_WEIGHT = 0xFFFFFFFF
ALIGN = 64


class ProtocolError(Exception):
    """The other side sent what the protocol does not allow."""


class Kind(enum.IntEnum):
    """The kinds of messages."""

    WELCOME = 1
    INIT = 2
    ARENAS = 3
    SHARD = 4
    PART = 5
    ONCE = 6
    AFTER = 7
    FORK = 8
    FINISH = 9
    LEAVE = 10
    SAMPLES = 11
    HELLO = 64
    OPTIONS = 65
    TENSORS = 66
    IDENTITY = 67
    DESCRIBED = 68
    DONE = 69
    UPDATED = 70
    FORKED = 71
    ERROR = 72
    LOG = 73
    GONE = 74
    SAMPLED = 75


_KINDS: Dict[int, Kind] = {int(kind): kind for kind in Kind}  # looked up faster than by the class


class Role(enum.IntEnum):
    """What a process is to its peer."""

    FIRST = 1
    WORKER = 2
    FORK = 3


class Fault(enum.IntEnum):
    """Why a request failed."""

    RAISED = 1
    REFUSED = 2
    UNABLE = 3


class DType(enum.IntEnum):
    """The types of elements."""

    F32 = 1
    F64 = 2
    I32 = 3
    I64 = 4
    U8 = 5
    BF16 = 6
    F16 = 7
    I16 = 8
    I8 = 9
    BOOL = 10

    @property
    def bytes(self) -> int:
        """The bytes of an element."""
        return _DTYPE_BYTES[self]


_DTYPE_BYTES: Dict[DType, int] = {
    DType.F32: 4, DType.F64: 8, DType.I32: 4, DType.I64: 8, DType.U8: 1,
    DType.BF16: 2, DType.F16: 2, DType.I16: 2, DType.I8: 1, DType.BOOL: 1,
}  # fmt: skip


class Phase(enum.IntEnum):
    """What a step is for."""

    TRAIN = 1
    EVALUATE = 2


_PHASES: Dict[int, Phase] = {int(phase): phase for phase in Phase}


class SumFlag(enum.IntFlag):
    """What a sum is for, and how its total is made."""

    TRAIN = 1
    EVALUATE = 2
    NORM = 4
    REPORT = 8
    BY_WEIGHT = 16
    BY_SHARDS = 32


HAS_ONCE = 1
HAS_AFTER = 2
ONCE_EVALUATED = 4
TELLS_SAMPLES = 8
SAMPLES_MOST = 8000
"""The most numbers of samples in a SAMPLED."""
APPLY_ONLY = 1

STATE = 1
SUM = 2


@lru_cache(maxsize=256)
def _layout(fields: str) -> struct.Struct:
    """Fields as they lie in a message: ``struct``'s letters for them, little-endian and not padded."""
    return struct.Struct("<" + fields)


class Writer:
    """The bytes of a message that is being written."""

    def __init__(self, kind: Kind) -> None:
        self.bytes = bytearray((VERSION, kind))

    def put(self, layout: str, *values: float) -> "Writer":
        """Appends integers or doubles, as a ``struct`` layout without its byte order."""
        self.bytes += _layout(layout).pack(*values)
        return self

    def text(self, text: str) -> "Writer":
        """Appends a string; a character NUL, which no string may have, becomes U+FFFD."""
        data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
        self.bytes += struct.pack("<H", len(data)) + data
        return self


class Reader:
    """The fields of a message that was received."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2
        if len(data) < 2:
            raise ProtocolError(f"a message has {len(data)} bytes")
        if data[0] != VERSION:
            raise ProtocolError(
                f"the peer speaks version {data[0]} of the workers' protocol, this module version {VERSION}: "
                "install the same release of godwit's binary and module"
            )
        if data[1] not in _KINDS:
            raise ProtocolError(f"there is no message of kind {data[1]}")
        self.kind = _KINDS[data[1]]

    def get(self, layout: str) -> Tuple[int, ...]:
        """Reads integers."""
        fields, at = _layout(layout), self._at
        self._at += fields.size
        if self._at > len(self._data):
            raise ProtocolError(f"{self.kind.name} is cut short")
        return fields.unpack_from(self._data, at)

    def double(self) -> float:
        """Reads an f64."""
        return float(self.get("d")[0])

    def text(self) -> str:
        """Reads a string."""
        (length,) = self.get("H")
        if self._at + length > len(self._data):
            raise ProtocolError(f"{self.kind.name} is cut short")
        data = self._data[self._at : self._at + length]
        self._at += length
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise ProtocolError(f"{self.kind.name} has a text that is no UTF-8") from None
        if "\0" in text:
            raise ProtocolError(f"{self.kind.name} has a text with a character NUL")
        return text

    def reports(self) -> Dict[str, float]:
        """Reads names and values of reports."""
        (count,) = self.get("H")
        found: Dict[str, float] = {}
        for _ in range(count):
            name = self.text()
            found[name] = self.double()
        return found

    def end(self) -> None:
        """Checks that the message has no more bytes."""
        if self._at != len(self._data):
            raise ProtocolError(f"{self.kind.name} has {len(self._data) - self._at} bytes too many")


# Messages from the peer.


@dataclass(frozen=True)
class Welcome:
    """What a process is told first. ``seed`` is the job's, ``threads`` those of a computation, ``slot`` the place
    of this process among the workers of its peer."""

    role: Role
    leads: bool
    serial: int
    threads: int
    slot: int
    seed: int
    build: str
    cpu_class: str

    @staticmethod
    def read(r: Reader) -> "Welcome":
        """Reads WELCOME."""
        role, leads, serial, threads, slot, seed = r.get("BBIIIQ")
        build = r.text()
        cpu_class = r.text()
        r.end()
        try:
            return Welcome(Role(role), leads != 0, serial, threads, slot, seed, build, cpu_class)
        except ValueError:
            raise ProtocolError(f"WELCOME names role {role}") from None

    def write(self) -> Writer:
        """Writes WELCOME."""
        w = Writer(Kind.WELCOME)
        w.put("BBIIIQ", self.role, self.leads, self.serial, self.threads, self.slot, self.seed)
        return w.text(self.build).text(self.cpu_class)


class Shard(NamedTuple):
    """A request for one shard. ``update`` is the number of updates that the state has seen; ``generation`` is
    another number whenever the contents of *state* have changed."""

    step: int
    update: int
    phase: Phase
    generation: int
    shard: int
    shards: int

    @staticmethod
    def read(r: Reader) -> "Shard":
        """Reads SHARD."""
        step, update, phase, generation, shard, shards = r.get("QQBQII")
        r.end()
        if phase not in _PHASES or shard >= shards:
            raise ProtocolError(f"SHARD names shard {shard} of {shards} in phase {phase}")
        return Shard(step, update, _PHASES[phase], generation, shard, shards)

    def write(self) -> Writer:
        """Writes SHARD."""
        return Writer(Kind.SHARD).put(
            "QQBQII", self.step, self.update, self.phase, self.generation, self.shard, self.shards
        )


@dataclass(frozen=True)
class Totals:
    """What is known of a step's sums as a whole: ``shards``, the summed ``weight``, the ``norm`` of the
    gradient before clipping, and the ``factor`` that clips it."""

    shards: int
    weight: float
    norm: float
    factor: float

    @staticmethod
    def read(r: Reader) -> "Totals":
        """Reads the fields."""
        (shards,) = r.get("I")
        return Totals(shards, r.double(), r.double(), r.double())

    def write(self, w: Writer) -> Writer:
        """Writes the fields."""
        return w.put("Iddd", self.shards, self.weight, self.norm, self.factor)


@dataclass(frozen=True)
class Part:
    """A request for one part of an update."""

    step: int
    update: int
    generation: int
    part: int
    totals: Totals

    @staticmethod
    def read(r: Reader) -> "Part":
        """Reads PART."""
        step, update, generation, part = r.get("QQQI")
        totals = Totals.read(r)
        r.end()
        return Part(step, update, generation, part, totals)

    def write(self) -> Writer:
        """Writes PART."""
        w = Writer(Kind.PART).put("QQQI", self.step, self.update, self.generation, self.part)
        return self.totals.write(w)


@dataclass(frozen=True)
class Once:
    """A request for what is done once in an update, behind all parts, or behind an evaluation."""

    step: int
    update: int
    phase: Phase
    generation: int
    totals: Totals
    reports: Dict[str, float]

    @staticmethod
    def read(r: Reader) -> "Once":
        """Reads ONCE."""
        step, update, phase, generation = r.get("QQBQ")
        if phase not in (1, 2):
            raise ProtocolError(f"ONCE names phase {phase}")
        totals = Totals.read(r)
        reports = r.reports()
        r.end()
        return Once(step, update, Phase(phase), generation, totals, reports)


@dataclass(frozen=True)
class After:
    """The news of a committed step, with the newest reports."""

    step: int
    update: int
    phase: Phase
    generation: int
    reports: Dict[str, float]

    @staticmethod
    def read(r: Reader) -> "After":
        """Reads AFTER."""
        step, update, phase, generation = r.get("QQBQ")
        reports = r.reports()
        r.end()
        if phase not in (1, 2):
            raise ProtocolError(f"AFTER names phase {phase}")
        return After(step, update, Phase(phase), generation, reports)


@dataclass(frozen=True)
class Finish:
    """The news of the job's end."""

    steps: int
    updates: int
    generation: int
    reports: Dict[str, float]

    @staticmethod
    def read(r: Reader) -> "Finish":
        """Reads FINISH."""
        steps, updates, generation = r.get("QQQ")
        reports = r.reports()
        r.end()
        return Finish(steps, updates, generation, reports)


# The description of a job.


@dataclass(frozen=True)
class Tensor:
    """A state tensor or a sum, as TENSORS describes it. A tensor of shape () has one element."""

    role: int
    dtype: DType
    flags: int
    frac_bits: int
    part: int
    shape: Tuple[int, ...]
    name: str

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return self.elements * self.dtype.bytes

    def write(self, w: Writer) -> None:
        """Appends the tensor."""
        w.put("BBBBI", self.role, self.dtype, self.flags, self.frac_bits, self.part)
        w.put(f"B{len(self.shape)}Q", len(self.shape), *self.shape).text(self.name)

    @staticmethod
    def read(r: Reader) -> "Tensor":
        """Reads a tensor."""
        role, dtype, flags, frac_bits, part, rank = r.get("BBBBIB")
        return Tensor(role, DType(dtype), flags, frac_bits, part, r.get(f"{rank}Q"), r.text())


@dataclass
class Options:
    """What OPTIONS says of a job; the page has the meaning of each field."""

    shards: int
    updates: int = 0
    eval_every: int = 0
    eval_shards: int = 0
    parts: int = 1
    clip: float = 0.0
    flags: int = 0
    weight: int = NO_WEIGHT
    workers: int = 0
    model_text: str = ""
    length_text: str = ""
    data_text: str = ""

    def write(self) -> Writer:
        """Writes OPTIONS."""
        w = Writer(Kind.OPTIONS)
        w.put("IQQIIdBII", self.shards, self.updates, self.eval_every, self.eval_shards, self.parts, self.clip,
              self.flags, self.weight, self.workers)  # fmt: skip
        for text in (self.model_text, self.length_text, self.data_text):
            w.text(clipped(text, 150))
        return w

    @staticmethod
    def read(r: Reader) -> "Options":
        """Reads OPTIONS."""
        shards, updates, eval_every, eval_shards, parts = r.get("IQQII")
        clip = r.double()
        flags, weight, workers = r.get("BII")
        return Options(shards, updates, eval_every, eval_shards, parts, clip, flags, weight, workers, r.text(),
                       r.text(), r.text())  # fmt: skip


@dataclass
class Description:
    """All that a program says of its job. ``lines`` are the lines of identity, by name."""

    options: Options
    state: List[Tensor] = field(default_factory=list)
    sums: List[Tensor] = field(default_factory=list)
    lines: Dict[str, str] = field(default_factory=dict)
    can_fork: bool = False

    def messages(self) -> List[Writer]:
        """The messages of the description, DESCRIBED included."""
        tensors: List[bytes] = []
        for tensor in (*self.state, *self.sums):
            one = Writer(Kind.TENSORS)
            tensor.write(one)
            tensors.append(bytes(one.bytes[2:]))
        lines: List[bytes] = []
        for name in sorted(self.lines, key=lambda n: n.encode()):
            line = Writer(Kind.IDENTITY).text(name).text(clipped(self.lines[name], LINE_VALUE_MOST))
            lines.append(bytes(line.bytes[2:]))
        found = [self.options.write()]
        found += _batches(Kind.TENSORS, tensors) + _batches(Kind.IDENTITY, lines)
        found.append(Writer(Kind.DESCRIBED).put("BII", self.can_fork, len(tensors), len(lines)))
        return found


def _batches(kind: Kind, entries: Sequence[bytes]) -> List[Writer]:
    """Puts entries into as many messages as they need."""
    found: List[Writer] = []
    at = 0
    while at < len(entries):
        size, end = 4, at
        while end < len(entries) and size + len(entries[end]) <= MESSAGE_MOST and end - at < 65535:
            size += len(entries[end])
            end += 1
        w = Writer(kind).put("H", end - at)
        for entry in entries[at:end]:
            w.bytes += entry
        found.append(w)
        at = end
    return found


def clipped(text: str, most: int) -> str:
    """The text without control characters, and as much of it as has at most ``most`` bytes of UTF-8."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


class Layout:
    """Where everything lies in the arenas: offsets in bytes, in the order of the description.

    ``state[i]`` is the place of state tensor i in *state* and *next*, ``sums[i]`` that of sum i in *own*,
    ``copies[i]`` that of the copy in *own* of state tensor i, for those that all parts write alike.
    """

    def __init__(self, description: Description) -> None:
        self.state: List[int] = []
        self.sums: List[int] = []
        self.copies: Dict[int, int] = {}
        end = 0
        for tensor in description.state:
            self.state.append(aligned(end))
            end = self.state[-1] + tensor.bytes
        self.state_bytes = aligned(end)
        end = len(description.sums)
        for tensor in description.sums:
            self.sums.append(aligned(end))
            end = self.sums[-1] + tensor.bytes
        for number, tensor in enumerate(description.state):
            if tensor.part == ALIKE:
                self.copies[number] = aligned(end)
                end = self.copies[number] + tensor.bytes
        self.own_bytes = aligned(end)


def digest(memory: mmap.mmap, at: int, size: int) -> bytes:
    """A digest of an array in an arena."""
    with memoryview(memory) as view, view[at : at + size] as part:
        return hashlib.blake2b(part, digest_size=16).digest()


def aligned(size: int) -> int:
    """``size`` rounded up to where an array may begin."""
    return (size + ALIGN - 1) // ALIGN * ALIGN


# The tie.

_CONTROL_ROOM = socket.CMSG_SPACE(DESCRIPTORS_MOST * array.array("i").itemsize)


class Tie:
    """One end of a connection between a peer and a process. The descriptor is closed on exec."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._buffer = bytearray(MESSAGE_MOST)
        self._flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

    def fileno(self) -> int:
        """The descriptor."""
        return self._socket.fileno()

    def send(self, message: Writer, fds: Sequence[int] = ()) -> None:
        """Sends a message. Raises BrokenPipeError where the other side has gone."""
        if len(message.bytes) > MESSAGE_MOST:
            raise ProtocolError(f"a message of {len(message.bytes)} bytes")
        if fds:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]
            self._socket.sendmsg([message.bytes], rights, socket.MSG_NOSIGNAL)
        else:
            self._socket.send(message.bytes, socket.MSG_NOSIGNAL)

    def receive(self) -> Tuple[Reader, List[int]]:
        """Waits for a message. Returns its reader and its descriptors, which the caller closes. Raises
        EOFError at the end of the tie and ProtocolError where the bytes are no message."""
        try:
            length, control, state, _ = self._socket.recvmsg_into([self._buffer], _CONTROL_ROOM, self._flags)
        except ConnectionResetError:
            raise EOFError from None
        fds: List[int] = []
        for level, kind, rights in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(rights[: len(rights) - len(rights) % found.itemsize])
                fds.extend(found)
        if length == 0:
            raise EOFError
        if state & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ProtocolError("a message is too long, or has too many descriptors")
        return Reader(bytes(memoryview(self._buffer)[:length])), fds

    def close(self) -> None:
        """Closes the descriptor."""
        self._socket.close()


def error_message(fault: Fault, file: str, line: int, text: str) -> Writer:
    """ERROR. ``file`` and ``line`` name the place in the program, or are empty and 0."""
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(data) > TEXT_MOST:  # the end of a traceback tells more than its beginning
        data = data[-TEXT_MOST:]
    plain = data.decode("utf-8", "ignore")
    return Writer(Kind.ERROR).put("B", fault).text(clipped(file, 1000)).put("I", line).text(plain)


def sampled(numbers: Sequence[int]) -> Writer:
    """SAMPLED for the samples of a shard, in its order: the first of them, where there are very many."""
    listed = numbers[:SAMPLES_MOST]
    return Writer(Kind.SAMPLED).put(f"H{len(listed)}Q", len(listed), *listed)


@lru_cache(maxsize=None)
def done(request: Kind) -> Writer:
    """DONE for a request; it must not be changed, as it is remembered."""
    return Writer(Kind.DONE).put("B", request)
