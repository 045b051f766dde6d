"""Godwit: long computations on a flock of peers, with the same bytes whatever dies.

Import it before PyTorch and NumPy: it pins the environment and seeds all generators. ``godwit.Job`` is for
PyTorch; ``godwit.arrays`` is for NumPy. tools/python/README.md is the page for users.
"""
import sys

if sys.version_info < (3, 9):  # before anything that an older one cannot read
    raise ImportError(
        "godwit needs Python 3.9 or later, and %s is %d.%d: name another one with --python"
        % (sys.executable, sys.version_info[0], sys.version_info[1])
    )

from typing import TYPE_CHECKING, Any

from . import session as _session
from .errors import Error, Refused
from .job import AfterContext, Result, ShardContext, UpdateContext
from .loader import Loader, SampleError

if TYPE_CHECKING:
    from .torch_program import Job

__all__ = ["AfterContext", "Error", "Job", "Loader", "Refused", "Result", "SampleError", "ShardContext", "UpdateContext"]

_session.begin()


def __getattr__(name: str) -> Any:
    """``Job`` needs PyTorch, which is imported when it is asked for; ``__version__`` is that of the installed wheel, and
    empty in a tree."""
    if name == "__version__":
        return _session.version()
    if name != "Job":
        raise AttributeError(f"module 'godwit' has no attribute '{name}'")
    try:
        from .torch_program import Job
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise Error(
            "godwit.Job needs PyTorch, which this Python does not have: pip install torch, or name another Python "
            "with --python; for NumPy, use godwit.arrays"
        ) from None
    return Job
