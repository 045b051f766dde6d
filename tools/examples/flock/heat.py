"""The heat equation by strips: tasks of `godwit map` compute some time steps each of a strip of a plate, with its halo.

Shows a simulation whose state goes through the map, as text: each task gets its rows and as many of its neighbours' as
it does steps, and writes its rows after them. The same sums in the same order give the same bits on any number of nodes.

    python3 tools/examples/flock/heat.py [ROUNDS]
"""

import array
import base64
import math
import sys

from example import check, spread

SIZE, STRIPS, STEPS, RATE = 32, 4, 8, 0.2  # inner rows and columns; steps of a round; a step's share of the difference


def step(rows):
    """One explicit step of all rows but the first and the last, which are the neighbours'; beyond the sides it is cold."""
    new = []
    for above, row, below in zip(rows, rows[1:], rows[2:]):
        wide = [0.0, *row, 0.0]
        new.append([x + RATE * (wide[i] + wide[i + 2] + above[i] + below[i] - 4 * x) for i, x in enumerate(row)])
    return new


def encode(rows):
    return base64.b64encode(b"".join(array.array("d", row).tobytes() for row in rows)).decode()


def decode(text):
    numbers = array.array("d", base64.b64decode(text)).tolist()
    return [numbers[i : i + SIZE] for i in range(0, len(numbers), SIZE)]


def advance(first, rows):
    """STEPS steps of rows of which the first has this number; what lies outside of the plate stays cold."""
    for _ in range(STEPS):
        rows, first = step(rows), first + 1
        rows = [row if 0 <= first + i < SIZE else [0.0] * SIZE for i, row in enumerate(rows)]
    return rows


def main(rounds=6):
    wave = [[math.sin(math.pi * k * i / (SIZE + 1)) for i in range(1, SIZE + 1)] for k in (1, 2)]
    plate = [[100 * (wave[0][i] * wave[0][j] + wave[1][i] * wave[1][j]) for j in range(SIZE)] for i in range(SIZE)]
    cold, height = [[0.0] * SIZE] * STEPS, SIZE // STRIPS
    for _ in range(rounds):
        wide = cold + plate + cold
        inputs = [f"{top - STEPS}:{encode(wide[top : top + height + 2 * STEPS])}" for top in range(0, SIZE, height)]
        plate = [row for line in spread(__file__, [], inputs).decode().splitlines() for row in decode(line)]
    for row in plate[::4]:
        print("".join(" .:-=+*#%@"[max(0, min(9, int(x / max(map(max, plate)) * 9.99)))] for x in row))
    print(f"After {rounds * STEPS} steps by {STRIPS} strips the hottest place has {max(map(max, plate)):.6f} degrees.")
    # Both waves are eigenvectors of a step: each shrinks by a factor that is known.
    shrunk = [100 * (1 - 8 * RATE * math.sin(math.pi * k / 2 / (SIZE + 1)) ** 2) ** (rounds * STEPS) for k in (1, 2)]
    error = max(abs(plate[i][j] - sum(shrunk[k] * wave[k][i] * wave[k][j] for k in (0, 1)))
                for i in range(SIZE) for j in range(SIZE))
    check(len(plate) == SIZE and error < 1e-9, f"it is the exact solution of the discrete equation but for {error:.0e} degrees")


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        number, text = sys.argv[2].split(":")
        print(encode(advance(int(number), decode(text))))
    else:
        main(*map(int, sys.argv[1:]))
