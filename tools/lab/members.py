"""Members of a standing flock (`godwit up`) as processes of this machine, and the commands that are given to them.

Tests and chaos start members with it, kill them, their keepers and their children, and start them again. All that was
started is ended by close(): members, keepers and children have the flock's mark in their environment, if jobs are submitted
through submit().
"""

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flock import HERE, Trouble  # noqa: E402

MARK = "GODWIT_MEMBERS_MARK"
PATIENCE_S = int(os.environ.get("GODWIT_TEST_PATIENCE_S", "90"))  # with a sanitizer all takes several times as long
GROUPS = "their control groups are in "  # in the log of a member


def until(what, look, seconds=PATIENCE_S):
    """Waits until look() is true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > end:
            raise Trouble(f"{what} did not come in {seconds} s")
        time.sleep(0.05)


def processes():
    """All processes that run: {pid: pid of the parent}. One that has ended and was not waited for runs no more."""
    found = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat") as file:
                words = file.read().rpartition(")")[2].split()
            if words[0] not in "ZX":
                found[int(name)] = int(words[1])
    return found


def read(pid, what):
    """The words of a process's environment or command line; none where it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{what}", "rb") as file:
        return file.read().split(b"\0")
    return []


def below(roots):
    """These processes, and all that descend from them."""
    parents = processes()
    found = {pid for pid in roots if pid in parents}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Member:
    """One directory, and the processes that have run in it one after another."""

    def __init__(self, flock, name, options=(), home=HERE):
        self.flock, self.name, self.options, self.home = flock, name, list(options), home
        self.binary = flock.binary
        self.directory = os.path.join(flock.folder, name)
        self.errors = os.path.join(flock.folder, f"{name}.err")
        self.process = self.reader = self.address = None
        self.lines, self.history = [], []  # what its process has written to stdout, and all processes before
        self.news = threading.Condition()

    # --- its process ---

    def start(self, join=(), wait=True):
        """Starts it; the seeds are other members. Returns when it takes commands, or at once."""
        self.lines, self.address = [], None
        seeds = ["--join", ",".join(other.address for other in join)] if join else []
        command = ["env", *map("=".join, self.flock.mark.items()), self.binary, "up", "--as-root",
                   "--dir", self.directory, "--name", self.name, "--listen", f"{self.home.address}:{self.home.port}",
                   *seeds, *self.options]
        self.process = self.home.launch(command, self.errors)
        self.reader = threading.Thread(target=self.read, args=(self.process,), daemon=True)
        self.reader.start()
        if wait:
            until(f"{self.name} opens its door", self.answers)

    def answers(self):
        """Whether it takes commands."""
        if not self.is_running():
            raise Trouble(f"{self.name} has ended: {self.last_words()}")
        with contextlib.suppress(OSError), self.knock():
            self.address = self.await_line(r"is a member of the flock .* at (\S+): ").group(1)
            return True
        return False

    def knock(self):
        """A connection to the socket by which it takes commands."""
        door = socket.socket(socket.AF_UNIX)
        door.settimeout(PATIENCE_S)
        try:
            door.connect(os.path.join(self.directory, "flock.sock"))
        except OSError:
            door.close()
            raise
        return door

    def read(self, process):
        for line in process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            with self.news:
                self.lines.append(text)
                self.history.append(text)
                self.news.notify_all()
        process.stdout.close()
        with self.news:
            self.lines.append(None)  # it has ended
            self.news.notify_all()

    def await_line(self, pattern, seconds=PATIENCE_S):
        """Waits for a line that matches, of this process, and returns the match."""
        end = time.monotonic() + seconds
        at = 0
        with self.news:
            while True:
                for line in self.lines[at:]:
                    if line is None:
                        raise Trouble(f"{self.name} has ended, and did not say '{pattern}': {self.last_words()}")
                    match = re.search(pattern, line)
                    if match:
                        return match
                at = len(self.lines)
                if not self.news.wait(end - time.monotonic()):
                    raise Trouble(f"{self.name} does not say '{pattern}'")

    def last_words(self):
        with contextlib.suppress(OSError), open(self.errors, errors="replace") as file:
            return file.read()[-1000:]
        return ""

    def kill(self, number=signal.SIGKILL):
        """Kills the member alone, and waits for its end; its keepers and children go on."""
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        return self.end()

    def end(self, seconds=PATIENCE_S):
        """Waits for its end, and returns the exit code."""
        code = self.process.wait(seconds)
        self.reader.join()
        return code

    def keepers(self):
        """The processes that keep its children: {pid: id of the job}."""
        found = {}
        beginning = os.path.join(self.directory, "jobs", "")
        for pid in processes():
            words = [word.decode(errors="replace") for word in read(pid, "cmdline")]
            if "--keep" in words[:3] and words[3].startswith(beginning):
                found[pid] = os.path.basename(words[3])
        return found

    def children(self, job):
        """The processes of a job's child here, without its keeper."""
        keepers = {pid for pid, of in self.keepers().items() if of == job}
        return below(keepers) - keepers

    def all_processes(self):
        return below([*self.keepers(), *([self.process.pid] if self.is_running() else [])])

    def remove_groups(self):
        """Removes the control groups that are left where a member and its keepers were killed."""
        for group in {line.rpartition(GROUPS)[2] for line in self.history if GROUPS in line}:
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def lose_power(self):
        """Ends the node: the member, its keepers and its children at once, as far as signals can."""
        while pids := self.all_processes():
            send(pids, signal.SIGSTOP)  # nothing starts another process while all are found
            send(pids | self.all_processes(), signal.SIGKILL)
            if self.process.poll() is None:
                self.end()

    # --- commands ---

    def run(self, command, *arguments, cwd=None, seconds=PATIENCE_S, **environment):
        """Gives it a command, and returns how that ended. It is given as if by a user with nothing but PATH and HOME."""
        words = [self.flock.binary, command, "--dir", self.directory, *arguments]
        own = {"PATH": os.environ["PATH"], "HOME": self.flock.folder, **self.flock.mark, **environment}
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=seconds, cwd=cwd or self.flock.folder, env=own)

    def launch(self, *words, **more):
        """Starts a command of the program that goes on, like subprocess.Popen."""
        own = {"PATH": os.environ["PATH"], "HOME": self.flock.folder, **self.flock.mark}
        return subprocess.Popen([self.flock.binary, *words], stdin=subprocess.DEVNULL, cwd=self.flock.folder, env=own, **more)

    def do(self, command, *arguments, code=0, **more):
        """Gives it a command that must end with this exit code; returns its output."""
        done = self.run(command, *arguments, **more)
        if done.returncode != code:
            raise Trouble(f"godwit {command} {' '.join(arguments)} at {self.name} ended with {done.returncode}: "
                          f"{done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, *arguments, **more):
        """Submits, and returns the id; of a sweep the first one's."""
        text = self.do("submit", "--json", "--env", next(iter(self.flock.mark)), *arguments, **more)
        return json.loads(text.splitlines()[0])["id"]

    def wait(self, *jobs, code=0, **more):
        return self.do("wait", *jobs, code=code, **more)

    def job(self, job):
        return json.loads(self.do("info", "--json", job))

    def jobs(self, **more):
        return {job["id"]: job for job in json.loads(self.do("queue", "--all", "--json", **more))["jobs"]}

    def nodes(self):
        """The state of each name: of two nodes that have had it, that of the one which is there."""
        nodes = json.loads(self.do("nodes", "--json"))["nodes"]
        return {node["name"]: node["state"] for node in sorted(nodes, key=lambda node: node["state"] != "gone")}

    def until_state(self, job, state, **more):
        """Waits until the member knows that a job is in this state."""
        until(f"{job} is {state} at {self.name}", lambda: self.job(job)["state"] == state, **more)

    def logs(self, job, *options):
        return self.do("logs", job, *options)


class Members:
    """A flock: with Members(folder, 3) as flock: flock[0].submit("--", "true") ..."""

    def __init__(self, folder, count, binary, options=(), homes=None):
        self.folder, self.binary = folder, os.path.realpath(binary)
        self.mark = {MARK: secrets.token_hex(8)}
        self.list = [Member(self, f"n{i + 1}", options, homes[i] if homes else HERE) for i in range(count)]

    def __getitem__(self, index):
        return self.list[index]

    def __iter__(self):
        return iter(self.list)

    def start(self):
        """Starts all, and waits until each takes jobs and knows that the others do."""
        for member in self.list:
            member.start([other for other in self.list if other.is_running()])
        self.until_ready()

    def running(self):
        return [member for member in self.list if member.is_running()]

    def until_ready(self):
        names = {member.name for member in self.running()}
        for member in self.running():
            until(f"{member.name} knows {', '.join(sorted(names))} as ready",
                  lambda: {name for name, state in member.nodes().items() if state == "ready"} >= names)

    def until_ready_or_trusted(self):
        """As until_ready; a node where children were killed may take no jobs until somebody says that it is well, and no
        more where jobs fail after that."""
        names = {member.name for member in self.running()}

        def look():
            self.running()[0].run("drain", "--undo", *names)
            return all({name for name, state in member.nodes().items() if state == "ready"} >= names for member in self.running())
        for member in self.running():
            until(f"{member.name} opens its door", member.answers)
        until(f"all know {', '.join(sorted(names))} as ready", look)

    def marked(self):
        """All processes of the flock that run: {pid: command line}."""
        sign = b"%s=%s" % tuple(text.encode() for text in next(iter(self.mark.items())))
        return {pid: b" ".join(read(pid, "cmdline")).decode(errors="replace")
                for pid in processes() if sign in read(pid, "environ")}

    def close(self):
        while pids := self.marked():
            send(pids, signal.SIGKILL)
            for member in self.list:
                if member.process is not None:
                    member.process.wait()
        for member in self.list:
            member.remove_groups()

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *ignored):
        self.close()
