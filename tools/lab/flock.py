"""Peers of a flock as processes, on this machine or in the lab's, watched through their --json events.

The demo and the measurements drive real peers with it: start, kill, stop, start again, and wait for what
happens. Every process that was started is ended when the flock is closed, and its folder removed.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Trouble(Exception):
    """The flock did not do what was waited for."""


class TooLate(Trouble):
    """The flock had not done what was waited for when the time was up."""


def bind_life():
    """Runs in a child before exec: the child dies with the thread that has started it, however that thread ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Ending:
    """How signals end this process: SIGTERM, or a terminal that is closed, as an exception does, so that what it has
    started is ended first, and Ctrl-C as ever. Under nohup what is ignored stays so. While a process is being started,
    which is nobody's before that is over, or what there is is ended, they wait."""

    def __init__(self):
        self.numbers = []
        self.holders = 0
        self.waits = None

    def heed(self):
        heeded = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        self.numbers = [number for number in heeded if signal.getsignal(number) is not signal.SIG_IGN]
        for number in self.numbers:
            signal.signal(number, self.come)

    def come(self, number, frame):
        if self.holders > 0:
            self.waits = self.waits or number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            for each in self.numbers:  # a terminal may send it twice; the first one counts
                signal.signal(each, signal.SIG_IGN)
            sys.exit(128 + number)

    @contextlib.contextmanager
    def held(self):
        if threading.current_thread() is not threading.main_thread():  # signals end the main thread
            yield
            return
        self.holders += 1
        try:
            yield
        finally:
            self.holders -= 1
        if self.holders == 0 and self.waits is not None:
            number, self.waits = self.waits, None
            self.come(number, None)


ENDING = Ending()


def end_on_signals():
    """From this call on, the signals end this process in that way."""
    ENDING.heed()


class Here:
    """Where a peer's processes run: this machine. (lab_flock.py has another such place.)"""

    environment = None  # the environment of what runs here, if it is not this process's
    address = "127.0.0.1"
    port = 0  # the port that a peer listens on; 0: the kernel chooses another one each time

    def inside(self, path):
        """The name in the peer's place of what is called `path` here."""
        return path

    def launch(self, command, errors):
        """Starts a process with this command, like subprocess.Popen; its stderr is appended to the file `errors`."""
        with open(errors, "ab") as file:
            try:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    env=self.environment,
                    start_new_session=True,
                    preexec_fn=bind_life,
                )
            except OSError as error:
                raise Trouble(f"{command[0]} cannot be started: {error.strerror}") from error

    def time_of(self, event):
        """The moment of an event on this machine's clock."""
        return event["time"]


HERE = Here()


class Peer:
    """One directory, and the processes that have run in it one after another."""

    def __init__(self, flock, number, extra, home):
        self.flock = flock
        self.number = number
        self.extra = list(extra)
        self.home = home
        self.directory = os.path.join(flock.folder, f"peer{number}")
        self.error_file = os.path.join(flock.words, f"peer{number}.err")
        self.errors_from = 0
        self.process = None
        self.reader = None
        self.id = None
        self.forget()

    def forget(self):
        """Forgets all about the last process but its directory's id, as another one is about to start."""
        self.port = None
        self.view = None
        self.step = 0
        self.report = {}
        self.done = None
        self.ended = None  # exit code, once the process has ended and its output was read

    @property
    def alive(self):
        return self.process is not None and self.ended is None

    @property
    def leads(self):
        return self.alive and self.view is not None and self.view["leads"]

    @property
    def errors(self):
        """The last lines that its last process wrote to stderr."""
        with open(self.error_file, errors="replace") as file:
            file.seek(self.errors_from)
            return "".join(file.readlines()[-12:])

    def start(self, extra=()):
        """Starts a process in the peer's directory; it joins whoever listens now, or will where that is known."""
        self.forget()
        ports = [(peer, peer.home.port or (peer.port if peer.alive else None)) for peer in self.flock.peers]
        seeds = [f"{peer.home.address}:{port}" for peer, port in ports if port and peer is not self]
        command = [self.flock.binary, "run", *self.flock.job, "--json"]
        command += ["--listen", f"{self.home.address}:{self.home.port}"]
        command += ["--dir", self.home.inside(self.directory), *self.extra, *extra]
        if seeds:
            command += ["--join", ",".join(seeds)]
        self.errors_from = os.path.getsize(self.error_file) if os.path.exists(self.error_file) else 0
        with ENDING.held():
            self.process = self.home.launch(command, self.error_file)
            self.reader = threading.Thread(target=self.read, args=(self.process,), daemon=True)
            self.reader.start()

    def read(self, process):
        for line in process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            event["time"] = self.home.time_of(event)
            with self.flock.changed:
                self.take(event)
                self.flock.changed.notify_all()
        code = process.wait()
        with self.flock.changed:
            if process is self.process:
                self.ended = code
            self.flock.changed.notify_all()

    def clear_claims(self):
        """Removes what a killed peer has left for its next life, as there will be none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/dev/shm/godwit-computing-{self.id}")

    def take(self, event):
        kind = event["event"]
        if kind == "start":
            self.id = event["peer"]
        elif kind == "listening" and event["what"] == "gossip":
            self.port = event["port"]
        elif kind == "view":
            self.view = event
        elif kind == "step":
            self.step = event["step"]
            self.report = event.get("report", {})
        elif kind == "done":
            self.done = event
        self.flock.events.append((self, event))

    def signal(self, number):
        """Returns the time just before the signal was sent, on the events' clock."""
        moment = time.time()
        self.process.send_signal(number)
        return moment

    def kill(self):
        """Sends SIGKILL, and returns when the process is gone."""
        moment = self.signal(signal.SIGKILL)
        self.reader.join()
        return moment


