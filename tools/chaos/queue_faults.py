"""What is done to the members of a standing flock under chaos (queue_chaos.py). A kind of fault is a class:

- begin() does it, and returns a text for the log, or None if there was nothing to hurt;
- end() takes it back, after a time between least_s and most_s.

At least one member is left alone at any time, so that there is one to ask.
"""

import os
import shutil
import signal
import time

from members import send


class Fault:
    least_s, most_s = 0.2, 3.0
    weight = 1.0
    needs_network = False
    must_be_named = False  # by --kinds

    def __init__(self, run):
        self.run, self.rng, self.member = run, run.rng, None

    @classmethod
    def name(cls):
        return cls.__name__.lower()

    def victim(self):
        """A member that runs and that no other fault hurts; None where too few would be left."""
        free = self.run.free()
        self.member = self.rng.choice(free) if len(free) > 1 else None
        return self.member

    def begin(self):
        raise NotImplementedError

    def end(self):
        pass

    def start_again(self):
        self.member.start(self.run.others(self.member), wait=False)


class Kill(Fault):
    """The member alone: its children go on."""

    weight = 2.0

    def begin(self):
        if not self.victim():
            return None
        children = len(self.member.keepers())
        self.member.kill()
        return f"{self.member.name} is killed; {children} children go on"

    def end(self):
        self.start_again()


class Power(Fault):
    """The member, its keepers and its children."""

    most_s = 6.0

    def begin(self):
        if not self.victim():
            return None
        children = len(self.member.keepers())
        self.member.lose_power()
        return f"{self.member.name} loses power, with {children} children"

    def end(self):
        self.start_again()


class Lost(Fault):
    """A node and its disk, and a new one takes its place. Maps outlive that; what other jobs have written is lost."""

    most_s = 6.0
    must_be_named = True
    REST_S = 20  # in which what is left comes to two disks again

    def begin(self):
        last = getattr(self.run, "lost_at", -self.REST_S)
        if self.run.lasting or time.monotonic() < last + self.REST_S or not self.victim():
            return None
        fronts = [job.front for job in self.run.jobs if getattr(job, "member", None) is self.member]
        if any(front.poll() is None for front in fronts):
            return None  # it asks this member, which would not know the job
        self.run.lost_at = time.monotonic()
        self.member.lose_power()
        shutil.rmtree(self.member.directory)
        return f"{self.member.name} and its disk are lost"

    def end(self):
        self.start_again()


class Keeper(Fault):
    """One keeper, and so its command."""

    def begin(self):
        keepers = self.member.keepers() if self.victim() else {}
        if not keepers:
            return None
        pid, job = self.rng.choice(sorted(keepers.items()))
        send([pid], signal.SIGKILL)
        return f"the keeper of {self.run.name_of(job)} on {self.member.name} is killed"


class Child(Fault):
    """The processes of a child, by a signal that says that its node is to blame. They end at once: a task that a map sees
    end so has failed."""

    def begin(self):
        keepers = self.member.keepers() if self.victim() else {}
        # On every node where this happens the job is not started again while the member lives.
        jobs = [job for job in self.run.jobs if job.id in keepers.values() and job.hurt == 0]
        if not jobs:
            return None
        job = self.rng.choice(jobs)
        job.hurt += 1
        children = self.member.children(job.id)
        send(children, signal.SIGSTOP)  # none starts another one, or waits for one
        children |= self.member.children(job.id)
        send(children, signal.SIGKILL)
        return f"{len(children)} processes of {job.name} on {self.member.name} are killed"


class Stop(Fault):
    """The member stands still, and its children do not."""

    most_s = 8.0

    def begin(self):
        if not self.victim():
            return None
        self.member.process.send_signal(signal.SIGSTOP)
        return f"{self.member.name} stands still"

    def end(self):
        self.member.process.send_signal(signal.SIGCONT)


