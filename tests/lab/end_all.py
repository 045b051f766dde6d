"""Runs a command, and ends all that it has started before it ends itself, in whatever process group or session that is.

usage: end_all.py COMMAND [ARGUMENT...]

SIGTERM, SIGINT and SIGHUP are passed on to the command. What is left when it has ended gets SIGTERM, and SIGKILL two seconds
later. If this program is killed, the command gets SIGTERM. The exit code is the command's.
"""

import ctypes
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "lab"))
from members import below, send  # noqa: E402

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_S = 2
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


def start(command):
    """Starts the command in this process's place of the process group; returns its number."""
    mine = os.getpid()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != mine:
            os._exit(143)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    return pid


def wait(pid):
    """Waits for the command, and for what it left behind and this process got; returns the command's exit code."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def end_rest():
    """Ends all descendants of this process."""
    number, until = signal.SIGTERM, time.monotonic() + GRACE_S
    while left := below([os.getpid()]) - {os.getpid()}:
        send(left, number)
        number = signal.SIGKILL if time.monotonic() > until else 0
        time.sleep(0.05)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return


def main():
    if ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("end_all.py: processes that lose their parent cannot be had by this one (prctl)")
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    pid = start(sys.argv[1:])
    for number in PASSED_ON:
        signal.signal(number, lambda number, frame: send([pid], number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = wait(pid)
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_IGN)
    end_rest()
    sys.exit(code)


if __name__ == "__main__":
    main()
