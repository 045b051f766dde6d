"""Pi by random points: tasks of `godwit map` count how many of their points lie in a quarter of a circle.

Shows a sum of whole numbers over many tasks: each draws its points from its own number alone, so that the result has
the same bytes on one machine, on any number of nodes, and whoever is killed meanwhile.

    python3 tools/examples/flock/pi.py [POINTS]      # of each task
"""

import math
import random
import sys

from example import check, spread

TASKS = 24


def count(points, task):
    draw = random.Random(task).getrandbits
    return sum(draw(32) ** 2 + draw(32) ** 2 < 2**64 for _ in range(points))


def main(points=200000):
    counts = [int(line) for line in spread(__file__, [points], range(TASKS)).split()]
    total, inside = points * TASKS, sum(counts)
    pi, error = 4 * inside / total, math.sqrt(math.pi * (4 - math.pi) / total)
    print(f"{inside} of {total} points are inside: pi is {pi:.6f}, with a standard error of {error:.6f}.")
    check(len(counts) == TASKS and abs(pi - math.pi) < 4 * error, "this is pi to within four standard errors")


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        print(count(*map(int, sys.argv[2:])))
    else:
        main(*map(int, sys.argv[1:]))
