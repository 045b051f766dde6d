"""The errors of this package."""
from __future__ import annotations

from typing import Tuple


class Error(Exception):
    """A mistake in how this package is used; the text says what to do."""


class Refused(Error):
    """The program does what a job cannot do. The text names it and says what to do instead; ``place``,
    a file and a line, is where it does so, where the traceback does not tell."""

    place: Tuple[str, int] = ("", 0)
