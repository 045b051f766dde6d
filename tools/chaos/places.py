"""The places where peers run under chaos. Each place is a network namespace with a file system and a CPU group of its
own; a bridge in one more namespace connects them. This needs root, iproute2 and util-linux. Everything is removed when
the network is closed. If the process is killed before, the next run finds the remains by their names, which contain the
id of that process, and removes them (sweep).
"""

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from flock import bind_life

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DISK_BYTES = 64 << 20
NOWHERE = "02:00:00:00:ff:ff"  # a hardware address that no peer has
CPU_GROUPS = "/sys/fs/cgroup"
PARENT_GROUPS = (os.path.join(CPU_GROUPS, "cpu"), CPU_GROUPS)
NAMESPACES = "/run/netns"
NAME = re.compile(r"godwit-chaos-([1-9]\d*)(-.*)?")


def own_name():
    """The beginning of all names of things that this process makes."""
    return f"godwit-chaos-{os.getpid()}"


@contextlib.contextmanager
def uninterrupted():
    """Delays interruptions until the block has ended: something half made or half removed would stay."""
    came = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in INTERRUPTIONS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def run(*command, quiet=False):
    """Returns whether the command succeeded; without `quiet` a failure raises. Ctrl-C does not reach the command."""
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    if done.returncode != 0 and not quiet:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0


