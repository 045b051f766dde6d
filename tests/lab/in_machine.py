"""Runs Criterion suites one after another in a machine of the lab, on its RDMA device; the TAP file has the results of
them all, as if they had run here.

usage: in_machine.py SUITE... --tap=FILE [OPTION...]     options for the suites
"""

import os
import re
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "lab"))
from machines import Lab, Trouble, missing  # noqa: E402

LIMIT_S = 3600  # CTest's own limit is shorter
MEMORY_MB = 2048  # under the address sanitizer two tests with eight peers each do not fit into half of that
PASSED_ON = ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "GODWIT_TEST_DATA")


def results_of(suite, lines, code):
    """The results in a suite's TAP, with its name; a result that its plan promises and that is missing has failed."""
    name = os.path.basename(suite).removeprefix("test_")
    results = [re.sub(r"^((?:not )?ok *-? *)", rf"\1{name}: ", line) for line in lines if re.match(r"(not )?ok\b", line)]
    planned = sum(int(line[3:].split()[0]) for line in lines if line.startswith("1.."))
    results += [f"not ok - {name}: a test gave no result"] * (planned - len(results))
    if not any(line.startswith("not ok") for line in results) and (code != 0 or not results):
        results.append(f"not ok - {name}: the suite crashed, or reported an error as it ended (exit code {code})")
    return results


def run(machine, shared, suite, options, env):
    job = machine.spawn(shlex.join([suite, "--tap=/lab/tap", *options]), env)
    for line in job.lines():
        print(line, flush=True)
    code = job.wait(LIMIT_S)
    made, lines = os.path.join(shared, "tap"), []
    if os.path.exists(made):
        with open(made) as file:
            lines = file.read().splitlines()
        os.remove(made)
    if not machine.alive:
        print(f"the machine ended:\n{machine.last_words()}", file=sys.stderr)
    return results_of(suite, lines, code)


def main():
    split = next(i for i, word in enumerate(sys.argv) if word.startswith("--tap="))
    suites, path, options = sys.argv[1:split], sys.argv[split].removeprefix("--tap="), sys.argv[split + 1 :]
    reason = missing()
    if reason:
        with open(path, "w") as file:
            print(f"1..1\nok - all of it # SKIP no lab here: {' '.join(reason.split())}", file=file)
        return 0
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    results = []
    try:
        with Lab(1, memory_mb=MEMORY_MB) as lab:
            machine = lab.start(1)
            for suite in suites:
                if machine.alive:
                    results += run(machine, lab.shared, suite, options, env)
                else:
                    results.append(f"not ok - {os.path.basename(suite)}: its machine had ended before")
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        results.append("not ok - the machine")
    with open(path, "w") as file:
        print(f"1..{len(results)}", *results, sep="\n", file=file)
    return any(line.startswith("not ok") for line in results)


if __name__ == "__main__":
    sys.exit(main())
