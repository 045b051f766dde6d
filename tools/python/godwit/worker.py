"""A worker: it answers the requests of its peer, whichever library computes.

``serve`` is the loop. A ``Program`` does the work; ``torch_program`` and ``arrays`` have one each.
"""
from __future__ import annotations

import abc
import gc
import mmap
import os
import select
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Dict, List, Optional, Sequence, Tuple

from . import files, identity
from .errors import Refused
from .protocol import (
    HAS_AFTER, HAS_ONCE, After, Description, Fault, Finish, Kind, Layout, Once, Part, Phase, ProtocolError, Reader, Role, Shard, Tie,
    Writer, digest, done, error_message, sampled,
)  # fmt: skip
from .probe import Probe
from .session import IS_CHECKED, Session, die_with_parent, tell, tell_no_more, tell_where


shard_samples: List[int] = []
"""The samples of the shard that this process has computed last; each shard has a list of its own."""


class Arenas:
    """The shared memory of a worker: ``state`` can only be read."""

    def __init__(self, state: mmap.mmap, next: mmap.mmap, own: mmap.mmap) -> None:
        self.state = state
        self.next = next
        self.own = own


class Program(abc.ABC):
    """What a worker computes. The methods raise what the program raises; ``serve`` reports it."""

    description: Description
    layout: Layout
    probe: Optional[Probe] = None

    @abc.abstractmethod
    def initial(self, memory: mmap.mmap) -> None:
        """Writes S_0."""

    def forget(self) -> None:
        """Frees what only S_0 needs, as nothing asks for it again: a template lives as long as the job."""

    @abc.abstractmethod
    def attach(self, arenas: Arenas) -> None:
        """Takes the memory that all later requests are about."""

    @abc.abstractmethod
    def shard(self, request: Shard) -> None:
        """Computes a shard's contributions into *own*."""

    @abc.abstractmethod
    def part(self, request: Part) -> None:
        """Computes a part of an update into *next*."""

    @abc.abstractmethod
    def once(self, request: Once) -> bool:
        """Does what is done once in an update, in *next*. Returns whether the job is to stop."""

    @abc.abstractmethod
    def after(self, request: After) -> None:
        """Has the program see a committed step."""

    @abc.abstractmethod
    def finish(self, request: Finish) -> None:
        """Gives the program the final state, in memory of its own."""


