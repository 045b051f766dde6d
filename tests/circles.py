#!/usr/bin/env python3
"""circles.py: the files of a peer's brain (core/brain) call each other in one direction: no two of them are in a circle of
calls, so that each can be read, and tested, with only those it calls. Run by tests/lint.sh in the root of the tree; prints
every circle, and its exit code is 1 if there was one.

usage: circles.py [--list]     --list prints which file calls which, and what

A file calls another if it names a function that the other defines. Rooms (tests/rooms.py) keep such an order of folders;
this script holds it for the files inside of them."""

import collections
import glob
import os
import re
import sys

BRAIN = "core/brain"
IGNORED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)  # comments and strings
# A definition at the start of a line, of a function that other files can call.
DEFINED = re.compile(r"^(?!static\b)\w[\w \*]*?\b(gw_\w+)\([^;{]*\)\s*\{", re.MULTILINE)
NAMED = re.compile(r"\bgw_\w+")


def calls_of(sources):
    """sources: {path: text}. Returns {path: {path of a file that it calls: {functions}}}."""
    plain = {path: IGNORED.sub(" ", text) for path, text in sources.items()}
    defined = {name: path for path, text in plain.items() for name in DEFINED.findall(text)}
    calls = {path: collections.defaultdict(set) for path in plain}
    for path, text in plain.items():
        for name in NAMED.findall(text):
            if defined.get(name, path) != path:
                calls[path][defined[name]].add(name)
    return calls


def reached_from(start, calls):
    """All files that one calls, directly or by way of others."""
    reached, waiting = set(), [start]
    while waiting:
        for other in calls[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def circles_of(calls):
    """Sets of files of which each calls all others, directly or by way of others; the largest first."""
    reached = {path: reached_from(path, calls) for path in calls}
    found = {frozenset({path} | {o for o in reached[path] if path in reached[o]}) for path in calls if path in reached[path]}
    return sorted(found, key=lambda circle: (-len(circle), sorted(circle)))


def read(path):
    with open(path) as file:
        return file.read()


def calls_in_tree():
    return calls_of({path: read(path) for path in glob.glob(f"{BRAIN}/**/*.c", recursive=True)})


def main():
    calls = calls_in_tree()
    if "--list" in sys.argv[1:]:
        for path in sorted(calls):
            for other in sorted(calls[path]):
                print(f"{path} -> {other}: {' '.join(sorted(calls[path][other]))}")
    circles = circles_of(calls)
    for circle in circles:
        print(f"lint: these files of {BRAIN} call each other in a circle:", file=sys.stderr)
        for path in sorted(circle):
            for other in sorted(circle & calls[path].keys()):
                print(f"    {path} calls {os.path.basename(other)}: {' '.join(sorted(calls[path][other]))}", file=sys.stderr)
    return 1 if circles else 0


if __name__ == "__main__":
    sys.exit(main())
