"""A product of matrices by blocks: each task of `godwit map` computes one block of C = A B.

Shows a result that is put together of pieces, in the order of the inputs (--keep-order). The numbers are whole, so that
plain Python and NumPy, which a task takes where its node has it, come to the same bytes.

    python3 tools/examples/flock/matrix.py [SIZE [BLOCK]]      # BLOCK divides SIZE
"""

import json
import random
import sys

from example import check, spread

try:
    import numpy
except ImportError:
    numpy = None  # then in plain Python


def row_of_a(i, size):
    return [(i * 7919 + k * 104729 + i * k) % 201 - 100 for k in range(size)]


def row_of_b(k, size):
    return [(k * 15485863 + j * 32452843 + k * k * j) % 201 - 100 for j in range(size)]


def block(size, width, place):
    """The block in row and column PLACE ("2,0") of C."""
    top, left = (int(number) * width for number in place.split(","))
    rows = [row_of_a(i, size) for i in range(top, top + width)]
    columns = list(zip(*(row_of_b(k, size)[left : left + width] for k in range(size))))
    if numpy:
        return (numpy.array(rows, numpy.int64) @ numpy.array(columns, numpy.int64).T).tolist()
    return [[sum(map(int.__mul__, row, column)) for column in columns] for row in rows]


def times(rows, vector):
    return [sum(map(int.__mul__, row, vector)) for row in rows]


def main(size=192, width=48):
    if width < 1 or size % width:
        sys.exit("matrix.py: BLOCK has to divide SIZE")
    count = size // width
    places = [f"{i},{j}" for i in range(count) for j in range(count)]
    blocks = list(map(json.loads, spread(__file__, [size, width], places).splitlines()))
    c = [[x for j in range(count) for x in blocks[i // width * count + j][i % width]] for i in range(size)]
    print(f"C = A B of {size} rows by {len(blocks)} blocks; its corners are {c[0][0]}, {c[0][-1]}, {c[-1][0]}, {c[-1][-1]}.")
    # Freivalds' check: C v = A (B v) for a random vector; a wrong C passes with a probability of 1 in 2**32.
    vector = [random.getrandbits(32) for _ in range(size)]
    a, b = ([row(i, size) for i in range(size)] for row in (row_of_a, row_of_b))
    check(times(c, vector) == times(a, times(b, vector)), "C v = A (B v) for a random vector v")


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        print(json.dumps(block(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
    else:
        main(*map(int, sys.argv[1:]))
