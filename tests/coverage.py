"""Which branches of core/ the tests took, from what a build with -DGODWIT_COVERAGE=ON left behind when it ran.

usage: coverage.py BUILD [--list] [--least PERCENT]

Prints a table by file, after every branch that was never taken with --list. Exit code 1 when fewer than PERCENT of all
were taken. A branch is one way out of a condition: `if (a && b)` has four. The conditions of GW_ASSERT are left out, since they
have a side that must never be taken; nothing else is. So that they hide nothing but themselves, GW_ASSERT has to be a
statement that begins its line.
"""

import argparse
import collections
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'", re.DOTALL)


def gcov(build, folder):
    """gcov's findings for each file that core's objects were made of."""
    objects = os.path.join(os.path.abspath(build), "CMakeFiles", "gw_core.dir", "core")
    notes = sorted(os.path.join(objects, name) for name in os.listdir(objects) if name.endswith(".gcno"))
    if not any(name.endswith(".gcda") for name in os.listdir(objects)):
        sys.exit(f"coverage.py: {objects} has no counts: nothing was run, or the build does not count")
    command = ["gcov", "--branch-probabilities", "--json-format", *notes]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"coverage.py: gcov failed\n{done.stderr}")
    for name in os.listdir(folder):
        with gzip.open(os.path.join(folder, name)) as file:
            yield from json.load(file)["files"]


def code_only(text):
    """The text with everything blanked that is a comment, a string or a character."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def lines_of_checks(path, text):
    """The numbers of the lines that GW_ASSERT statements cover."""
    code, covered = code_only(text), set()
    for found in re.finditer(r"\bGW_ASSERT\(", code):
        before = code[code.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
        if before == "#define":
            continue
        end, depth = found.end(), 1
        while depth > 0:
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        first = code.count("\n", 0, found.start()) + 1
        rest = code[end : (code + "\n").index("\n", end)].strip()
        if before or rest != ";":
            sys.exit(f"coverage.py: {path}:{first}: GW_ASSERT shares its line with other code, which it would hide")
        covered.update(range(first, first + code.count("\n", found.start(), end) + 1))
    return covered


def count(files):
    """For each source: for each (line, function) how often each of its branches was taken."""
    counts = collections.defaultdict(dict)
    for file in files:
        path = os.path.relpath(file["file"], ROOT)
        if not path.startswith("core" + os.sep):
            continue
        for line in file["lines"]:  # a header's are in every object that uses it: they add up
            branches = [branch["count"] for branch in line["branches"]]
            key = (line["line_number"], line.get("function_name"))
            known = counts[path].get(key, [0] * len(branches))
            counts[path][key] = [a + b for a, b in zip(known, branches, strict=True)]
    return counts


def judge(path, lines):
    """(taken, all) branches of one source, and what to say of those never taken."""
    with open(os.path.join(ROOT, path)) as file:
        text = file.read()
    source, checks = text.splitlines(), lines_of_checks(path, text)
    taken, every, missed = 0, 0, []
    for (number, _), branches in sorted(lines.items(), key=lambda item: item[0][0]):
        if number in checks or not branches:
            continue
        run = sum(one > 0 for one in branches)
        taken, every = taken + run, every + len(branches)
        if run < len(branches):
            missed.append(f"{path}:{number}: {run} of {len(branches)} taken: {source[number - 1].strip()}")
    return taken, every, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--list", action="store_true", help="every line with branches never taken, too")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = count(gcov(a.build, folder))
    rows = {path: judge(path, lines) for path, lines in sorted(counts.items())}
    if a.list:
        for line in itertools.chain.from_iterable(missed for _, _, missed in rows.values()):
            print(line)
    taken, every = (sum(row[column] for row in rows.values()) for column in (0, 1))
    print(f"\n{'branches':24} {'taken':>6} {'of':>6} {'never':>6}")
    for path, of_taken, of_every in [*((path, *row[:2]) for path, row in rows.items()), ("all of core/", taken, every)]:
        if of_every > 0:
            print(f"{path:24} {of_taken:6} {of_every:6} {of_every - of_taken:6} {100 * of_taken / of_every:6.1f} %")
    if 100 * taken < a.least * every:
        print(f"coverage.py: fewer than {a.least:g} % of the branches were taken", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
