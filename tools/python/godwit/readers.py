"""Processes that load samples for a worker: forks of it, which get tasks by one queue and answer each by itself.

A task is some samples of a shard. The queue is a socket from which every fork takes the next task, so that no fork
waits for another, and none for the worker, which computes meanwhile. Answers are pickled, with the memory of arrays
and tensors beside, in a memory file that the worker maps: it copies nothing. What these sockets carry comes from forks
of this very process. Tasks may be done twice: when a fork dies, what is missing is asked for again.
"""
from __future__ import annotations

import array
import gc
import io
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import traceback
from collections import deque
from dataclasses import dataclass
from typing import Any, Deque, Dict, List, Optional, Sequence, Set, Tuple

from .errors import Error
from .job import ShardContext
from .loader import Place, SampleError, Source, place_of, sample_error
from .session import die_with_parent
from .worker import is_unable, place_of as place_in

_TASK = struct.Struct("=QQII")  # ticket, seed, first position, how many; then the samples' numbers
_ANSWER = struct.Struct("=QIQ")  # ticket, first position, private bytes of the process; the memory file is beside
_SLOT = struct.Struct("=QI")  # what a process is busy with: ticket, first position
_LENGTH = struct.Struct("=Q")
_MOST = 65536  # bytes of a message
_SAMPLES_MOST = 4000  # of a task
_ALIGN = 64
_DEATHS_MOST = 3
_TASKS_EACH = 4
_OOM_SCORE = 700

