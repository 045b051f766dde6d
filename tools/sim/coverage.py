"""Which branches of core/ a run took, from what a build with -DGODWIT_COVERAGE=ON left behind.

usage: coverage.py BUILD

Invariants (GW_CHECK), of which the other side must not be taken, are left out. Rooms that no simulated peer can
enter (the exact sum of floats, the job API) count all the same.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def counted(build, folder):
    """gcov's findings for each source of core, as gcov 9 and later write them."""
    objects = os.path.join(os.path.abspath(build), "CMakeFiles", "gw_core.dir", "core")
    data = sorted(os.path.join(objects, name) for name in os.listdir(objects) if name.endswith(".gcda"))
    if not data:
        sys.exit(f"coverage.py: {objects} has no counts: nothing was run, or the build does not count")
    subprocess.run(
        ["gcov", "--branch-probabilities", "--json-format", *data], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    for name in os.listdir(folder):
        with gzip.open(os.path.join(folder, name)) as file:
            yield from json.load(file)["files"]


def source_lines(path):
    with open(path) as file:
        return ["", *file.read().splitlines()]


def branches(file, base):
    """(taken, all) branches and lines of one source."""
    lines = source_lines(os.path.join(base, file["file"]) if not os.path.isabs(file["file"]) else file["file"])
    found = [0, 0, 0, 0]
    for line in file["lines"]:
        if "GW_CHECK" in lines[line["line_number"]]:
            continue
        found[2] += line["count"] > 0
        found[3] += 1
        for branch in line["branches"]:
            found[0] += branch["count"] > 0
            found[1] += 1
    return found


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    rooms, total = [], [0, 0, 0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for file in counted(sys.argv[1], folder):
            if not file["file"].endswith(".c") or "core/" not in file["file"]:
                continue
            found = branches(file, os.path.join(os.path.abspath(sys.argv[1])))
            rooms.append((file["file"].split("core/")[-1], found))
            total = [a + b for a, b in zip(total, found)]
    print(f"{'core/':24} {'branches':>16} {'lines':>16}")
    for name, (taken, every, run, lines) in sorted(rooms, key=lambda room: room[1][0] / max(room[1][1], 1)):
        print(f"{name:24} {taken:5} of {every:5} {taken / max(every, 1):4.0%} {run:5} of {lines:5} {run / max(lines, 1):4.0%}")
    taken, every, run, lines = total
    print(f"{'all':24} {taken:5} of {every:5} {taken / max(every, 1):4.0%} {run:5} of {lines:5} {run / max(lines, 1):4.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