class Flock:
    def __init__(self, binary, job, within=None, ready_s=60, words=None, name="godwit"):
        """within: where its folder is made, if not in the system's place for such. ready_s: how long a peer may take
        until it listens. words: a folder in which what its peers write to stderr is kept, if it is to be. name: what
        that of its folder begins with."""
        self.ready_s = ready_s
        self.binary = os.path.abspath(binary)
        self.job = list(job)
        self.made = tempfile.TemporaryDirectory(prefix=f"{name}-", dir=within, ignore_cleanup_errors=True)
        self.folder = self.made.name
        self.words = words or self.folder
        self.peers = []
        self.events = []  # (peer, event) in the order in which they were read
        self.changed = threading.Condition(threading.RLock())

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        with ENDING.held():
            for peer in self.peers:
                if peer.process is not None and peer.process.poll() is None:
                    peer.process.kill()
            for peer in self.peers:
                if peer.reader is not None:
                    peer.reader.join()
                peer.clear_claims()
            self.made.cleanup()

    def add(self, extra=(), home=HERE):
        """Starts one more peer and waits until it listens."""
        peer = Peer(self, len(self.peers) + 1, extra, home)
        self.peers.append(peer)
        self.start(peer)
        return peer

    def gather(self, count, extra=()):
        """Starts `count` peers, the first before the others, and waits until they all listen."""
        return self.gather_in([HERE] * count, extra)

    def gather_in(self, homes, extra=()):
        """Does the same as gather, with a peer in each of the places."""
        first = self.add(extra, homes[0])
        others = [Peer(self, first.number + 1 + i, extra, home) for i, home in enumerate(homes[1:])]
        self.peers += others
        for peer in others:
            peer.start()
        for peer in others:
            self.wait_ready(peer)
        return [first, *others]

    def start(self, peer, extra=()):
        peer.start(extra)
        self.wait_ready(peer)

    def wait_ready(self, peer):
        self.wait(lambda: peer.port and peer.id, self.ready_s, f"peer {peer.number} listens", watch=[peer])

    def wait(self, condition, seconds, what, watch=()):
        """Waits until condition() is true, and returns that. TooLate when time is up, Trouble when a peer of `watch` ends."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                value = condition()
                if value:
                    return value
                for peer in watch:
                    if peer.ended is not None:
                        raise Trouble(f"peer {peer.number} ended ({peer.ended}) before {what}:\n{peer.errors}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TooLate(f"after {seconds} s still not: {what}\n{self.last_words()}")
                self.changed.wait(min(left, 0.5))

    def last_words(self):
        return "".join(f"peer {p.number}: step {p.step}, ended {p.ended}\n{p.errors}" for p in self.peers)

    def living(self):
        return [peer for peer in self.peers if peer.alive]

    def leader(self):
        """The living peer that leads the newest view, or None."""
        leaders = [peer for peer in self.living() if peer.leads]
        return max(leaders, key=lambda peer: peer.view["number"], default=None)

    def step(self):
        return max((peer.step for peer in self.peers), default=0)

    def wait_step(self, step, seconds):
        self.wait(lambda: self.step() >= step, seconds, f"step {step}", watch=self.living())

    def wait_ends(self, peers, seconds):
        """Waits until all of `peers` have ended; Trouble unless each has exit code 0."""
        self.wait(lambda: all(peer.ended is not None for peer in peers), seconds, "all peers end")
        for peer in peers:
            if peer.ended != 0:
                raise Trouble(f"peer {peer.number} ended with {peer.ended}:\n{peer.errors}")

    def events_after(self, moment, kind):
        """[(peer, event)] of one kind since `moment` on the events' clock."""
        with self.changed:
            return [(p, e) for p, e in self.events if e["event"] == kind and e["time"] >= moment]

    def first_step_after(self, moment, seconds, members=None):
        """The first step that was committed after `moment` (in a flock of `members`), as its event."""

        def found():
            for _, event in self.events_after(moment, "step"):
                if members is None or event["members"] == members:
                    return event
            return None

        return self.wait(found, seconds, "the next step")


def run_alone(binary, job, extra=(), seconds=600, then=None, within=None):
    """Runs one peer undisturbed; returns its done event. then(peer) is called while its directory is still there, in a
    folder `within`."""
    with Flock(binary, job, within) as flock:
        peer = flock.add(extra)
        flock.wait_ends([peer], seconds)
        if then is not None:
            then(peer)
        return peer.done


def same_as_alone(binary, job, ends, seconds=600, then=None, within=None):
    """ends: {(steps, state)} of the peers of a flock that had that job, in so many steps. Whether an undisturbed peer
    comes to just that; and its done event."""
    steps = max(steps for steps, _ in ends)
    alone = run_alone(binary, [*job, "--steps", str(steps)], seconds=seconds, then=then, within=within)
    return ends == {(alone["steps"], alone["state"])}, alone
