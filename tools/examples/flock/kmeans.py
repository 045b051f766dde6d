"""k-means: each round, tasks of `godwit map` assign points to the nearest center, and the centers are moved.

Shows many short maps one after another, with a state between them that the tasks get as an argument. All numbers are
whole, so that centers and rounds are the same on any number of nodes.

    python3 tools/examples/flock/kmeans.py [POINTS]      # of each strip
"""

import json
import random
import sys

from example import check, spread

STRIPS, ROUNDS = 6, 30
TRUTH = [(-3000, -2000), (2500, -2500), (0, 400), (-2500, 3000), (3000, 2500)]


def points_of(strip, count):
    """Whole numbers around the true centers, some 660 from them, along each axis: the points of a strip are drawn from its number."""
    draw = random.Random(strip).getrandbits
    for i in range(count):
        x, y = TRUTH[i % len(TRUTH)]
        yield x + sum(draw(10) - 512 for _ in range(5)), y + sum(draw(10) - 512 for _ in range(5))


def nearest(centers, x, y):
    return min(range(len(centers)), key=lambda i: (x - centers[i][0]) ** 2 + (y - centers[i][1]) ** 2)


def assign(count, centers, strip):
    """Of each center: how many points are nearest to it, and their sums."""
    sums = [[0, 0, 0] for _ in centers]
    for x, y in points_of(strip, count):
        mine = sums[nearest(centers, x, y)]
        mine[:] = mine[0] + 1, mine[1] + x, mine[2] + y
    return sums


def update(centers, parts):
    """The means of the points that are nearest to each center, rounded down; a center without points stays."""
    totals = [[sum(column) for column in zip(*of)] for of in zip(*parts)]
    return [[x // n, y // n] if n else center for (n, x, y), center in zip(totals, centers)], sum(n for n, _, _ in totals)


def main(count=1000):
    some = list(points_of(0, count))
    centers = [some[0]]
    while len(centers) < len(TRUTH):  # begin with points that are far from each other
        centers.append(max(some, key=lambda p: min((p[0] - x) ** 2 + (p[1] - y) ** 2 for x, y in centers)))
    for number in range(1, ROUNDS + 1):
        output = spread(__file__, [count, json.dumps(centers)], range(STRIPS))
        before, (centers, total) = centers, update(centers, map(json.loads, output.splitlines()))
        if centers == before:
            break
    print(f"{total} points, {number} rounds: the centers are {sorted(centers)}.")
    check(centers == before and total == STRIPS * count, "the centers are the means of all points that are nearest to them")
    check(all(min(abs(x - a) + abs(y - b) for a, b in centers) < 600 for x, y in TRUTH), "each true center has one near it")


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        print(json.dumps(assign(int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4]))))
    else:
        main(*map(int, sys.argv[1:]))
