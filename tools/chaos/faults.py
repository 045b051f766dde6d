"""The kinds of faults that chaos makes. Each kind is a class with a name:

- missing() says why this machine cannot make the fault, or None;
- begin() makes one fault and returns a text for the log, or None if there was nothing to hurt;
- end() takes the fault back.
"""

import contextlib
import errno
import os
import random
import resource
import signal
import time


LONG_S = 12.0  # the longest time of a fault that ends no peer: two or three more faults begin while it lasts


def lonely(chaos):
    """Why faults of the network cannot be made, or None if they can."""
    return "there is no other peer" if chaos.peers == 1 else None


class Fault:
    name = ""
    least_s, most_s = 0.3, 4.0  # how long one lasts
    kills = False  # whether it kills a process, so that another peer must be alive
    deadly = False  # whether the process of its victim may end
    parts = False  # whether it parts the peers, so that some do not know what others have committed
    spoils = None  # the number of the peer whose disk may lose its files or refuse new ones
    damaged = ()  # chunks in which it has flipped a bit
    silences = None  # the number of the peer that may look dead to the others, and the others to it, while it lasts
    happened = True  # False if no peer can have noticed it: it is then not counted (look() may find out)
    weight = 1.0  # how often it is chosen, relative to other kinds

    def __init__(self, chaos):
        self.chaos = chaos
        self.rng = chaos.rng

    @staticmethod
    def missing(chaos):
        del chaos

    def begin(self):
        raise NotImplementedError

    def end(self):
        pass

    def look(self):
        """Called several times a second until the flock has recovered."""

    def denies(self, peer):
        """Whether that peer may give up because of this fault (deaths.py)."""
        del peer
        return False

    def has_damaged(self, evidence):
        """Whether this fault is the cause of the corruption that a peer reports (bits.py)."""
        return any(evidence.endswith(f"hash differs in {path}") for path in self.damaged)

    def victim(self):
        """Chooses a living peer that no other fault has as its victim at the moment."""
        out = self.chaos.taken() | ({self.chaos.spared()} if self.deadly else set())
        free = [peer for peer in self.chaos.flock.living() if peer not in out and peer.process.poll() is None]
        if not free:
            return None
        self.peer = self.rng.choice(free)
        return self.peer


class Kill(Fault):
    name = "kill"
    kills = deadly = True

    @staticmethod
    def missing(chaos):
        needed = None if chaos.peers > chaos.needed() else f"all {chaos.peers} peers are needed"
        return lonely(chaos) or needed

    def begin(self):
        peer = self.victim()
        if peer is None:
            return None
        role = "leader" if peer.leads else "peer"
        peer.kill()
        return f"{role} {peer.number} is killed"

    def end(self):
        self.chaos.start_again(self.peer)


class KillWorker(Fault):
    name = "kill a worker"
    weight = 3.0  # it costs a shard, and not a peer

    @staticmethod
    def missing(chaos):
        return None if chaos.job.has_workers else "the job has no processes of its own"

    def begin(self):
        if self.victim() is None:
            return None
        children = []
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in os.listdir(f"/proc/{self.peer.process.pid}/task"):
                with open(f"/proc/{self.peer.process.pid}/task/{task}/children") as file:
                    children += file.read().split()
        if not children:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(self.rng.choice(children)), signal.SIGKILL)
        return f"a worker of peer {self.peer.number} is killed"


class Wipe(Kill):
    name = "kill, disk lost"

    @staticmethod
    def missing(chaos):
        lost = "with two disks a majority may be lost for good" if chaos.options.majority else None
        return lost or Kill.missing(chaos)

    def begin(self):
        text = super().begin()
        self.spoils = text and self.peer.number
        return text

    def end(self):
        self.chaos.wipe(self.peer)
        self.chaos.start_again(self.peer)


class Stop(Fault):
    name = "stop and continue"
    most_s = LONG_S

    def begin(self):
        if self.victim() is None:
            return None
        self.chaos.stop(self.peer, True)
        self.silences = self.peer.number
        return f"peer {self.peer.number} is stopped"

    def end(self):
        if self.peer.process.poll() is None:
            self.chaos.stop(self.peer, False)


class Cut(Fault):
    name = "cut"
    most_s = LONG_S
    parts = True
    one_way = False
    apart = True  # whether peers that are cut off cannot take part while it lasts

    @staticmethod
    def missing(chaos):
        return lonely(chaos)

    def begin(self):
        places = list(self.chaos.network.places)
        self.rng.shuffle(places)
        some = self.rng.randrange(1, len(places))
        self.pairs = [(a, b) for a in places[:some] for b in places[some:]]
        self.pairs += [] if self.one_way else [(b, a) for a, b in self.pairs]
        self.deafen(True)
        names = " ".join(str(place.number) for place in places[:some])
        return f"peers {names} are cut off{' one way' if self.one_way else ''}"

    def deafen(self, on):
        for a, b in self.pairs:
            self.chaos.deafen(a, b, on)
            if self.apart:
                self.chaos.ledger.deafened(a.number, b.number, on, time.time())

    def end(self):
        self.deafen(False)


