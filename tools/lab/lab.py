"""./build.sh lab: machines with RDMA devices (machines.py says what they are), for a script or for a look around.

usage: lab.py [N] [--cores N] [--memory MIB] [--memlock KIB] [-- COMMAND [ARGUMENT...]]

With a command: N machines (default 3) come up, each runs it, and what they print is shown with the machine's number
in front. A single word with spaces is a line of shell. The variables GODWIT_LAB_NUMBER, GODWIT_LAB_ADDRESS and
GODWIT_LAB_ADDRESSES tell it where it is. Exit code: 0 if all ended with 0.

Without one, lines of this kind are read from stdin:
  1 COMMAND | all COMMAND    runs a line of shell in a machine, or in all at once
  kill N | start N           kills a machine's QEMU; boots it again
  freeze N | thaw N          stops its processors, and lets them go on
  cut N | heal N             pulls its network cable, and puts it back
  quit
"""

import argparse
import os
import shlex
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flock import end_on_signals  # noqa: E402
from machines import Lab, Trouble  # noqa: E402


def follow(machine, job):
    for line in job.lines():
        print(f"{machine.number}| {line}", flush=True)
    if job.wait() != 0:
        print(f"{machine.number}| exit code {job.code}", flush=True)


def run_in(machines, command):
    """Runs a line of shell in each at once; returns the exit codes."""
    jobs = [machine.spawn(command) for machine in machines]
    followers = [threading.Thread(target=follow, args=pair) for pair in zip(machines, jobs)]
    for follower in followers:
        follower.start()
    for follower in followers:
        follower.join()
    return [job.code for job in jobs]


def obey(lab, line):
    """One line of the console; false at its end."""
    word, _, rest = line.strip().partition(" ")
    if word == "quit":
        return False
    if word == "all":
        run_in([machine for machine in lab.machines.values() if machine.alive], rest)
    elif word in ("kill", "start", "freeze", "thaw", "cut", "heal") and rest.isdigit():
        lab.start(int(rest)) if word == "start" else getattr(lab.machine(int(rest)), word)()
    elif word.isdigit() and rest:
        run_in([lab.machine(int(word))], rest)
    elif word:
        print("1 COMMAND, all COMMAND, kill N, start N, freeze N, thaw N, cut N, heal N, quit", flush=True)
    return True


def console(lab):
    for machine in lab.machines.values():
        print(f"machine {machine.number}: {machine.address}, rxe0", flush=True)
    while True:
        if sys.stdin.isatty():
            print("lab> ", end="", flush=True)
        line = sys.stdin.readline()
        try:
            if not line or not obey(lab, line):
                return 0
        except Trouble as trouble:
            print(trouble, flush=True)


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1], add_help=False)
    parser.add_argument("count", type=int, nargs="?", default=3)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--memlock", default="unlimited")
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    return parser.parse_args(words[:at]), words[at + 1 :]


def main():
    options, command = parse()
    end_on_signals()
    try:
        with Lab(options.count, options.cores, options.memory, memlock=options.memlock) as lab:
            machines = lab.start_all()
            if not command:
                return console(lab)
            codes = run_in(machines, command[0] if len(command) == 1 else shlex.join(command))
            return 0 if not any(codes) else 1
    except Trouble as trouble:
        print(f"lab: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
