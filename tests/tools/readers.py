"""Programs of other people that read what Godwit writes, for suites in Python: TensorBoard, Prometheus's client,
Perfetto's schema.

They are in an environment of their own in the user's cache, which the first suite that wants one makes, by pip from
readers.txt. Where that cannot be, the suites count as skipped.
"""

import fcntl
import functools
import hashlib
import os
import pathlib
import subprocess
import sys

WANTED = pathlib.Path(__file__).resolve().parent / "readers.txt"


def make(folder):
    """Returns why the environment cannot be made; None: it is there."""
    if (folder / "is-complete").exists():
        return None
    steps = (
        [sys.executable, "-m", "venv", "--clear", folder / "venv"],
        [folder / "venv/bin/pip", "--quiet", "--disable-pip-version-check", "install", "-r", WANTED],
    )
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, check=False, timeout=500)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0:
            return f"{WANTED.name} cannot be installed: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}"
    (folder / "is-complete").touch()
    return None


@functools.cache
def environment():
    """(the folder of the environment's programs, why there is none)."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "godwit" / f"readers-{hashlib.sha256(WANTED.read_bytes()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        why = make(folder)
    return folder / "venv/bin", why


def missing():
    return environment()[1]


def program(name):
    return environment()[0] / name
