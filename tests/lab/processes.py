"""Finds the processes that a program has left behind. A mark is a variable NAME=VALUE in the program's environment, which
all processes that it starts inherit."""

import contextlib
import glob
import os
import signal
import time


def marked(mark):
    """Returns {pid: command} of the marked processes that run."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):  # the process has just ended, or is another user's
            with open(f"{path}/environ", "rb") as file:
                variables = file.read().split(b"\0")  # empty if it has ended and is not waited for yet
            if mark.encode() in variables:
                with open(f"{path}/cmdline", "rb") as file:
                    found[int(os.path.basename(path))] = file.read().decode().replace("\0", " ")
    return found


def left(mark, seconds):
    """Returns those of the marked processes that still run after at most so many seconds."""
    deadline = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return marked(mark)


def kill_marked(mark):
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
