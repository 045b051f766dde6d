"""A job of arrays whose samples a loader gathers, with so many processes as the first argument says and a fault that the
second one names. It dies where it is told to."""

import os
import signal
import sys
import time

import godwit

import deaths
import numpy
from godwit import arrays

processes = int(sys.argv[1])
fault = sys.argv[2] if len(sys.argv) > 2 else ""
marks = os.environ.get("GODWIT_TEST_MARKS", "")
main = os.getpid()


def once(name):
    """Whether this is the first process to come here."""
    try:
        os.close(os.open(os.path.join(marks, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Noisy:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        if marks and os.getppid() != main:
            with open(os.path.join(marks, f"pid {os.getpid()}"), "w") as file:
                file.write(str(os.getppid()))
        if fault == "raises" and index == 17:
            raise KeyError("no such picture")
        if fault == "exits" and index == 17:
            sys.exit("enough")
        if fault == "dies" and index == 17:
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "dies once" and index % 10 == 7 and once(f"died {index}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "cannot be sent" and index == 17:
            return lambda: index
        if fault == "hangs":
            time.sleep(3600)
        return numpy.full(20, float(index)) + numpy.random.normal(size=20), index


def stack(samples):
    values = [value for value, _ in samples] or [numpy.zeros(20)]
    return numpy.stack(values), [index for _, index in samples]


loader = godwit.Loader(Noisy(), 8, stack, processes)
job = arrays.Job({"w": numpy.zeros(20)}, {"g": numpy.zeros(20)}, shards=6, updates=5, eval_every=2, eval_shards=2,
                 reports=["sum"])  # fmt: skip


@job.shard
def shard(s, state):
    deaths.at("shard", s.update, s.shard)
    before = numpy.random.normal()
    x, which = loader(s)
    after = numpy.random.normal()
    return {"g": x.sum(0) * (1 + before) + after + state["w"]}, len(which) or 1, {"sum": float(x.sum())}


@job.update
def update(u, state, totals):
    state["w"] += 1e-3 * totals["g"] / u.weight


job.run()
print("finished", loader.hits + loader.misses > 0 or processes == 0)
