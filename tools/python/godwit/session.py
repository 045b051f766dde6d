"""This process's connection with a peer: found when ``godwit`` is imported, or made when a job runs alone.

A process that a peer has started finds its tie in the environment. A script that runs alone starts a peer of its
own, with this process as the worker: ``GODWIT_SEED``, ``GODWIT_THREADS`` and ``GODWIT_ARGS`` (further options of
``godwit run``) are its settings.
"""
from __future__ import annotations

import atexit
import ctypes
import faulthandler
import importlib.metadata
import os
import platform
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Optional, Sequence

from . import files, pin
from .errors import Error
from .protocol import Fault, Kind, ProtocolError, Role, Tie, Welcome, Writer, clipped, error_message

try:
    from ._build import BUILD  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # a tree, which makes no build's module
    BUILD = ""

_VARIABLE = "GODWIT_WORKER_FD"

IS_CHECKED = os.environ.get("GODWIT_CHECK") == "1"
"""Whether ``godwit check`` has started this process, which then verifies all shards."""

_INFO, _WARNING = 1, 2
"""Levels of a peer's log."""


def version() -> str:
    """The release of the installed package; empty where this is a tree."""
    try:
        return importlib.metadata.version("godwit")
    except importlib.metadata.PackageNotFoundError:
        return ""


def die_with_parent() -> None:
    """Has the kernel kill this process when its parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(1, int(signal.SIGKILL), 0, 0, 0)


_ASKS_WHERE = signal.SIGUSR2
"""By this signal a peer asks a process that it ends, as it hangs, where it is."""


def tell_where() -> None:
    """Has this process print its stack on descriptor 2 where it ends by a fault, such as a write to the state, or as
    it hangs: the peer names the place. ``sys.stderr`` may be anything."""
    try:
        faulthandler.enable(2, all_threads=False)
        faulthandler.register(_ASKS_WHERE, 2, all_threads=False, chain=True)
    except (OSError, ValueError, RuntimeError):
        pass  # there is nowhere to print it


def tell_no_more() -> None:
    """The script goes on behind the job, and may use the signal itself."""
    faulthandler.unregister(_ASKS_WHERE)


def _about() -> str:
    found = [f"{platform.python_implementation()} {platform.python_version()}"]
    for name in ("torch", "jax", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found.append(f"{name} {version}")
    return clipped(", ".join(found), 200)


def _parent() -> str:
    """The program of this process's parent."""
    try:
        return os.readlink(f"/proc/{os.getppid()}/exe")
    except OSError:
        return "godwit"


def build_difference(build: str, program: str) -> str:
    """Why this module does not fit a peer, whose program is of a build; empty where it does. A module that has no
    build, as that of a tree, fits every program of its protocol."""
    if not BUILD or not build or build == BUILD:
        return ""
    folder = Path(__file__).resolve().parent
    return (
        f"the program {program} is of build {build}, the module {folder} of build {BUILD}, and they must be of one: "
        f"run the module's own program ({folder / 'bin' / 'godwit'}), or name with --python a Python that has the "
        "module of that program"
    )


_last: Optional[Tie] = None


def warn(text: str) -> None:
    """Has people read a line of warning: in the log of the peer, or as a note of ``godwit check``."""
    tell(text, _WARNING)


def tell(text: str, level: int = _INFO) -> None:
    """Has people read a line of the peer's log."""
    if _last is None:
        print(f"godwit: {text}", file=sys.stderr)
        return
    try:
        _last.send(Writer(Kind.LOG).put("B", level).text(clipped(text, 900)))
    except OSError:
        pass  # the peer has ended, and who looks for it finds that out


def is_further_worker() -> bool:
    """Whether this process runs the script as another one on this peer does, which has told people what there is."""
    return session is not None and session.welcome.role == Role.WORKER and not IS_CHECKED


class Session:
    """A tie and what the peer has said on it."""

    def __init__(self, tie: Tie, program: str = "") -> None:
        """``program`` is that of the peer; empty: this process's parent is the peer."""
        global _last
        self.tie = _last = tie
        try:
            message, _ = tie.receive()
            if message.kind != Kind.WELCOME:
                raise ProtocolError(f"the peer sent {message.kind.name} before WELCOME")
            self.welcome = Welcome.read(message)
        except ProtocolError as error:
            tie.send(error_message(Fault.REFUSED, "", 0, str(error)))
            sys.exit(f"godwit: {error}")
        except EOFError:
            os._exit(0)
        text = build_difference(self.welcome.build, program or _parent())
        if text:
            tie.send(error_message(Fault.REFUSED, "", 0, text))
            sys.exit(f"godwit: {text}")
        tie.send(Writer(Kind.HELLO).put("I", os.getpid()).text(BUILD).text(_about()))

    @property
    def is_fork(self) -> bool:
        """Whether this process is a fork of the template."""
        return self.welcome.role == Role.FORK


