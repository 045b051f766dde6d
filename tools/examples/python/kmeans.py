"""k-means on points that are drawn here: a job of NumPy's arrays.

    python kmeans.py [UPDATES [POINTS]]                  on this machine alone
    godwit run kmeans.py --dir a -- [UPDATES [POINTS]]   on a flock
"""
import sys

import godwit  # before NumPy: it seeds and pins

import numpy
from godwit import arrays

CLUSTERS, SHARDS = 8, 12

updates = int(sys.argv[1]) if len(sys.argv) > 1 else 30
amount = int(sys.argv[2]) if len(sys.argv) > 2 else 6000
truth = numpy.random.normal(size=(CLUSTERS, 2)) * 5
points = truth[numpy.random.randint(CLUSTERS, size=amount)] + numpy.random.normal(size=(amount, 2))
first = points[:CLUSTERS].copy()
job = arrays.Job({"centers": first}, {"total": first, "count": numpy.zeros(CLUSTERS, numpy.int64)}, shards=SHARDS,
                 updates=updates, reports=["distance"])


@job.shard
def shard(s, state):
    mine = points[s.shard :: s.shards]
    squares = ((mine[:, None] - state["centers"]) ** 2).sum(-1)
    nearest = squares.argmin(1)
    total, count = numpy.zeros((CLUSTERS, 2)), numpy.zeros(CLUSTERS, numpy.int64)
    numpy.add.at(total, nearest, mine)
    numpy.add.at(count, nearest, 1)
    return {"total": total, "count": count}, len(mine), {"distance": numpy.sqrt(squares.min(1)).sum()}


@job.update
def update(u, state, totals):
    before = state["centers"].copy()
    filled = totals["count"] > 0
    state["centers"][filled] = totals["total"][filled] / totals["count"][filled, None]
    u.stop = bool((state["centers"] == before).all())


result = job.run()
print(f"after {result.updates} updates the mean distance is {result.reports['distance']:.6f}")
