"""A job of arrays that does what no job should, as its arguments say: `KIND@PLACE`, each once in the folder that
GODWIT_TEST_MARKS names, or (`!KIND@PLACE`) each time. A place is import, run, behind, or shard, once or after with the
number of the update behind it."""

import ctypes
import faulthandler
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import godwit

import numpy
from godwit import arrays


def spread(data):
    """Writes bytes to both streams without a line's end."""
    for descriptor in (1, 2):
        for _ in range(64):
            os.write(descriptor, data)


def close_all():
    os.closerange(0, 1 << 10)


def close_tie():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.close(int(name))
        except OSError:
            pass


def children():
    for _ in range(20):
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)


def handlers():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


def daemons():
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


def recurse():
    recurse()  # place: recurse


def elsewhere():
    os.chdir("/")
    os.umask(0o777)
    os.environ.clear()


def fill():
    kept = []
    while True:
        kept.append(bytearray(b"x") * (16 << 20))


def starve():
    with open(os.path.join(os.environ["GODWIT_TEST_GROUP"], "cgroup.procs"), "w") as group:
        group.write(str(os.getpid()))
    fill()


def kill_parent():
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()  # it dies with its parent, and so does the other worker


def limited():
    with open("/proc/self/statm") as sizes:  # little is left to fill, so that a slow machine does not seem to hang
        size = int(sizes.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
    try:
        fill()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def write_state():
    ctypes.memset(state_now["w"].ctypes.data, 1, 8)  # place: write


def raises():
    raise KeyError("no such sample")  # place: raise


def hang():
    time.sleep(1000)  # place: hang


def spin():
    while True:
        pass


def pool():
    with multiprocessing.get_context("fork").Pool(2) as made:
        made.map(abs, range(10))


DEEDS = {
    "raise": raises,
    "exit": lambda: sys.exit("enough"),
    "end": lambda: os._exit(7),
    "end well": lambda: os._exit(0),
    "kill parent": kill_parent,
    "group": lambda: os.killpg(0, signal.SIGKILL),
    "abort": lambda: os.abort(),  # place: abort
    "null": lambda: ctypes.string_at(0),  # place: null
    "write": write_state,
    "fault": lambda: faulthandler._sigsegv(),
    "hang": hang,
    "spin": spin,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "print": lambda: spread(b"x" * (1 << 16)),
    "binary": lambda: spread(bytes(range(256)) * 256),
    "close": close_all,
    "close tie": close_tie,
    "close output": lambda: (os.close(1), os.close(2)),
    "no stderr": lambda: setattr(sys, "stderr", None),
    "children": children,
    "handlers": handlers,
    "daemons": daemons,
    "recurse": recurse,
    "elsewhere": elsewhere,
    "starve": starve,
    "limited": limited,
    "session": lambda: subprocess.Popen(["sleep", "1000"], start_new_session=True),
    "pool": pool,
    "unable": lambda: open("/nowhere/at/all"),
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
}
MARKS = os.environ.get("GODWIT_TEST_MARKS", "")
state_now = {}


def at(place):
    for one in sys.argv[1:]:
        kind, _, where = one.partition("@")
        if where != place:
            continue
        if not kind.startswith("!"):
            try:
                os.close(os.open(os.path.join(MARKS, one.replace("/", " ")), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
        DEEDS[kind.lstrip("!")]()


at("import")
data = numpy.random.normal(size=(600, 4))
job = arrays.Job({"w": numpy.full(4, 0.5)}, {"g": numpy.zeros(4)}, shards=6, updates=30, eval_every=5, eval_shards=2)
job.vars.rate = 0.1


@job.shard
def shard(s, state):
    state_now.update(state)
    at(f"shard {s.update}")
    x = data[s.indices(600, 10)]
    return {"g": (x @ state["w"] - x.sum(1)) @ x + numpy.random.normal() * 1e-3}, len(x)


@job.update
def update(u, state, totals):
    at(f"once {u.update}")
    state["w"] -= job.vars.rate * totals["g"] / u.weight
    job.vars.rate *= 0.99


@job.after
def after(e, state):
    state_now.update(state)
    at(f"after {e.update}")


at("run")
result = job.run()
print("finished", result.updates)
at("behind")