class Settings:
    """What a script that runs alone is started with."""

    def __init__(self) -> None:
        self.seed = _number("GODWIT_SEED", 1, 0, (1 << 63) - 1)
        self.threads = _number("GODWIT_THREADS", 1, 1, 1024)
        try:
            self.args = shlex.split(os.environ.get("GODWIT_ARGS", ""))
        except ValueError as error:
            raise Error(f"GODWIT_ARGS: {error}") from None
        self.cpu_class = _option(self.args, "--cpu-class")


def _option(args: Sequence[str], name: str) -> str:
    """The last value of an option; empty where it is not given."""
    found = ""
    for word, following in zip(args, [*args[1:], ""]):
        if word == name:
            found = following
        elif word.startswith(f"{name}="):
            found = word[len(name) + 1 :]
    return found


def _number(name: str, default: int, least: int, most: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or not least <= int(text) <= most:
        raise Error(f"{name}: '{text}' is no number from {least} to {most}")
    return int(text)


session: Optional[Session] = None
settings = Settings()


def begin() -> None:
    """What ``import godwit`` does: finds the tie, pins the environment and seeds all generators."""
    global session
    files.flush_at_exit()
    atexit.register(_tell_end)
    number = os.environ.pop(_VARIABLE, "")
    if number:
        tell_where()
        session = Session(Tie(int(number)))
        settings.seed = session.welcome.seed
        settings.threads = session.welcome.threads
        pin.choose_gpu(session.welcome.slot)
    else:
        pin.alone(settings.threads, settings.cpu_class)
        pin.choose_gpu(0)
    pin.libraries(settings.seed, settings.threads)


def find_binary() -> str:
    """The path of the ``godwit`` program: that of ``GODWIT``, of this package, of the tree or of the PATH."""
    named = os.environ.get("GODWIT", "")
    if named:
        if not os.access(named, os.X_OK):
            raise Error(f"GODWIT: {named} is no program that can be executed")
        return named
    here = Path(__file__).resolve().parent
    for path in (here / "bin" / "godwit", here.parents[2] / "build" / "godwit"):
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("godwit")
    if found is None:
        raise Error(
            "the program 'godwit' is not on the PATH. Install it, or name it by the environment variable GODWIT"
        )
    return found


end_without_job = ""
"""What is told where the script ends now; empty: its end is none of this module's matters."""


def _tell_end() -> None:
    if not end_without_job or hasattr(sys, "last_value"):
        return  # an exception has ended it, whose traceback is there
    if session is None:
        print(f"godwit: {sys.argv[0]}: {end_without_job}", file=sys.stderr)
        return
    try:
        session.tie.send(error_message(Fault.REFUSED, os.path.abspath(sys.argv[0]), 0, end_without_job))
    except OSError:
        pass


_interrupts = 0


def _interrupted(number: int, frame: object) -> None:
    """Ctrl-C reaches the peer as well, which saves a checkpoint and leaves; the second one is for this process."""
    global _interrupts
    _interrupts += 1
    if _interrupts > 1:
        raise KeyboardInterrupt


class Alone:
    """A peer of this process's own, whose only worker this process is."""

    def __init__(self, script: str, argv: List[str], directory: Optional[str]) -> None:
        pin.check_order()
        self._temporary = None if directory is not None else tempfile.TemporaryDirectory(prefix="godwit-")
        place = directory if directory is not None else str(self._temporary.name)  # type: ignore[union-attr]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [
            find_binary(), "run", "program", "--program", script, "--python", sys.executable, "--dir", place,
            "--workers", "1", "--listen", "127.0.0.1:0", "--seed", str(settings.seed),
            "--threads", str(settings.threads), *settings.args, "--", *argv,
        ]  # fmt: skip
        environment = {**os.environ, "GODWIT_PROGRAM_FD": str(theirs.fileno())}
        signal.signal(signal.SIGINT, _interrupted)
        self._peer = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment, preexec_fn=die_with_parent
        )
        theirs.close()
        self.session = self._welcome(ours, command[0])

    def _welcome(self, ours: socket.socket, program: str) -> Session:
        """Waits for WELCOME, or for the peer's end."""
        if not ours.recv(1, socket.MSG_PEEK):
            sys.exit(self._peer.wait() or 1)
        found = Session(Tie(ours.detach()), program)
        own, its = pin.kind_of(settings.cpu_class), found.welcome.cpu_class
        if own != its:
            text = (
                f"this process computes with the instructions of {own or 'its processor'}, and its peer with those of "
                f"{its or 'its processor'}, so that their bytes would differ: name a kind of processors, "
                "GODWIT_ARGS='--cpu-class NAME'"
            )
            found.tie.send(error_message(Fault.REFUSED, "", 0, text))
            sys.exit(f"godwit: {text}")
        return found

    def end(self) -> None:
        """Waits for the end of the peer. Exits with its status where that is not 0."""
        status = self._peer.wait()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._temporary is not None:
            self._temporary.cleanup()
        if status != 0:
            sys.exit(status if status > 0 else 1)
