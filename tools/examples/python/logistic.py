"""Logistic regression on points that are drawn here, by Newton's method: a job of NumPy's arrays.

    python logistic.py [UPDATES]                    on this machine alone
    godwit run logistic.py --dir a -- [UPDATES]     on a flock
"""
import sys

import godwit  # before NumPy: it seeds and pins

import numpy
from godwit import arrays

POINTS, FEATURES, SHARDS, PENALTY = 20000, 12, 10, 1.0

updates = int(sys.argv[1]) if len(sys.argv) > 1 else 20
truth = numpy.random.normal(size=FEATURES + 1)
points = numpy.random.normal(size=(POINTS, FEATURES + 1))
points[:, FEATURES] = 1  # the intercept
labels = (points @ truth + numpy.random.logistic(size=POINTS) > 0).astype(float)
weights = numpy.zeros(FEATURES + 1)
job = arrays.Job({"weights": weights}, {"gradient": weights, "curvature": numpy.outer(weights, weights)}, shards=SHARDS,
                 updates=updates, reports=["loss", "right"])


@job.shard
def shard(s, state):
    x, y = points[s.shard :: s.shards], labels[s.shard :: s.shards]
    score = x @ state["weights"]
    chance = 1 / (1 + numpy.exp(-score))
    sums = {"gradient": (chance - y) @ x, "curvature": (x * (chance * (1 - chance))[:, None]).T @ x}
    loss = numpy.logaddexp(0, score).sum() - y @ score
    return sums, len(x), {"loss": loss, "right": ((score > 0) == (y > 0)).sum()}


@job.update
def update(u, state, totals):
    gradient = totals["gradient"] + PENALTY * state["weights"]
    step = numpy.linalg.solve(totals["curvature"] + PENALTY * numpy.eye(FEATURES + 1), gradient)
    state["weights"] -= step
    u.stop = bool(abs(step).max() < 1e-10)


result = job.run()
error = numpy.sqrt(((result.state["weights"] - truth) ** 2).mean())
print(f"after {result.updates} updates: loss {result.reports['loss']:.6f}, {result.reports['right']:.2%} right, "
      f"weights off by {error:.3f}")
