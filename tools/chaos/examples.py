"""Whether each example of a program comes to the same bytes whatever dies: python3 tools/chaos/examples.py [OPTIONS] [NAME...]

The state of each example has one hash, and its exported model has the same bytes

  - under plain Python, without a flock (not where the example is no Python script);
  - on one peer with one worker, and with two;
  - on four peers, of which the fourth joins late, while peers and workers are killed at random and started again;
    then all are stopped, and two go on to the end.

  --kills N      how often a process is killed in a run (default 100): one in five is a peer, the others are workers
  --seed K       decides which process is killed, and when (default 1)
  --updates N    updates of an example at first (default: as many as most machines need to kill so often); a job that is
                 done before it was disturbed is begun anew with twice as many, up to six times
  --python FILE  the Python of the examples (default python3)
  --binary PATH  the program (default build/godwit)

Names are those of the files in tools/examples; without one, all that this Python can run are. Exit code 0: all do.
"""

import argparse
import contextlib
import dataclasses
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(SOURCE, "tools", "lab")]
from flock import Flock, Here, Peer, TooLate, Trouble, end_on_signals  # noqa: E402

EXAMPLES = os.path.join(SOURCE, "tools", "examples")
PATIENCE_S = 600
MOST_S = 0.1  # a kill waits for its step, and then for so long at most
JOINS_AT, STOPS_AT = 0.4, 0.6  # parts of the kills and of the steps
STOP_S = 20  # in which a peer that runs has stopped
DOUBLINGS = 6  # of the updates, where a job is done too early


class TooShort(Trouble):
    """A job was done before it was disturbed as it should be."""


def write_text(folder):
    """A text without chance in it."""
    path = os.path.join(folder, "text")
    words = "the peers of a flock share out a step and the sum of all shards is the same whoever computes".split()
    with open(path, "w") as file:
        for i in range(6000):
            file.write(words[(i * i + 3 * i) % len(words)] + (" " if i % 11 else ".\n"))
    return path


