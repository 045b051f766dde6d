#!/usr/bin/env python3
"""parts.py: each part of a peer's state (gw_peer) is written by its own room or file alone, as the compiler sees it. Run by
tests/lint.sh in the root of the tree; prints every complaint, and its exit code is 1 if there was one.

tests/rooms.py finds plain assignments. This script finds writes by pointers as well: it compiles each file of the brain with
all parts constant but its own, and reports what the compiler says about constants."""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

import rooms

BRAIN = "core/brain"
STATE = f"{BRAIN}/state.h"
CONTACTS = f"{BRAIN}/members/state.h"  # contacts are the part of members, though gw_peer points to them
FLAGS = ("-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", "-fno-diagnostics-color")
ABOUT_CONSTANTS = re.compile(r"^(\S+?:\d+):\d+: (?:error|warning): (.*(?:const|read-only|qualifier).*)$", re.MULTILINE)


def owned(path):
    return {part for part, owner in rooms.PEER_PARTS.items() if path.startswith(owner)}


def shadow(folder, own):
    """Headers in `folder` that stand before those of the tree: all parts are constant but `own`."""
    state = rooms.read(STATE)
    for part in set(rooms.PEER_PARTS) - own:
        state, count = re.subn(rf"^    (gw_\w+ {part};)$", r"    const \1", state, flags=re.MULTILINE)
        if count != 1:
            raise SystemExit(f"lint: {STATE}: there is no part {part}, which tests/rooms.py names")
    contacts = rooms.read(CONTACTS)
    if "members" not in own:
        contacts = contacts.replace("    gw_contact *contacts;", "    const gw_contact *contacts;")
    for path, text in ((STATE, state), (CONTACTS, contacts)):
        os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)


def complaints(path):
    with tempfile.TemporaryDirectory() as folder:
        shadow(folder, owned(path))
        compiler = os.environ.get("CC", "cc")
        command = [compiler, *FLAGS, f"-I{folder}", "-I.", path]
        heard = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return [f"{where}: a part of gw_peer that is not its own: {what}" for where, what in ABOUT_CONSTANTS.findall(heard)]


def main():
    if not os.path.exists(STATE) or shutil.which(os.environ.get("CC", "cc")) is None:
        return False
    paths = [path for path in rooms.code_files() if path.startswith(f"{BRAIN}/") and path.endswith(".c")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [complaint for each in pool.map(complaints, paths) for complaint in each]
    for complaint in found:
        print(f"lint: {complaint}", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