class _Pickler(pickle.Pickler):
    """Puts the memory of tensors beside the pickled bytes, as NumPy's arrays do by themselves."""

    def reducer_override(self, thing: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or "numpy" not in sys.modules or type(thing) is not torch.Tensor:
            return NotImplemented
        if thing.layout is not torch.strided or thing.device.type != "cpu" or thing.requires_grad or thing.numel() == 0:
            return NotImplemented
        flat = thing.contiguous().reshape(-1).view(torch.uint8).numpy()
        return _tensor, (pickle.PickleBuffer(flat), thing.dtype, tuple(thing.shape))


def _tensor(buffer: Any, dtype: Any, shape: Tuple[int, ...]) -> Any:
    return sys.modules["torch"].frombuffer(buffer, dtype=dtype).view(shape)


def _packed(value: Any) -> int:
    """A memory file with the pickled value and its buffers."""
    buffers: List[pickle.PickleBuffer] = []
    text = io.BytesIO()
    _Pickler(text, protocol=5, buffer_callback=buffers.append).dump(value)
    pieces = [text.getbuffer(), *(b.raw() for b in buffers)]
    places, end = [], _LENGTH.size * (1 + 2 * len(pieces))
    for piece in pieces:
        places.append((end + _ALIGN - 1) // _ALIGN * _ALIGN)
        end = places[-1] + len(piece)
    fd = os.memfd_create("godwit-samples", os.MFD_CLOEXEC)
    os.ftruncate(fd, end)
    with mmap.mmap(fd, end) as memory:
        _LENGTH.pack_into(memory, 0, len(pieces))
        for number, (place, piece) in enumerate(zip(places, pieces)):
            struct.pack_into("=QQ", memory, _LENGTH.size * (1 + 2 * number), place, len(piece))
            memory[place : place + len(piece)] = piece
    return fd


def _unpacked(fd: int) -> Any:
    """The inverse of ``_packed``. What is returned keeps the memory as long as it needs it."""
    view = memoryview(mmap.mmap(fd, os.fstat(fd).st_size))
    (count,) = _LENGTH.unpack_from(view, 0)
    pieces = []
    for number in range(count):
        place, size = struct.unpack_from("=QQ", view, _LENGTH.size * (1 + 2 * number))
        pieces.append(view[place : place + size])
    return pickle.loads(pieces[0], buffers=pieces[1:])


def _private_bytes() -> int:
    """The memory that this process shares with no other."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) << 10


@dataclass
class _Failure:
    """What came of a sample instead of it."""

    what: str
    text: str
    place: Tuple[str, int]
    unable: bool


class _Batch:
    """The samples of a shard: those that are there, and the tasks of the others."""

    def __init__(self, ticket: int, place: Place, seed: int, indices: List[int], size: int) -> None:
        self.ticket = ticket
        self.place = place
        self.seed = seed
        self.indices = indices
        self.missing = {first: indices[first : first + size] for first in range(0, len(indices), size)}
        self.samples: Dict[int, Any] = {}
        self.error: Optional[SampleError] = None

    def task(self, first: int) -> bytes:
        """The message of a task, by its first position."""
        indices = self.missing[first]
        return _TASK.pack(self.ticket, self.seed, first, len(indices)) + struct.pack(f"={len(indices)}Q", *indices)


@dataclass
class _Reader:
    """A process that loads samples, as the worker sees it."""

    pid: int
    tie: socket.socket
    slot: int


class Readers:
    """The processes of a loader."""

    def __init__(self, source: Source, count: int) -> None:
        if "jax" in sys.modules:
            raise Error("Loader(processes=...) forks this process, which JAX does not survive: leave processes out")
        self._source = source
        self._count = count
        self._queue, self._taking = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._unsent: Deque[bytes] = deque()
        self._shared = mmap.mmap(-1, _LENGTH.size + count * _SLOT.size)  # the oldest ticket that counts, and the slots
        self._batches: Dict[int, _Batch] = {}
        self._tickets = 0
        self._deaths = 0  # since a batch was complete
        self._told = False
        self._readers = [self._start(slot) for slot in range(count)]

    def wants(self, context: ShardContext) -> bool:
        """Whether the shard's samples were asked for ahead."""
        return any(batch.place == place_of(context) for batch in self._batches.values())

    def take(self, context: ShardContext, following: ShardContext) -> List[Any]:
        """The samples of a shard. Those of the ``following`` one are loaded while the worker computes. Raises
        SampleError where one cannot be loaded."""
        batch = next((b for b in self._batches.values() if b.place == place_of(context)), None)
        if batch is None:
            self._forget()  # what was asked for ahead would delay this
            batch = self._ask(context)
        ahead = self._ask(following)
        while batch.missing and batch.error is None:
            self._wait()
        self._deaths = 0
        if batch.error is not None:
            self._forget()
            raise batch.error
        self._batches = {ahead.ticket: ahead}
        return [batch.samples[position] for position in range(len(batch.indices))]

    def close(self) -> None:
        """Ends the processes."""
        for reader in self._readers:
            os.kill(reader.pid, signal.SIGKILL)
            os.waitpid(reader.pid, 0)
            reader.tie.close()
        self._readers.clear()
        self._queue.close()
        self._taking.close()

    def _forget(self) -> None:
        """Has the processes skip all tasks so far."""
        _LENGTH.pack_into(self._shared, 0, self._tickets + 1)
        self._batches.clear()
        self._unsent.clear()

    def _ask(self, context: ShardContext) -> _Batch:
        """Divides a shard's samples among tasks, and puts these into the queue."""
        self._tickets += 1
        indices = self._source.indices(context)
        size = max(1, min(len(indices) // (_TASKS_EACH * self._count), _SAMPLES_MOST))
        batch = _Batch(self._tickets, place_of(context), self._source.seed(context), indices, size)
        self._batches[batch.ticket] = batch
        self._unsent.extend(batch.task(first) for first in batch.missing)
        self._send()
        return batch

    def _send(self) -> None:
        """Puts into the queue what it has room for."""
        while self._unsent:
            try:
                self._queue.send(self._unsent[0], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self._unsent.popleft()

    def _wait(self) -> None:
        """Waits for an answer, or for the end of a process."""
        poll = select.poll()
        for reader in self._readers:
            poll.register(reader.tie.fileno(), select.POLLIN)
        if self._unsent:
            poll.register(self._queue.fileno(), select.POLLOUT)
        ready = {fd for fd, _ in poll.poll()}
        self._send()
        for number, reader in enumerate(self._readers):
            if reader.tie.fileno() in ready and not self._receive(reader):
                self._readers[number] = self._replace(reader)

    def _receive(self, reader: _Reader) -> bool:
        """Takes an answer. Returns whether the process lives."""
        size = struct.calcsize("i")
        data, control, _, _ = reader.tie.recvmsg(_MOST, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
        if not data:
            return False
        fds = array.array("i")
        for level, kind, rights in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(rights)
        ticket, first, private = _ANSWER.unpack(data)
        batch = self._batches.get(ticket)
        try:
            if batch is not None and first in batch.missing:
                self._accept(batch, first, _unpacked(fds[0]))
        finally:
            os.close(fds[0])
        if not self._told:
            self._told = True
            print(
                f"godwit: {self._count} processes load samples for process {os.getpid()}, with about {private >> 20} MiB of "
                "their own each"
            )
        return True

    @staticmethod
    def _accept(batch: _Batch, first: int, value: Any) -> None:
        if isinstance(value, _Failure):
            batch.error = sample_error(value.what, value.text, value.place, value.unable)
            return
        del batch.missing[first]
        batch.samples.update(enumerate(value, first))

    def _replace(self, reader: _Reader) -> _Reader:
        """Starts another process for one that has died, and has it done again what is missing."""
        reader.tie.close()
        _, status = os.waitpid(reader.pid, 0)
        ticket, first = _SLOT.unpack_from(self._shared, _LENGTH.size + reader.slot * _SLOT.size)
        batch = self._batches.get(ticket)
        samples = batch.missing.get(first, []) if batch is not None else []
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
        what = f"the process that loads {_named(samples)}has ended: {how}"
        self._deaths += 1
        if self._deaths < _DEATHS_MOST or batch is None:
            print(f"godwit: {what}; another one takes its place", file=sys.stderr)
            sys.stderr.flush()
        else:
            text = f"{what}, and so have {self._deaths - 1} others"
            batch.error = sample_error(_named(samples).strip() or "a sample", text, ("", 0), True)
        made = self._start(reader.slot)
        for other in self._batches.values():  # what is asked for twice is taken once
            self._unsent.extend(other.task(one) for one in other.missing)
        return made

    def _start(self, slot: int) -> _Reader:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _SLOT.pack_into(self._shared, _LENGTH.size + slot * _SLOT.size, 0, 0)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                _become(parent, {theirs.fileno(), self._taking.fileno()})
                self._serve(theirs, slot)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        theirs.close()
        return _Reader(pid, ours, slot)

    def _serve(self, tie: socket.socket, slot: int) -> None:
        """In the fork: does task after task, until the worker ends."""
        while True:
            data = self._taking.recv(_MOST)
            if not data:
                os._exit(0)
            ticket, seed, first, count = _TASK.unpack_from(data)
            if ticket < _LENGTH.unpack_from(self._shared)[0]:
                continue
            _SLOT.pack_into(self._shared, _LENGTH.size + slot * _SLOT.size, ticket, first)
            indices = struct.unpack_from(f"={count}Q", data, _TASK.size)
            value = self._load(seed, first, indices)
            try:
                fd = _packed(value)
            except Exception as error:  # what cannot be pickled
                fd = _packed(_failure(_named(indices).strip(), error))
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]).tobytes())]
            private = _private_bytes() if not self._told else 0
            self._told = True
            tie.sendmsg([_ANSWER.pack(ticket, first, private)], rights, socket.MSG_NOSIGNAL)
            os.close(fd)

    def _load(self, seed: int, first: int, indices: Sequence[int]) -> Any:
        """The samples of a task, or what became of one."""
        found: List[Any] = []
        for position, index in enumerate(indices, first):
            try:
                found.append(self._source.sample(seed, position, index))
            except (Exception, SystemExit) as error:
                return _failure(f"sample {index}", error)
        return found


def _failure(what: str, error: BaseException) -> _Failure:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return _Failure(what, text, place_in(error), is_unable(error))


def _named(samples: Sequence[int]) -> str:
    """Samples, for people, with a space behind."""
    if not samples:
        return "samples "
    shown = ", ".join(str(index) for index in samples[:5]) + (" ..." if len(samples) > 5 else "")
    return f"sample{'s' if len(samples) > 1 else ''} {shown} "


def _become(parent: int, kept: Set[int]) -> None:
    """Makes this fork a process of its own: it ends with its parent, keeps none of its descriptors but its standard
    ones, computes with one thread, and is the first to go where memory is short."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # that of the listing
                pass
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(_OOM_SCORE))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    gc.freeze()
