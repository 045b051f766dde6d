"""What has been written to files and lies in the memory of a process yet: a process that ends behind the back of the
interpreter, or that is about to be forked, hands it over to the system first."""
from __future__ import annotations

import atexit
import ctypes
import gc
import io
import sys
from typing import Any, List

_LIBRARY = ctypes.CDLL(None)
_INNER = (io.BufferedWriter, io.BufferedRandom)
"""These write to the system; all others write to one of these."""


def flush_all() -> None:
    """Flushes all files of Python that can be written to, and those of C."""
    gc.unfreeze()  # what is frozen is not among the objects that are found
    found: List[Any] = [o for o in gc.get_objects() if issubclass(type(o), io.IOBase)]
    found.sort(key=lambda file: isinstance(file, _INNER))
    for file in (sys.stdout, sys.stderr, *found):
        try:
            if not file.closed:
                file.flush()
        except Exception:
            pass  # a full disk, a closed pipe: this process ends, and nobody waits for what it says
    _LIBRARY.fflush(None)


def flush_at_exit() -> None:
    """Has the interpreter do so, too. It closes files whose last owner goes, and PyTorch's hooks keep owners for ever."""
    atexit.register(flush_all)
