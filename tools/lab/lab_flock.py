"""Flocks (flock.py) whose peers run in the lab's machines (machines.py), a peer a machine.

    with Lab(3) as lab, LabFlock(lab, "build/godwit", ["digits", "--transport", "rdma"]) as flock:
        lab.start_all()
        flock.gather_in([flock.home(i) for i in (1, 2, 3)])
        flock.kill_machine(flock.leader())
        lab.start(2)
        flock.start(flock.peers[1])     # in the new machine, with the directory that the old one had

A peer's directory is in /lab, so that it survives its machine, as a disk does. The times of events are when they
arrived here: the machines' clocks are their own.
"""

import os
import shlex
import subprocess
import time

from flock import Flock


class InMachine:
    """Where a peer's processes run: the machine that has this number at the time."""

    port = 0

    def __init__(self, lab, number):
        self.lab = lab
        self.number = number

    @property
    def machine(self):
        return self.lab.machine(self.number)

    @property
    def address(self):
        return self.machine.address

    def inside(self, path):
        return os.path.join("/lab", os.path.relpath(path, self.lab.shared))

    def launch(self, command, errors):
        return self.machine.spawn(f"exec {shlex.join(command)} 2>>{shlex.quote(self.inside(errors))}")

    def time_of(self, event):
        del event
        return time.time()


class LabFlock(Flock):
    def __init__(self, lab, binary, job):
        super().__init__(binary, job, within=lab.shared)
        self.lab = lab
        key = os.path.join(self.folder, "key")
        subprocess.run([self.binary, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        self.job += ["--key", self.home(1).inside(key)]

    def home(self, number):
        return InMachine(self.lab, number)

    def kill_machine(self, peer):
        """Kills the peer's machine; returns the moment just before, on the events' clock."""
        moment = time.time()
        peer.home.machine.kill()
        peer.reader.join()
        return moment
