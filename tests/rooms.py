#!/usr/bin/env python3
"""rooms.py: the rules about rooms. Run by tests/lint.sh in the root of the tree; prints every complaint, and its exit code
is 1 if there was one.

tests/rooms.txt is the one table: which rooms there are, in which order they stand, and on what each floor stands. Beside
the order of includes this script holds how large folders and files may be, that a file does not repeat its folder's name,
that each part of a peer's state is written by its own room or file alone, and that the tests of a room include no higher
floor."""

import collections
import os
import re
import subprocess
import sys

TABLE = "tests/rooms.txt"
MOST_FILES = 45  # of code in a folder
MOST_LINES = 1200  # in a file
CODE = re.compile(r"\.(c|h|cu|cuh|inc)$")
PRODUCT = ("core", "net", "kernels", "checkpoint", "tools")
PRIVATE = "inside.h"
COMPOSED = "state.h"  # a struct that is put together of those in the state.h of the rooms inside of its own
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
# The parts of a peer's state, members of gw_peer, and the code that alone writes each: a room of that name, or one file.
PEER_PARTS = {part: f"core/brain/{part}/" for part in ("members", "faults", "save", "step", "view")} | {
    part: f"core/brain/{file}.c"
    for part, file in (
        ("agenda", "agenda"), ("commit", "commit"), ("outbox", "outbox"), ("record", "record"), ("state", "job_state")
    )
}
PEER_WRITE = re.compile(
    r"\b(?:p|peer)->(" + "|".join(PEER_PARTS) + r")\.[\w.\[\]>-]+\s*(?:=(?!=)|\+=|-=|\|=|&=|\+\+|--)"
)


class Table:
    """The rooms in their order, and which floors each floor stands on."""

    def __init__(self, text):
        self.floor_of, self.place_of, self.stands_on = {}, {}, {}
        self.higher_includes = 0
        floor = None
        for line in text.splitlines():
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "higher-includes":
                self.higher_includes = int(words[1])
            elif words[0] == "floor":
                floor = words[1]
                self.stands_on[floor] = set(words[3:])
            else:
                self.floor_of[words[0]] = floor
                self.place_of[words[0]] = len(self.place_of)

    def may_include(self, room, other):
        floor, below = self.floor_of[room], self.floor_of[other]
        if floor == below:
            return self.place_of[other] <= self.place_of[room]
        return below in self.stands_on[floor]

    def floor_of_tests(self, path):
        """The floor whose code a file of tests/ is for, by its folder; None where its folder is for several."""
        folder = os.path.dirname(path).removeprefix("tests/")
        while folder:
            for room in (folder, folder.replace("tools", "tools/godwit", 1)):
                if room in self.floor_of:
                    return self.floor_of[room]
            folder = os.path.dirname(folder)
        return None


def code_files():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted(path for path in listed if CODE.search(path) and os.path.exists(path))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sizes(files):
    folders = collections.Counter(os.path.dirname(path) for path in files)
    for folder, count in sorted(folders.items()):
        if count > MOST_FILES:
            yield f"{folder}: {count} files of code; {MOST_FILES} is the most, so it needs rooms of its own"
    for path in files:
        lines = read(path).count("\n")
        if lines > MOST_LINES:
            yield f"{path}: {lines} lines; {MOST_LINES} is the most"
        name, folder = os.path.basename(path), os.path.basename(os.path.dirname(path))
        if folder and name.startswith(folder + "_"):
            yield f"{path}: its name repeats its folder's"


def includes(files, table):
    for path in files:
        if not path.startswith(PRODUCT):
            continue
        room = os.path.dirname(path)
        if room not in table.floor_of:
            yield f"{path}: {room} is not in {TABLE}"
            continue
        for header in INCLUDE.findall(read(path)):
            other = os.path.dirname(header)
            if other not in table.floor_of:
                yield f"{path}: includes {header}, which is in no room of {TABLE}"
            elif other != room and os.path.basename(header) == PRIVATE:
                yield f"{path}: includes {header}, which is private to {other}"
            elif os.path.basename(path) == os.path.basename(header) == COMPOSED and other.startswith(room + "/"):
                continue
            elif not table.may_include(room, other):
                yield f"{path}: includes {header}, but {room} does not stand on {other} ({TABLE})"


def higher_includes(files, table):
    for path in files:
        floor = table.floor_of_tests(path) if path.startswith("tests/") else None
        for header in INCLUDE.findall(read(path)) if floor else ():
            other = table.floor_of.get(os.path.dirname(header), floor)
            if other not in {floor, *table.stands_on[floor]}:
                yield f"{path}: includes {header}, but the floor {floor} does not stand on {other} ({TABLE})"


def empty_rooms(files, table):
    rooms = {os.path.dirname(path) for path in files}
    for room in table.floor_of:
        if room not in rooms:
            yield f"{TABLE}: there is no code in {room}"


def peer_writes(files):
    for path in files:
        if not path.startswith("core/brain/"):
            continue
        for number, line in enumerate(read(path).splitlines(), 1):
            for part in PEER_WRITE.findall(line):
                if not path.startswith(PEER_PARTS[part]):
                    yield f"{path}:{number}: writes p->{part}, which {PEER_PARTS[part]} alone writes"


def main():
    table, files = Table(read(TABLE)), code_files()
    found = [*sizes(files), *includes(files, table), *empty_rooms(files, table)]
    found += peer_writes(files)
    higher = list(higher_includes(files, table))
    if len(higher) > table.higher_includes:
        found += [*higher, f"{len(higher)} such includes; {TABLE} allows {table.higher_includes}"]
    for complaint in found:
        print(f"lint: {complaint}", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
