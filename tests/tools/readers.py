"""Programs of other people that read what Godwit writes, for suites in Python: TensorBoard, Prometheus and its client,
Perfetto's schema.

Those in Python are in an environment of their own in the user's cache, which the first suite that wants one makes, by pip
from readers.txt. Prometheus is that of the PATH, or else Debian's, unpacked in the cache and not installed. Where they
cannot be had, the suites count as skipped.
"""

import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

WANTED = pathlib.Path(__file__).resolve().parent / "readers.txt"


def make(name, what, steps):
    """Makes a folder of the cache by commands that run in it, unless it is complete. (The folder, why there is none.)"""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "godwit" / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in [] if (folder / "is-complete").exists() else steps:
            try:
                done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False, timeout=500)
            except (OSError, subprocess.TimeoutExpired) as error:
                return folder, str(error)
            if done.returncode != 0:
                words = done.stderr.strip() or "no reason given"
                return folder, f"{what} cannot be installed: {words.splitlines()[-1]}"
        (folder / "is-complete").touch()
    return folder, None


@functools.cache
def environment():
    """(the folder of the environment's programs, why there is none)."""
    steps = (
        [sys.executable, "-m", "venv", "--clear", "venv"],
        ["venv/bin/pip", "--quiet", "--disable-pip-version-check", "install", "-r", WANTED],
    )
    digest = hashlib.sha256(WANTED.read_bytes()).hexdigest()[:16]
    folder, why = make(f"readers-{digest}", WANTED.name, steps)
    return folder / "venv/bin", why


def missing():
    return environment()[1]


def program(name):
    return environment()[0] / name


@functools.cache
def prometheus():
    """(the folder of Prometheus's programs, why there is none)."""
    found = shutil.which("prometheus"), shutil.which("promtool")
    if all(found):
        return pathlib.Path(found[0]).parent, None
    steps = (
        ["apt-get", "download", "prometheus"],
        ["sh", "-c", "dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb"],
        ["usr/bin/promtool", "--version"],
    )
    folder, why = make("prometheus", "Debian's package prometheus", steps)
    return folder / "usr/bin", why