class CutOneWay(Cut):
    name = "cut one way"
    one_way = True


class Flap(Cut):
    """A cut that comes and goes at uneven times: even times in step with the job's would hit every step or none."""

    name = "flapping cut"
    apart = False
    least_turn_s, most_turn_s = 0.05, 0.15

    def begin(self):
        self.on = True
        text = super().begin()
        # how many numbers are drawn for its turns depends on the clock, and the next faults must not depend on it
        self.paces = random.Random(self.rng.random())
        self.plan_turn(time.time())
        return text.replace("are cut off", "are cut off and back again and again")

    def plan_turn(self, now):
        self.turns_at = now + self.paces.uniform(self.least_turn_s, self.most_turn_s)

    def turn(self, now):
        """Called many times a second while it lasts."""
        if now < self.turns_at:
            return
        self.on = not self.on
        self.deafen(self.on)
        self.plan_turn(now)

    def end(self):
        if self.on:
            self.deafen(False)


class Setting(Fault):
    """A fault that sets something at a place. Of several that set the same thing there, the newest one holds."""

    most_s = LONG_S
    what = ""  # the thing that it sets
    value = None

    def apply(self, value):
        """Sets the value at self.place, or takes the setting back if value is None. Returns whether it worked."""
        raise NotImplementedError

    def lay(self, value):
        self.place, self.value = self.rng.choice(self.chaos.network.places), value
        layers = self.chaos.settings.setdefault((self.place.number, self.what), [])
        layers.append(self)
        if self.apply(value):
            return True
        self.end()
        return False

    def end(self):
        layers = self.chaos.settings[(self.place.number, self.what)]
        layers.remove(self)
        self.apply(layers[-1].value if layers else None)


class Shape(Setting):
    """Everything that a place sends goes through a queue of tc."""

    what = "queue"
    queue = ()

    @classmethod
    def missing(cls, chaos):
        kind = cls.queue[0]
        lacks = None if chaos.network.can_shape(*cls.queue) else f"tc has no {kind} here (the module sch_{kind})"
        return lonely(chaos) or lacks

    def apply(self, value):
        return self.place.shape(*value or ())

    def begin(self):
        if not self.lay(self.queue):
            return None
        self.silences = self.place.number
        return f"what peer {self.place.number} sends: {' '.join(self.queue)}"


class Delay(Shape):
    name = "delay"
    queue = ("netem", "delay", "50ms", "40ms")


class SlowLink(Shape):
    name = "slow link"
    queue = ("tbf", "rate", "2mbit", "burst", "16k", "latency", "200ms")


class Drop(Setting):
    name = "drop"
    what = "losses"
    percent = 20

    @staticmethod
    def missing(chaos):
        lacks = None if chaos.network.can_drop() else "there is no nft that can drop packets at random"
        return lonely(chaos) or lacks

    def apply(self, value):
        return self.place.drop(value or 0)

    def begin(self):
        if not self.lay(self.percent):
            return None
        self.silences = self.place.number
        return f"of what arrives at peer {self.place.number} {self.percent} % is lost"


def fill(path):
    """Lets the file take all the room on its disk, piece by piece. One allocation of all that is free would fail if
    another process writes at the same time, and tmpfs undoes an allocation that fails."""
    with open(path, "ab") as file:
        size, more = file.tell(), 1 << 24
        while more >= resource.getpagesize():
            try:
                os.posix_fallocate(file.fileno(), size, more)
                size += more
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                more //= 2


class FullDisk(Setting):
    name = "full disk"
    what = "disk"

    def apply(self, value):
        file = os.path.join(self.place.disk, "filler")
        if value is None:
            os.unlink(file)
        else:
            fill(file)
        return True

    def begin(self):
        self.lay(True)
        self.spoils = self.place.number
        return f"the disk of peer {self.place.number} is full"

    def denies(self, peer):
        # A peer looks for room after it has begun to listen; one that is in a view needs no more.
        return peer.home is self.place and peer.view is None


def chunks_of(place):
    chunks = []
    for folder, _, files in os.walk(os.path.join(place.disk, "state")):
        chunks += [os.path.join(folder, file) for file in files if "chunk" in folder]
    return sorted(chunks)