def is_unable(error: BaseException) -> bool:
    """Whether an error is one of this machine at this moment: its memory, or a file."""
    if isinstance(error, (MemoryError, OSError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)


def place_of(error: BaseException) -> Tuple[str, int]:
    """File and line of the innermost frame of the user's own files; the innermost of all where there is none."""
    found: Tuple[str, int] = getattr(error, "place", ("", 0))  # a place in another process
    if found[0]:
        return found
    trace: Optional[TracebackType] = error.__traceback__
    own = False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        mine = identity.is_own(file)
        if mine or (not own and not file.startswith(os.path.dirname(__file__))):
            found = (file, trace.tb_lineno)
        own = own or mine
        trace = trace.tb_next
    return found


_FORKED_CUDA = "Cannot re-initialize CUDA in forked subprocess"
_USES_CUDA_LATE = (
    "CUDA is used for the first time in a shard or an update, and this process is a fork: move the model to the GPU before "
    'job.run() (model.to("cuda")), so that no forks are made; on a machine without a GPU, leave .cuda() out'
)


def _users_part(trace: Optional[TracebackType]) -> Optional[TracebackType]:
    """A traceback from its first frame outside this package on: the frames before are no matter of the user's. All of it
    where there is no such frame."""
    at = trace
    while at is not None and at.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        at = at.tb_next
    return at or trace


def error_of(error: BaseException) -> Writer:
    """The ERROR message for what a request has raised."""
    file, line = place_of(error)
    if isinstance(error, SystemExit):
        text = f"the program calls exit ({error.code}) in a shard or an update, which ends nothing: raise an error"
        return error_message(Fault.REFUSED, file, line, text)
    if isinstance(error, Refused):
        return error_message(Fault.REFUSED, file, line, str(error))
    text = "".join(traceback.format_exception(type(error), error, _users_part(error.__traceback__))).rstrip("\n")
    last = str(error).rstrip("\n").rsplit("\n", 1)
    if len(last) > 1:  # people are shown the last line, which is to say what the error is
        text += f"\n{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    if _FORKED_CUDA in text:
        text += f"\n{type(error).__name__}: {_USES_CUDA_LATE}"
    return error_message(Fault.UNABLE if is_unable(error) else Fault.RAISED, file, line, text)


def can_fork() -> bool:
    """Whether forks of this process can compute: it has one thread, and no library that a fork would break."""
    return not obstacle()


def obstacle() -> str:
    """What keeps forks of this process from computing, in words; empty: nothing does."""
    if "jax" in sys.modules:
        return "JAX is loaded"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "it uses CUDA"
    count = len(os.listdir("/proc/self/task")) - 1
    if count == 0:
        return ""
    own = [f"{type(t).__qualname__} of {type(t).__module__}" for t in threading.enumerate() if t is not threading.main_thread()]
    told = f" ({', '.join(sorted(set(own)))})" if own else ", which a library has made"
    return f"it has {count} thread{'s' if count > 1 else ''} besides its own{told}"


def is_tried_twice(shard: Shard) -> bool:
    """Whether a worker computes a shard twice and compares: the first one of a job, which tells at once of what goes on
    from shard to shard. ``godwit check`` compares more, and says more."""
    return shard.step == 0 and shard.shard == 0 and shard.phase == Phase.TRAIN and not IS_CHECKED


def given(program: Program, own: mmap.mmap) -> Dict[str, bytes]:
    """Digests of what a shard has given to each sum, by name."""
    sums = enumerate(zip(program.description.sums, program.layout.sums))
    return {tensor.name: digest(own, at, tensor.bytes) for number, (tensor, at) in sums if own[number]}


class Leave(Exception):
    """The peer asks this process to leave."""


_HUGE_PAGE = 2 << 20
_PLACES_MOST = 8


def _mapped(fd: int, size: int, access: int = mmap.PROT_READ | mmap.PROT_WRITE) -> mmap.mmap:
    """The memory behind a descriptor of the peer's. Large memory has huge pages, which count only where it is mapped at a
    multiple of their size: as long as it is not, what is too much above it is filled, below which the system maps next."""
    fillers: List[mmap.mmap] = []
    try:
        memory = mmap.mmap(fd, size, mmap.MAP_SHARED, access)
        while size >= _HUGE_PAGE and len(fillers) < _PLACES_MOST:
            excess = _address_of(fd) % _HUGE_PAGE
            if excess == 0:
                break
            memory.close()
            fillers.append(mmap.mmap(-1, excess))
            memory = mmap.mmap(fd, size, mmap.MAP_SHARED, access)
        return memory
    except ValueError as error:  # it is smaller
        raise ProtocolError(f"memory of the peer's: {error}") from None
    finally:
        for filler in fillers:
            filler.close()


def _address_of(fd: int) -> int:
    """The address at which the file behind a descriptor is mapped; 0 where that is not known."""
    file = str(os.fstat(fd).st_ino)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            place, _, _, _, inode, *_ = line.split(maxsplit=5)
            if inode == file:
                return int(place.split("-")[0], 16)
    return 0


class _Server:
    def __init__(self, session: Session, program: Program) -> None:
        self._session = session
        self._tie = session.tie
        self._program = program
        self._has_arenas = False
        self._own: Optional[mmap.mmap] = None
        self._finish: Optional[Finish] = None

    def run(self) -> Finish:
        """Describes the job unless the process is a fork, and answers requests up to FINISH."""
        if not self._session.is_fork:
            for said in self._program.description.messages():
                self._tie.send(said)
        tell_where()  # once more, as the script may have had its own way meanwhile
        while self._finish is None:
            message, fds = self._receive()
            self._answer(message, fds)
        gc.unfreeze()
        tell_no_more()
        return self._finish

    def _receive(self) -> Tuple[Reader, List[int]]:
        try:
            return self._tie.receive()
        except EOFError:
            raise Leave from None

    def _answer(self, message: Reader, fds: List[int]) -> None:
        try:
            reply = self._request(message, fds)
        except (Leave, ProtocolError, KeyboardInterrupt):
            raise
        except BaseException as error:
            reply = error_of(error)
            refused = reply.bytes[2] == Fault.REFUSED
            self._tie.send(reply)
            if refused:
                raise Leave from error
            return
        finally:
            for fd in fds:
                os.close(fd)
        self._tie.send(reply)

    def _check(self, kind: Kind) -> None:
        """Raises ProtocolError where a request makes no sense now."""
        flags = self._program.description.options.flags
        if kind in (Kind.SHARD, Kind.PART, Kind.ONCE, Kind.AFTER, Kind.FINISH, Kind.SAMPLES) and not self._has_arenas:
            raise ProtocolError(f"the peer sent {kind.name} before ARENAS")
        if (kind == Kind.ONCE and not flags & HAS_ONCE) or (kind == Kind.AFTER and not flags & HAS_AFTER):
            raise ProtocolError(f"the peer sent {kind.name}, which this program has not asked for")

    def _part(self, message: Reader) -> Part:
        part = Part.read(message)
        if part.part >= self._program.description.options.parts:
            raise ProtocolError(f"the peer asks for part {part.part} of an update")
        return part

    def _request(self, message: Reader, fds: List[int]) -> Writer:
        kind, program = message.kind, self._program
        self._check(kind)
        if kind == Kind.SHARD:
            if program.probe is not None:
                program.probe.before_shard()
            shard = Shard.read(message)
            program.shard(shard)
            if is_tried_twice(shard):
                self._try_again(shard)
        elif kind == Kind.PART:
            program.part(self._part(message))
        elif kind == Kind.ONCE:
            return Writer(Kind.UPDATED).put("B", program.once(Once.read(message)))
        elif kind == Kind.AFTER:
            program.after(After.read(message))
        elif kind == Kind.FINISH:
            finish = Finish.read(message)
            program.finish(finish)
            self._finish = finish
        elif kind == Kind.INIT:
            self._initial(message, fds)
        elif kind == Kind.ARENAS:
            self._arenas(message, fds)
        elif kind == Kind.SAMPLES:
            message.end()
            return sampled(shard_samples)
        elif kind == Kind.LEAVE:
            raise Leave
        else:
            raise ProtocolError(f"the peer sent {kind.name}")
        return done(kind)

    def _try_again(self, shard: Shard) -> None:
        """Computes a shard once more. Raises Refused where it gives other bytes."""
        assert self._own is not None
        names = [tensor.name for tensor in self._program.description.sums]
        first = given(self._program, self._own)
        self._program.shard(shard)
        again = given(self._program, self._own)
        differing = next((n for n in names if first.get(n) != again.get(n)), None)
        if differing is not None:
            raise Refused(
                f"shard {shard.shard} of update {shard.update} gives other bytes when this process computes it again, first in "
                f"'{differing.replace('sum:', '')}': it depends on what was computed before (an iterator, a generator, a "
                "counter or a cache of its own). godwit check finds the line"
            )

    def _initial(self, message: Reader, fds: List[int]) -> None:
        message.end()
        size = self._program.layout.state_bytes
        if len(fds) != 1:
            raise ProtocolError("INIT has no descriptor")
        with _mapped(fds[0], size) as memory:
            self._program.initial(memory)

    def _arenas(self, message: Reader, fds: List[int]) -> None:
        sizes = message.get("QQ")
        message.end()
        layout = self._program.layout
        if sizes != (layout.state_bytes, layout.own_bytes) or len(fds) != 3:
            raise Refused(
                f"the peer's memory has {sizes[0]} and {sizes[1]} bytes, where {layout.state_bytes} and "
                f"{layout.own_bytes} are described: install the same release of godwit's binary and module"
            )
        state = _mapped(fds[0], sizes[0], mmap.PROT_READ)
        self._own = _mapped(fds[2], sizes[1])
        self._program.attach(Arenas(state, _mapped(fds[1], sizes[0]), self._own))
        self._has_arenas = True


@dataclass
class _Spare:
    """A fork that waits until it is needed. ``watched`` is a descriptor of the process, ``tie`` leads to it."""

    pid: int
    watched: int
    tie: Tie


class _Template:
    """A process whose forks are the workers. It computes nothing. One fork is always made ahead, so that a worker that
    has died is replaced at once: the fork of a process with much memory takes tens of milliseconds."""

    def __init__(self, session: Session, program: Program) -> None:
        self._tie = session.tie
        self._program = program
        self._poll = select.poll()
        self._forks: Dict[int, Tuple[int, int]] = {}  # by descriptor of the process: its serial and pid
        self._spare: Optional[_Spare] = None
        self._forks_ahead = True  # not where the last spare has died unused, before the next one is needed

    def run(self) -> Session:
        """Forks when it is asked to. Returns in the forks only, with their session."""
        files.flush_all()  # or each fork would write it again
        gc.collect()
        gc.freeze()  # a fork's collections do not touch, and so copy, what the template has made
        self._poll.register(self._tie.fileno(), select.POLLIN)
        while True:
            if self._spare is None and self._forks_ahead:
                session = self._try_fork()
                if session is not None:
                    return session
            for fd, _ in self._poll.poll():
                if fd == self._tie.fileno():
                    session = self._serve()
                    if session is not None:
                        return session
                else:
                    self._gone(fd)

    def _gone(self, fd: int) -> None:
        self._poll.unregister(fd)
        if self._spare is not None and fd == self._spare.watched:
            pid, self._spare = self._spare.pid, None
            self._forks_ahead = False
            os.close(fd)
            os.waitpid(pid, 0)
            return
        serial, pid = self._forks.pop(fd)
        os.close(fd)
        _, status = os.waitpid(pid, 0)
        self._tie.send(Writer(Kind.GONE).put("II", serial, status))

    def _serve(self) -> Optional[Session]:
        """Answers a FORK. Returns in a fork only."""
        try:
            message, fds = self._tie.receive()
        except EOFError:
            raise Leave from None
        if message.kind == Kind.LEAVE:
            raise Leave
        if message.kind != Kind.FORK or len(fds) != 2:
            raise ProtocolError(f"the peer sent {message.kind.name} to the template")
        (serial,) = message.get("I")
        while not self._hand_over(serial, fds):
            session = self._fork(fds)
            if session is not None:
                return session
        for fd in fds:
            os.close(fd)
        return None

    def _hand_over(self, serial: int, fds: List[int]) -> bool:
        """Makes the spare a worker. False where there is none that lives."""
        spare = self._spare
        if spare is None:
            return False
        try:
            spare.tie.send(Writer(Kind.FORK).put("I", serial), fds)
        except OSError:
            self._gone(spare.watched)
            return False
        finally:
            spare.tie.close()
        self._spare = None
        self._forks_ahead = True
        self._forks[spare.watched] = (serial, spare.pid)
        self._tie.send(Writer(Kind.FORKED).put("II", serial, spare.pid))
        return True

    def _try_fork(self) -> Optional[Session]:
        """Makes a spare if that is possible now: without one, the next FORK makes it. Returns in the fork only."""
        try:
            return self._fork()
        except OSError:
            self._forks_ahead = False
            return None

    def _fork(self, held: Sequence[int] = ()) -> Optional[Session]:
        """Makes a spare. ``held`` are descriptors that it must not keep open. Returns in the fork only."""
        parent = os.getpid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            ours.close()
            for fd in held:
                os.close(fd)
            return self._become(parent, Tie(theirs.detach()))
        theirs.close()
        self._spare = _Spare(pid, os.pidfd_open(pid), Tie(ours.detach()))
        self._poll.register(self._spare.watched, select.POLLIN)
        return None

    def _become(self, parent: int, template: Tie) -> Session:
        """In the fork: it cuts its ties with the template, and takes its own when it is given them."""
        die_with_parent()
        if os.getppid() != parent:
            os._exit(0)
        os.setsid()
        self._tie.close()
        for fd in self._forks:
            os.close(fd)
        try:
            _, fds = template.receive()
        except (EOFError, KeyboardInterrupt):
            os._exit(0)
        template.close()
        os.dup2(fds[1], 1)
        os.dup2(fds[1], 2)
        os.close(fds[1])
        return Session(Tie(fds[0]))


def serve(session: Session, program: Program) -> Finish:
    """Serves a peer up to the end of the job. Returns in the one process that goes on behind it; the others
    exit with status 0 when they are asked to leave, and with 1 where the peer breaks the protocol."""
    try:
        if session.welcome.role == Role.FIRST:
            if program.description.can_fork:
                session = _describe_as_template(session, program)
            else:
                tell(f"each worker runs the script by itself, instead of being a fork of one that has run it: {obstacle()}")
        return _Server(session, program).run()
    except (Leave, ConnectionError):
        _exit(0)
    except KeyboardInterrupt:
        _interrupted()
    except ProtocolError as error:
        print(f"godwit: {error}", file=sys.stderr)
        _exit(1)
    raise AssertionError("a process that leaves goes on")


def serve_alone(session: Session, program: Program) -> Finish:
    """The same for a script that has started its peer. Raises Leave where the job ends without a result."""
    program.description.can_fork = False
    try:
        return _Server(session, program).run()
    except (ConnectionError, ProtocolError) as error:
        raise Leave from error


def _describe_as_template(session: Session, program: Program) -> Session:
    """Describes the job, answers INIT, and forks. Returns in a fork, with its session."""
    tie = session.tie
    for message in program.description.messages():
        tie.send(message)
    server = _Server(session, program)
    try:
        request, fds = tie.receive()
    except EOFError:
        raise Leave from None
    if request.kind != Kind.INIT:
        if request.kind == Kind.LEAVE:
            raise Leave
        raise ProtocolError(f"the peer sent {request.kind.name} instead of INIT")
    server._answer(request, fds)
    program.forget()
    return _Template(session, program).run()


def _exit(status: int) -> None:
    """Ends this process, and what it has started in its group."""
    files.flush_all()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
    os._exit(status)


def _interrupted() -> None:
    """Ends this process as a signal of somebody else's ends it."""
    files.flush_all()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
