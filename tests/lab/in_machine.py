"""Runs a Criterion suite in a machine of the lab, on its RDMA device; the TAP file is as if it had run here.

usage: in_machine.py SUITE --tap=FILE [OPTION...]     options for the suite
"""

import os
import shlex
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "lab"))
from machines import Lab, Trouble, missing  # noqa: E402

LIMIT_S = 3600  # CTest's own comes first
MEMORY_MB = 2048  # under the address sanitizer two tests with eight peers each do not fit into half of that
PASSED_ON = ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "GODWIT_TEST_DATA")


def main():
    binary, tap, *options = sys.argv[1:]
    path = tap.removeprefix("--tap=")
    reason = missing()
    if reason:
        with open(path, "w") as file:
            print(f"1..1\nok - all of it # SKIP no lab here: {' '.join(reason.split())}", file=file)
        return 0
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    try:
        with Lab(1, memory_mb=MEMORY_MB) as lab:
            machine = lab.start(1)
            job = machine.spawn(shlex.join([binary, "--tap=/lab/tap", *options]), env)
            for line in job.lines():
                print(line, flush=True)
            code = job.wait(LIMIT_S)
            made = os.path.join(lab.shared, "tap")
            if os.path.exists(made):
                shutil.copyfile(made, path)
            if not machine.alive:
                print(f"the machine ended:\n{machine.last_words()}", file=sys.stderr)
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 1
    return code if 0 <= code <= 255 else 1


if __name__ == "__main__":
    sys.exit(main())
