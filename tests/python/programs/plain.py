"""A job of arrays, with a fault that its argument names; without one it is pure. It dies where it is told to."""

import os
import sys

import godwit

import deaths
import numpy
from godwit import arrays

fault = sys.argv[1] if len(sys.argv) > 1 else ""
data = numpy.random.normal(size=(600, 4))
log = open(os.environ.get("GODWIT_TEST_LOG", os.devnull), "a")  # never closed nor flushed here
log.write("top\n")

if fault == "raises at import":
    raise ValueError("the file has no header")
if fault == "ends at import":
    sys.exit(3)
first = {"w": numpy.full(4, 0.5), "count": numpy.zeros((), numpy.int64), "half": numpy.zeros(3, numpy.float16)}
job = arrays.Job(
    first, {"g": numpy.zeros(4), "n": numpy.int64(0)}, shards=6, updates=8, reports=["size"], eval_every=3, eval_shards=2,
)  # fmt: skip
job.vars.rate = 0.1
job.vars.seen = []
count = 0
if fault == "forgets to run":
    sys.exit()


@job.shard
def shard(s, state):
    deaths.at("shard", s.update, s.shard)
    log.write("shard\n")
    if s.update == 2 and s.shard == 1:
        if fault == "raises":
            raise KeyError("no such sample")
        if fault == "exits":
            sys.exit("enough")
        if fault == "imports":
            import late  # noqa: F401
        if fault == "writes":
            state["w"][0] = 3
        if fault == "shape":
            return {"g": numpy.zeros(5), "n": 1}, 1, {"size": 0.0}
        if fault == "infinite":
            return {"g": numpy.full(4, numpy.inf), "n": 1}, 1, {"size": 0.0}
        if fault == "file":
            open("/nowhere/at/all")
    if fault == "counts":
        global count
        count += 1
    x = data[s.indices(600, 10)] + count
    noise = numpy.random.normal()
    g = (x @ state["w"] - x.sum(1)) @ x + noise * 1e-3
    return {"g": g, "n": len(x)}, len(x), {"size": float(abs(state["w"]).sum()) * len(x)}


@job.update
def update(u, state, totals):
    deaths.at("once", u.update)
    if fault == "raises in update" and u.update == 2:
        raise ZeroDivisionError("the rate is 0")
    if fault == "vars" and u.update == 2:
        job.vars.thing = object()
    if fault == "grows":
        job.vars.text = "x" * 5000
    state["w"] -= job.vars.rate * totals["g"] / u.weight
    state["count"] += totals["n"]
    state["half"][:] = state["w"][:3]
    job.vars.rate *= 0.99
    job.vars.seen = [*job.vars.seen[-2:], u.reports["size"]]


if fault == "no shard":
    job.shard_function = None


@job.after
def after(e, state):
    deaths.at("after", e.update)
    log.write(f"after {e.step}\n")


result = job.run()
log.write("behind\n")
print("finished", result.updates, result.state["count"], len(job.vars.seen), sorted(result.reports))
if fault == "fails behind":
    raise RuntimeError("the disk is full")