class Place:
    """A place like flock.HERE, as flock.Peer needs it. Numbers begin at 1."""

    port = 7117

    def __init__(self, network, number):
        self.network = network
        self.number = number
        self.name = f"{network.name}-{number}"
        self.address = f"10.77.0.{number}"
        self.disk = os.path.join(network.disks, str(number))
        self.clock_file = os.path.join(network.disks, f"clock{number}")
        self.group = None

    def open(self):
        port = f"{self.network.short}p{self.number}"
        run("ip", "netns", "add", self.name)
        other_end = ["peer", "name", "eth0", "netns", self.name]
        run("ip", "-n", self.network.name, "link", "add", port, "type", "veth", *other_end)
        run("ip", "-n", self.network.name, "link", "set", port, "master", "bridge", "up")
        run("ip", "-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        run("ip", "-n", self.name, "link", "set", "lo", "up")
        run("ip", "-n", self.name, "link", "set", "eth0", "up")
        os.mkdir(self.disk)
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", self.network.name, self.disk)
        self.set_clock(0)
        self.open_group()

    def open_group(self):
        for parent in PARENT_GROUPS:
            group = os.path.join(parent, self.name)
            try:
                os.mkdir(group)
            except OSError:
                continue
            if any(os.path.exists(os.path.join(group, file)) for file in ("cpu.cfs_quota_us", "cpu.max")):
                self.group = group
                self.weigh()
                return
            os.rmdir(group)

    def weigh(self):
        """Gives the group the weight of this process's niceness, which has no effect across groups."""
        weight = 1.25 ** -os.nice(0)
        old = os.path.exists(os.path.join(self.group, "cpu.shares"))
        new_weight = min(10000, max(1, int(100 * weight)))
        self.set_group("cpu.shares" if old else "cpu.weight", int(1024 * weight) if old else new_weight)

    def set_group(self, file, value):
        with open(os.path.join(self.group, file), "w") as setting:
            setting.write(str(value))

    def close(self):
        run("umount", "--lazy", self.disk, quiet=True)
        run("ip", "netns", "del", self.name, quiet=True)
        if self.group is not None:
            try:
                os.rmdir(self.group)
                self.group = None
            except OSError as error:
                print(f"chaos: {self.group} stays: {error}")

    def inside(self, path):
        """The path at this place: a peer's directory is on the disk of its place, and other paths stay as they are."""
        return os.path.join(self.disk, "state") if os.path.basename(path) == f"peer{self.number}" else path

    def launch(self, command, errors):
        clock = {"LD_PRELOAD": self.network.clock, "GODWIT_CHAOS_CLOCK": self.clock_file} if self.network.clock else {}
        with open(errors, "ab") as file:
            return subprocess.Popen(
                ["nsenter", f"--net={NAMESPACES}/{self.name}", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, **clock},
                start_new_session=True,
                preexec_fn=self.settle,
            )

    def settle(self):
        """Runs in a new process of this place, before its program."""
        bind_life()
        if self.group is not None:
            self.set_group("cgroup.procs", os.getpid())

    def time_of(self, event):
        del event
        return time.time()  # its own wall clock may be wrong

    # --- what can be done to it ---

    def deafen(self, other, on):
        """Lets packets from here to the other place be lost without any error, or arrive again."""
        if on:
            neighbour = [other.address, "lladdr", NOWHERE, "nud", "permanent", "dev", "eth0"]
            run("ip", "-n", self.name, "neigh", "replace", *neighbour)
        else:
            run("ip", "-n", self.name, "neigh", "del", other.address, "dev", "eth0", quiet=True)

    def set_clock(self, wrong_by_s):
        """Sets by how many seconds the wall clock of this place's processes is wrong (clock.c)."""
        mode = "r+b" if os.path.exists(self.clock_file) else "wb"  # the mapped file stays the same one
        with open(self.clock_file, mode) as file:
            file.write(struct.pack("=q", wrong_by_s))

    def shape(self, *queue):
        """Lets everything that is sent from here go through that queue of tc; without arguments, through none."""
        run("tc", "-n", self.name, "qdisc", "del", "dev", "eth0", "root", quiet=True)
        return not queue or run("tc", "-n", self.name, "qdisc", "add", "dev", "eth0", "root", *queue, quiet=True)

    def drop(self, percent):
        """Lets so many percent of the packets that arrive here be lost; 0 ends it."""
        self.filter("delete table inet chaos")
        return percent == 0 or self.filter(
            "add table inet chaos;"
            "add chain inet chaos arrives { type filter hook input priority 0; };"
            f'add rule inet chaos arrives iifname "eth0" numgen random mod 100 < {percent} drop'
        )

    def filter(self, rules):
        return run("nsenter", f"--net={NAMESPACES}/{self.name}", "--", "nft", rules, quiet=True)

    def starve(self, percent):
        """Limits the processes here to that share of one processor; 100 ends the limit."""
        if os.path.exists(os.path.join(self.group, "cpu.cfs_quota_us")):
            self.set_group("cpu.cfs_quota_us", -1 if percent == 100 else percent * 1000)
        else:
            self.set_group("cpu.max", "max 100000" if percent == 100 else f"{percent * 1000} 100000")


def missing():
    """Why this machine cannot make places, or None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "tc", "nsenter", "mount"):
        if shutil.which(program) is None:
            return f"there is no program '{program}'"
    name = f"{own_name()}-try"
    with uninterrupted():
        if not run("ip", "netns", "add", name, quiet=True):
            return "no network namespace can be made"
        works = run("ip", "-n", name, "link", "add", "bridge", "type", "bridge", quiet=True)
        run("ip", "netns", "del", name, quiet=True)
    return None if works else "a network namespace can have no bridge"


def is_left(name):
    """Whether a thing of that name was made by a process that has ended, as far as its process id is not reused."""
    process = NAME.fullmatch(name)
    return process is not None and not os.path.exists(f"/proc/{process[1]}")


def left_in(folder):
    return filter(is_left, os.listdir(folder) if os.path.isdir(folder) else [])


def sweep():
    """Removes what runs have left whose processes were killed."""
    with open("/proc/self/mounts") as file:
        mounts = [line.split()[:2] for line in file]
    for source, target in mounts:
        if is_left(source):
            run("umount", "--lazy", re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), target), quiet=True)
    for name in left_in(NAMESPACES):
        run("ip", "netns", "del", name, quiet=True)
    for parent in PARENT_GROUPS:
        for name in left_in(parent):
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(parent, name))
    for name in left_in(tempfile.gettempdir()):
        shutil.rmtree(os.path.join(tempfile.gettempdir(), name), ignore_errors=True)


class Network:
    """The places of a run: with Network(4, folder) as network: network.places ...
    clock: the library that makes wall clocks wrong, or None."""

    def __init__(self, count, folder, clock=None):
        self.clock = clock
        self.name = own_name()
        self.short = f"gw{os.getpid() % 100000}"  # names of interfaces have 15 letters
        self.disks = os.path.join(folder, "disks")
        self.places = [Place(self, number + 1) for number in range(count)]

    def __enter__(self):
        os.mkdir(self.disks)
        try:
            run("ip", "netns", "add", self.name)
            run("ip", "-n", self.name, "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", self.name, "link", "set", "bridge", "up")
            for place in self.places:
                with uninterrupted():
                    place.open()
        except BaseException:  # an interruption as well: nothing else would clean up
            self.close()
            raise
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        with uninterrupted():
            for place in self.places:
                place.close()
            run("ip", "netns", "del", self.name, quiet=True)
            shutil.rmtree(self.disks, ignore_errors=True)

    def can_shape(self, *queue):
        works = self.places[0].shape(*queue)
        self.places[0].shape()
        return works

    def can_drop(self):
        works = self.places[0].drop(1)
        self.places[0].drop(0)
        return works