def flip_bit(path, rng):
    with open(path, "r+b") as file:
        at = rng.randrange(max(1, os.path.getsize(path)))
        file.seek(at)
        byte = file.read(1) or b"\0"
        file.seek(at)
        file.write(bytes([byte[0] ^ 1 << rng.randrange(8)]))


def was_read(path):
    """Whether a peer has found the damage: it renames such a chunk."""
    return os.path.exists(f"{path}.damaged")


class Corrupt(Fault):
    """Flips a bit of a chunk. Chunks are read only when a peer resumes: one that was replaced before is not counted."""

    name = "corrupt chunk"
    most_s = LONG_S
    happened = False

    def begin(self):
        place = self.rng.choice(self.chaos.network.places)
        chunks = chunks_of(place)
        if not chunks:
            return None
        path = self.rng.choice(chunks)
        try:
            flip_bit(path, self.rng)
        except FileNotFoundError:
            return None  # deleted meanwhile
        self.spoils, self.damaged = place.number, [path]
        return f"a bit flips in chunk {os.path.basename(path)[:12]} of peer {place.number}"

    def look(self):
        self.happened = self.happened or any(map(was_read, self.damaged))


class PowerLoss(Fault):
    """Kills all peers at once, so that they resume from their disks. Every other time, a bit flips in each chunk of
    one disk, so that the chunks of the other disks are needed."""

    name = "power loss"
    least_s, most_s = 0.3, 2.0
    weight = 0.5  # about one in three minutes, in the first half of a run: each costs about ten live peer-seconds

    read = False  # whether a peer has read any of the damaged chunks

    def begin(self):
        peers = self.chaos.flock.peers
        if self.chaos.spared() is not None:
            return None
        if not all(peer.alive and peer.process.poll() is None for peer in peers) or self.chaos.restarts:
            return None
        for peer in peers:
            peer.signal(signal.SIGKILL)
        for peer in peers:
            peer.reader.join()
        self.chaos.note_power_loss(time.time())
        return f"all peers are killed{self.decay()}"

    def decay(self):
        holders = [place for place in self.chaos.network.places if chunks_of(place)]
        if len(holders) < 2:
            return ""
        self.chaos.decays = not self.chaos.decays
        if not self.chaos.decays:
            return ""
        place = self.rng.choice(holders)
        self.spoils, self.damaged = place.number, chunks_of(place)
        for path in self.damaged:
            flip_bit(path, self.rng)
        return f", and bits flip in all chunks of peer {place.number}"

    def look(self):
        self.read = self.read or any(map(was_read, self.damaged))

    def end(self):
        for peer in self.chaos.flock.peers:
            self.chaos.start_again(peer)


class Starve(Fault):
    name = "no processor"
    most_s = LONG_S

    @staticmethod
    def missing(chaos):
        return None if all(place.group for place in chaos.network.places) else "no CPU control group can be made here"

    def begin(self):
        if self.victim() is None:
            return None
        percent = self.rng.choice([2, 5, 20])
        self.peer.home.starve(percent)
        self.silences = self.peer.number
        return f"peer {self.peer.number} gets {percent} % of a processor"

    def end(self):
        self.peer.home.starve(100)


class Limit(Fault):
    """Lowers a resource limit to what the process uses now. The process may end of it, and is then started again."""

    deadly = True
    what = None

    def begin(self):
        if self.victim() is None:
            return None
        pid = self.pid = self.peer.process.pid
        self.before = resource.prlimit(pid, self.what)
        resource.prlimit(pid, self.what, (self.in_use(pid), self.before[1]))
        self.silences = self.peer.number
        return f"peer {self.peer.number} gets no more {self.name}"

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.peer.process.pid, self.what, self.before)

    def denies(self, peer):
        return peer.process.pid == self.pid  # the limit does not hold for the process that is started next


class Descriptors(Limit):
    name = "descriptors"
    what = resource.RLIMIT_NOFILE

    @staticmethod
    def in_use(pid):
        return max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1


class Memory(Limit):
    name = "memory"
    what = resource.RLIMIT_AS

    @staticmethod
    def in_use(pid):
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()


class Clock(Setting):
    name = "clock step"
    what = "clock"

    @staticmethod
    def missing(chaos):
        return None if chaos.network.clock else "chaos_clock.so is not beside the binary (ninja chaos builds it)"

    def apply(self, value):
        self.place.set_clock(value or 0)
        return True

    def begin(self):
        step = self.rng.choice([-3600, -30, 30, 3600])
        self.lay(step)
        return f"the wall clock of peer {self.place.number} steps by {step} s"


PROCESSES = [Kill, KillWorker, Wipe, PowerLoss, Stop, Starve, Descriptors, Memory, Clock]
KINDS = [*PROCESSES, Cut, CutOneWay, Flap, Delay, SlowLink, Drop, FullDisk, Corrupt]