class Freeze(Fault):
    """The whole node stands still."""

    most_s = 8.0

    def begin(self):
        if not self.victim():
            return None
        self.pids = self.member.all_processes()
        send(self.pids, signal.SIGSTOP)
        return f"{self.member.name} stands still, with {len(self.pids) - 1} processes"

    def end(self):
        send(self.pids, signal.SIGCONT)


class Cut(Fault):
    """The node is cut off from all others, or hears one of them no more."""

    most_s = 10.0
    weight = 2.0
    needs_network = True

    def begin(self):
        if not self.victim():
            return None
        others = [other for other in self.run.flock if other is not self.member]
        whole = self.rng.random() < 0.6
        one = self.rng.choice(others)
        self.ways = [(a, b) for other in others for a, b in ((self.member, other), (other, self.member))] if whole else [
            (one, self.member)]
        for way in self.ways:
            self.run.cut(way, True)
        return f"{self.member.name} is cut off" if whole else f"{self.member.name} does not hear {one.name}"

    def end(self):
        for way in self.ways:
            self.run.cut(way, False)


class Split(Fault):
    """Two halves do not hear each other."""

    most_s = 8.0
    needs_network = True

    def begin(self):
        if not self.victim():
            return None
        others = [other for other in self.run.flock if other is not self.member]
        self.rng.shuffle(others)
        half = [self.member, *others[: self.rng.randrange(len(others))]]
        rest = [other for other in self.run.flock if other not in half]
        self.ways = [way for a in half for b in rest for way in ((a, b), (b, a))]
        for way in self.ways:
            self.run.cut(way, True)
        return f"{'+'.join(sorted(one.name for one in half))} and the others are cut off from each other"

    end = Cut.end


class Blackout(Fault):
    """All nodes lose power, and come back."""

    weight = 2.0  # few of them are made, as nothing else may be wrong then

    def begin(self):
        if self.run.lasting or not self.victim():
            return None
        for member in self.run.flock:
            member.lose_power()
        for member in self.run.flock:
            member.start(self.run.others(member))
        return "all lose power, and are back"


class Upgrade(Fault):
    """Another binary takes the place of the member's, which then is started again."""

    most_s = 1.0

    def begin(self):
        if not self.victim():
            return None
        self.run.binaries += 1
        binary = os.path.join(self.run.folder, f"godwit{self.run.binaries}")
        shutil.copy2(self.run.flock.binary, binary)
        with open(binary, "ab") as file:
            file.write(b"another build %d" % self.run.binaries)
        if self.member.binary != self.run.flock.binary:
            os.unlink(self.member.binary)
        self.member.binary = binary
        self.member.kill(signal.SIGTERM)
        return f"{self.member.name} is replaced by another build"

    def end(self):
        self.start_again()


class Down(Fault):
    """The member is asked to end, and to end its children."""

    weight = 0.5

    def begin(self):
        if not self.victim():
            return None
        self.member.do("down")
        self.member.end()
        return f"{self.member.name} goes down"

    def end(self):
        self.start_again()


class Drain(Fault):
    weight = 0.5

    def begin(self):
        if not self.victim():
            return None
        self.member.run("drain", self.member.name)
        return f"{self.member.name} is drained"

    def end(self):
        self.member.run("drain", "--undo", self.member.name)


class Records(Fault):
    """A member is killed, and its file of records is damaged or gone, while all others are well and know the same."""

    weight = 2.0

    def begin(self):
        if self.run.lasting or not self.run.all_know_the_same() or not self.victim():
            return None
        self.member.kill()
        path = os.path.join(self.member.directory, "records")
        if self.rng.random() < 0.3:
            os.unlink(path)
            return f"{self.member.name} is killed, and has no records any more"
        with open(path, "r+b") as file:
            length = os.path.getsize(path)
            for _ in range(8):
                file.seek(self.rng.randrange(5, max(length, 6)))
                file.write(bytes([self.rng.randrange(256)]))
        return f"{self.member.name} is killed, and its records are damaged"

    def end(self):
        self.start_again()


KINDS = [Kill, Power, Lost, Keeper, Child, Stop, Freeze, Cut, Split, Blackout, Upgrade, Down, Drain, Records]