def write_pictures(folder):
    """Pictures of 8 x 8 points in ten classes, in the files of MNIST."""
    for name, count in (("train", 600), ("t10k", 200)):
        pictures = bytes((i * i // 7) % 251 for i in range(count * 64))
        with open(os.path.join(folder, f"{name}-images-idx3-ubyte"), "wb") as file:
            file.write(b"\0\0\x08\x03" + struct.pack(">3I", count, 8, 8) + pictures)
        with open(os.path.join(folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
            file.write(b"\0\0\x08\x01" + struct.pack(">I", count) + bytes(i % 10 for i in range(count)))
    return folder


def write_labels(folder):
    """Texts of praise and of blame."""
    path = os.path.join(folder, "labels")
    kinds = {"praise": "good fine great splendid lovely".split(), "blame": "bad poor awful dreadful weak".split()}
    with open(path, "w") as file:
        for i in range(96):
            label = ("praise", "blame")[i * i // 3 % 2]
            file.write(f"{label}\tthe {i % 7} was {kinds[label][i % 5]} and {kinds[label][3 * i % 5]}\n")
    return path


@dataclasses.dataclass
class Example:
    """`data` makes what it is given before the number of updates (of epochs, to classifier.py), `more` is
    what it is given behind that."""

    updates: int
    needs: tuple = ()
    data: object = None
    more: tuple = ()


# A file in tools/examples, or in its folder python.
KNOWN = {
    "bytes.py": Example(150, ("torch",), write_text),
    "images.py": Example(200, ("torch",), write_pictures),
    "llama.py": Example(150, ("torch", "transformers"), write_text),
    "lora.py": Example(150, ("torch", "transformers", "accelerate", "peft"), write_text),
    "classifier.py": Example(50, ("torch", "transformers", "accelerate"), write_labels),
    "kmeans.py": Example(1000, ("numpy",), None, (120000,)),
    "logistic.py": Example(300, ("numpy",)),
    "spirals.py": Example(300, ("jax", "optax")),
    "logistic.c": Example(600, (), None, (100000,)),
}


class Home(Here):
    """This machine, with an environment and a port."""

    def __init__(self, environment, port):
        self.environment, self.port = environment, port


class Run:
    """One example with its files."""

    def __init__(self, name, options, folder, doubled):
        self.example, self.options, self.folder = KNOWN[name], options, folder
        binary = os.path.abspath(options.binary)
        self.binary = binary
        self.is_script = name.endswith(".py")
        self.program = os.path.join(EXAMPLES, "python", name)
        if not self.is_script:
            self.program = os.path.join(os.path.dirname(binary), name.removesuffix(".c"))
        data = [self.example.data(folder)] if self.example.data else []
        self.arguments = [*data, str((options.updates or self.example.updates) << doubled), *map(str, self.example.more)]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("GODWIT_")}
        self.environment = {**clean, "PYTHONPATH": os.path.join(SOURCE, "tools", "python"), "GODWIT": binary,
                            "OUTPUT": os.path.join(folder, "saved")}  # fmt: skip
        self.rng = random.Random(f"{name} {options.seed}")
        self.killed = {"peer": 0, "worker": 0}

    def job(self, peers):
        """The options of `godwit run`."""
        python = ["--python", self.options.python] if self.is_script else []
        return ["program", "--program", self.program, *python, "--args", " ".join(self.arguments), "--peers", str(peers),
                "--checkpoint-every", "5s", "--probe-interval-ms", "50"]  # fmt: skip

    def flock(self, peers):
        return Flock(self.binary, self.job(peers), self.folder)

    def homes(self, count):
        """Places of peers, each with a port of its own: those that start again listen where the others look for them."""
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        found = [Home(self.environment, s.getsockname()[1]) for s in sockets]
        for s in sockets:
            s.close()
        return found

    def plain(self):
        """The hash under plain Python."""
        done = subprocess.run([self.options.python, self.program, *self.arguments], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False)  # fmt: skip
        found = re.search(r"state=([0-9a-f]{64})", done.stdout)
        if done.returncode != 0 or found is None:
            raise Trouble(f"plain Python ends with {done.returncode}:\n{done.stdout[-2000:]}")
        return found[1]

    def model(self, peer):
        """The bytes of the exported model."""
        to = os.path.join(self.folder, "model.safetensors")
        subprocess.run([self.binary, "export", peer.directory, "--to", to, "--force"], check=True, stdout=subprocess.DEVNULL)
        with open(to, "rb") as file:
            return file.read()

    def undisturbed(self, workers):
        """Hash, steps and model of one peer."""
        with self.flock(1) as flock:
            peer = flock.add(["--workers", str(workers)], *self.homes(1))
            flock.wait_ends([peer], PATIENCE_S)
            return peer.done["state"], peer.done["steps"], self.model(peer)

    # The flock under kills.

    def strike(self, flock):
        """Kills a peer, which is started again, or a process of one."""
        peer = self.rng.choice(flock.living())
        if self.rng.random() < 0.2 and len(flock.living()) > 1:
            peer.kill()
            self.killed["peer"] += 1
            peer.start()
            return
        below = descendants(peer.process.pid)
        if below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(below), signal.SIGKILL)
                self.killed["worker"] += 1

    def look(self, flock):
        """A peer that has ended although nobody killed it is a fault of its own."""
        for peer in flock.peers:
            if peer.ended == 0 and peer.done:
                raise TooShort("the job was done before its processes were killed so often: it needs more --updates")
            if peer.ended is not None:
                raise Trouble(f"peer {peer.number} has ended by itself with {peer.ended}:\n{peer.errors}")

    def under_kills(self, steps):
        """Hash and model of a flock whose processes are killed."""
        with self.flock(3) as flock:
            *first, last = self.homes(4)
            flock.gather_in(first, ["--workers", "1"])
            flock.wait_step(1, PATIENCE_S)
            for number in range(self.options.kills):
                if number == int(self.options.kills * JOINS_AT):
                    flock.peers.append(Peer(flock, 4, ["--workers", "2"], last))
                    flock.peers[-1].start()
                due = int(steps * STOPS_AT * number / self.options.kills)
                if flock.step() <= due:
                    self.await_step(flock, due)
                    time.sleep(self.rng.uniform(0, MOST_S))  # a kill hits any moment of a step
                self.look(flock)
                self.strike(flock)
            self.await_step(flock, int(steps * STOPS_AT))
            resumed = self.stop(flock)
            for peer in resumed:
                peer.start()
            flock.wait_ends(resumed, PATIENCE_S)
            states = {peer.done["state"] for peer in resumed}
            if len(states) != 1:
                raise Trouble(f"two peers come to two states: {states}")
            return states.pop(), self.model(resumed[0])

    def await_step(self, flock, step):
        flock.wait(lambda: flock.step() >= step or any(p.ended is not None for p in flock.peers), PATIENCE_S, f"step {step}")
        self.look(flock)

    def stop(self, flock):
        """Stops the job where it runs. Peers that are just starting again hear nothing of that, and are killed. Returns
        the two peers that go on."""
        self.look(flock)
        for peer in flock.living():
            command = [self.binary, "stop", "--no-wait", "--dir", peer.directory]
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
        flock.wait(lambda: any(p.done for p in flock.peers), PATIENCE_S, "a peer stops")
        with contextlib.suppress(TooLate):
            flock.wait(lambda: not flock.living(), STOP_S, "all peers stop")
        for peer in flock.living():
            peer.kill()
        if any(p.done and p.done["outcome"] == "done" for p in flock.peers):
            raise TooShort("the job was done before it was stopped: it needs more --updates")
        return sorted(flock.peers, key=lambda p: p.done is None)[:2]


def descendants(pid):
    """All processes below a process."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *descendants(child)]
    return found


def judge(name, options):
    """Runs one example in all ways, with as many updates as that takes. Returns whether it has one hash and one model."""
    for doubled in range(DOUBLINGS):
        with contextlib.suppress(TooShort):
            return judge_once(name, options, doubled)
    return judge_once(name, options, DOUBLINGS)


def judge_once(name, options, doubled):
    with tempfile.TemporaryDirectory(prefix="godwit-examples-") as folder:
        run = Run(name, options, folder, doubled)
        began = time.monotonic()
        state, steps, model = run.undisturbed(1)
        found = {"1 worker": (state, model)}
        if run.is_script:
            found["plain Python"] = (run.plain(), model)
        other, _, other_model = run.undisturbed(2)
        found["2 workers"] = (other, other_model)
        struck = time.monotonic()
        found["killed"] = run.under_kills(steps)
        now = time.monotonic()
        wrong = [way for way, result in found.items() if result != (state, model)]
        killed = f"{run.killed['worker']} workers and {run.killed['peer']} peers killed in {now - struck:.0f} s"
        print(f"{name}: {steps} steps, state {state[:16]}, model of {len(model):,} bytes; {killed}; "
              + (f"OTHER BYTES: {', '.join(wrong)}" if wrong else f"the same bytes in {len(found)} ways")
              + f" ({now - began:.0f} s)", flush=True)  # fmt: skip
        return not wrong


def can_run(name, options):
    code = "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1:]))"
    return subprocess.run([options.python, "-c", code, *KNOWN[name].needs], check=False).returncode == 0


def options_of(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--binary", default="build/godwit")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in KNOWN]
    if unknown:
        parser.error(f"there is no example {', '.join(unknown)}: they are {', '.join(KNOWN)}")
    return options


def main():
    options = options_of()
    end_on_signals()
    good = True
    for name in options.names or KNOWN:
        if not can_run(name, options):
            print(f"{name}: skipped, as {options.python} lacks {' or '.join(KNOWN[name].needs)}", flush=True)
            continue
        try:
            good &= judge(name, options)
        except (Trouble, subprocess.SubprocessError) as trouble:
            print(f"{name}: {trouble}", flush=True)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
