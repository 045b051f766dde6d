"""The command ``godwit`` of the Python package: it becomes the program that is packed in the module.

It stands beside the module, as importing ``godwit`` changes the environment for libraries, which the program is to
have as it was.
"""
from __future__ import annotations

import os
import signal
import sys
from typing import Mapping, NoReturn, Sequence


def packed() -> str:
    """The path of the program in the package."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "godwit", "bin", "godwit")


def become(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replaces this process by the program, which runs scripts with this Python unless it is told otherwise. It gets
    the signals that Python ignores as other programs do."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    python = environment.get("GODWIT_PYTHON") or sys.executable
    try:
        os.execve(program, ["godwit", *arguments], {**environment, "GODWIT_PYTHON": python})
    except OSError as error:
        sys.exit(
            f"godwit: {program} cannot be started: {error.strerror}; install the wheel of godwit again "
            f"({sys.executable} -m pip install --force-reinstall WHEEL)"
        )


def main() -> NoReturn:
    """The command."""
    become(packed(), sys.argv[1:], os.environ)
