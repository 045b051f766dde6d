"""A job of arrays with a probe, of a kind that the first argument names."""

import os
import sys

import godwit

import numpy
from godwit import arrays

kind = sys.argv[1]
data = numpy.random.normal(size=(600, 4))
scale = [1.0]


def probe():
    if kind == "fresh":
        return os.getpid()
    if kind == "object":
        return object()
    if kind == "raises":
        raise ValueError("no processor has it")
    return {"scale": scale[0], "machine": os.environ.get("GODWIT_TEST_MACHINE"), "array": numpy.arange(3)}


job = arrays.Job({"w": numpy.full(4, 0.5)}, {"g": numpy.zeros(4)}, shards=6, updates=8,
                 probe={"none": False, "default": True}.get(kind, probe))  # fmt: skip


@job.shard
def shard(s, state):
    if kind == "used":
        scale[0] = 2.0
    x = data[s.indices(600, 10)]
    return {"g": (x @ state["w"]) @ x + numpy.random.normal()}, len(x)


@job.update
def update(u, state, totals):
    state["w"] -= 0.1 * totals["g"] / u.weight


job.run()
