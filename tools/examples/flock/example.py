"""What the examples share: where the program is, and functions of a script as tasks of `godwit map`."""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = os.path.normpath(os.path.join(HERE, "..", "..", "..", "build", "godwit"))


def find_godwit():
    """The program: GODWIT_BINARY, that of this tree, or the one that is installed."""
    found = os.environ.get("GODWIT_BINARY") or (BUILT if os.path.exists(BUILT) else shutil.which("godwit"))
    return found or sys.exit("There is no godwit: build it (./build.sh), or name it by GODWIT_BINARY.")


def spread(script, words, inputs):
    """Runs `python3 SCRIPT task WORDS INPUT` for each input: on all nodes if this machine is a node of a flock, and on this
    machine otherwise. Returns what the tasks have written, in the order of the inputs."""
    file = os.path.basename(script)
    command = [find_godwit(), "map", "--name", file.removesuffix(".py"), "--keep-order", "--quote", "python3", file, "task"]
    command += map(str, words)
    lines = "".join(f"{one}\n" for one in inputs)
    # In the script's directory and by a name alone: so it travels to nodes that do not have the directory.
    done = subprocess.run(command, cwd=os.path.dirname(os.path.abspath(script)), input=lines.encode(), stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"godwit map has ended with {done.returncode}; up to 101 that is how many tasks have failed.")
    return done.stdout


def check(holds, what):
    """Says what was checked, or ends the example."""
    if not holds:
        sys.exit(f"WRONG: it does not hold that {what}.")
    print(f"Checked: {what}.")
