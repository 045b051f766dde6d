"""A flock on this machine for an example: members that listen on loopback, and commands that are shown as they are given."""

import contextlib
import os
import shlex
import sys
import tempfile

from example import HERE, find_godwit

sys.path.insert(0, os.path.join(HERE, "..", "..", "lab"))
from members import Member, Members, Trouble, until  # noqa: E402, F401


@contextlib.contextmanager
def flock(cores):
    """Members with these names and cores: {name: cores}. Each is `godwit up --dir NAME --name NAME --cores N --listen
    127.0.0.1:0 --join OTHERS`. They end with the block."""
    with tempfile.TemporaryDirectory() as folder:
        members = Members(folder, 0, find_godwit())
        members.list = [Member(members, name, ["--cores", str(count)]) for name, count in cores.items()]
        try:
            with members:
                yield members
        except Trouble as trouble:
            sys.exit(f"WRONG: {trouble}")


def tell(member, command, *words):
    """Gives a member a command, and prints both the command and its output."""
    print("$", shlex.join(["godwit", command, *words]))
    output = member.do(command, *words)
    print(output, end="", flush=True)
    return output
