"""A small world of pods on this machine, for the suites of this folder: each pod has a network, mounts and process
numbers of its own, a bridge connects them, and a name server answers what a test tells it.

The process that enters the world leaves the machine's network and mounts for ones of its own, so that nothing of the
world stays behind when it ends, however it ends. This needs root, iproute2 and util-linux.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "lab"), str(HERE.parent / "tools")]
import readers  # noqa: E402

BINARY = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build")) / "godwit"
LIMIT_S = 300  # ends a test that hangs, on a busy machine as well
NAMESERVER = "10.77.0.1"
CLONE_NEWNS, CLONE_NEWNET, PR_SET_PDEATHSIG, MS_REC_PRIVATE = 0x20000, 0x40000000, 1, 0x44000
libc = ctypes.CDLL(None, use_errno=True)


def missing():
    """The reason why there can be no pods here, or None."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    for program in ("ip", "unshare", "mount"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    tried = subprocess.run("unshare --net --mount --pid --fork ip link add name pods type bridge".split(),
                           capture_output=True, text=True, check=False)  # fmt: skip
    if tried.returncode != 0:
        return tried.stderr.strip().splitlines()[-1]
    return None if BINARY.exists() else "it is not built"


def call(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter():
    """Leaves the machine's network and mounts. Once a process, before it has threads."""
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None)
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", "name", "pods", "type", "bridge")
    call("ip", "address", "add", f"{NAMESERVER}/16", "dev", "pods")
    call("ip", "-6", "address", "add", "fd77::1/64", "dev", "pods", "nodad")
    call("ip", "link", "set", "pods", "up")


class Names:
    """A name server, by UDP and TCP, for the names of `zone`: a table from names to addresses, which a test changes.
    `zones` has other tables for some clients, by their addresses, as where they ask caches of their own. Names that are
    not in the table do not exist. `mood`: "well" or "broken" (SERVFAIL)."""

    def __init__(self, folder):
        self.zone, self.zones, self.mood = {}, {}, "well"
        config = pathlib.Path(folder, "resolv.conf")
        config.write_text(f"nameserver {NAMESERVER}\noptions timeout:1 attempts:1\n")
        switch = pathlib.Path(folder, "nsswitch.conf")
        switch.write_text("hosts: files dns\n")
        call("mount", "--bind", config, os.path.realpath("/etc/resolv.conf"))
        call("mount", "--bind", switch, "/etc/nsswitch.conf")
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for one in (self.udp, self.tcp):
            one.bind((NAMESERVER, 53))
        self.tcp.listen(64)
        for serve in (self.serve_datagrams, self.serve_connections):
            threading.Thread(target=serve, daemon=True).start()

    def serve_datagrams(self):
        while True:
            query, client = self.udp.recvfrom(4096)
            reply = self.answer(query, client[0])
            if len(reply) > 512:  # the client asks again by TCP
                reply = reply[:2] + bytes([reply[2] | 2]) + reply[3:6] + bytes(6) + reply[12:12 + self.question_bytes(query)]
            self.udp.sendto(reply, client)

    def serve_connections(self):
        while True:
            client, address = self.tcp.accept()
            threading.Thread(target=self.serve_connection, args=(client, address[0]), daemon=True).start()

    def serve_connection(self, client, address):
        with client, contextlib.suppress(OSError, struct.error):  # it ends by an empty read
            while True:
                (length,) = struct.unpack(">H", client.recv(2, socket.MSG_WAITALL))
                reply = self.answer(client.recv(length, socket.MSG_WAITALL), address)
                client.sendall(struct.pack(">H", len(reply)) + reply)

    @staticmethod
    def question_bytes(query):
        return query.index(b"\0", 12) + 5 - 12

    def answer(self, query, client):
        end, labels = 12, []
        while query[end]:
            labels.append(query[end + 1:end + 1 + query[end]].decode())
            end += 1 + query[end]
        (kind,) = struct.unpack(">H", query[end + 1:end + 3])
        found = self.zones.get(client, self.zone).get(".".join(labels).lower())
        code = 2 if self.mood == "broken" else 3 if found is None else 0
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        records = [] if code else [a for a in found if family == (socket.AF_INET6 if ":" in a else socket.AF_INET)]
        reply = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0) + query[12:end + 5]
        for address in records:
            data = socket.inet_pton(family, address)
            reply += struct.pack(">HHHIH", 0xC00C, kind, 1, 5, len(data)) + data
        return reply


class Pod:
    """A process in namespaces of its own, as a container has them: it is process 1. `shell` is run before, with all
    that root may; then `command` is executed. The address of the pod is 10.77.0.NUMBER."""

    def __init__(self, number, command, shell="", environment=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
        self.number, self.address, self.address6 = number, f"10.77.0.{number}", f"fd77::{number}"
        prepare = (f"set -e; read go; ip link set lo up; ip address add {self.address}/16 dev eth0;"
                   f"ip -6 address add {self.address6}/64 dev eth0 nodad; ip link set eth0 up; {shell}\n"
                   'exec "$@" </dev/null')  # fmt: skip
        self.outer = subprocess.Popen(
            [*"unshare --net --mount --uts --pid --fork --kill-child=SIGKILL --mount-proc sh -c".split(), prepare, "pod",
             *map(str, command)], stdin=subprocess.PIPE, stdout=stdout, stderr=stderr,
            env=os.environ if environment is None else environment, preexec_fn=die_with_parent)  # fmt: skip
        self.text = {"out": b"", "err": b""}
        self.taken = 0  # bytes of stdout whose events have been seen
        self.events = []
        self.outer_net()
        call("ip", "link", "add", "name", f"pod{number}", "type", "veth", "peer", "name", "eth0", "netns", self.outer.pid)
        call("ip", "link", "set", f"pod{number}", "master", "pods", "up")
        self.outer.stdin.write(b"go\n")
        self.outer.stdin.close()

    def outer_net(self):
        """Waits until the process has left this one's network."""
        ours, end = os.readlink("/proc/self/ns/net"), time.monotonic() + LIMIT_S
        while os.readlink(f"/proc/{self.outer.pid}/ns/net") == ours:
            if self.outer.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no pod: {self.outer.stderr.read() if self.outer.stderr else ''}")
            time.sleep(0.002)

    @property
    def pid(self):
        """The number of the pod's process 1 on this machine."""
        text = pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text()
        return int(text.split()[0])

    def processes(self):
        """(number in the pod, number here, name, state) of each process in it."""
        ours = os.readlink(f"/proc/{self.pid}/ns/pid")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") != ours:
                    continue
                status = pathlib.Path(f"/proc/{entry}/status").read_text()
                inner = re.search(r"NSpid:.*\t(\d+)", status)[1]
                yield int(inner), int(entry), re.search(r"Name:\t(.*)", status)[1], re.search(r"State:\t(\w)", status)[1]

    def signal(self, number):
        os.kill(self.pid, number)

    def pump(self, timeout_s):
        """Reads what the pod prints. Returns False when there is nothing more to come."""
        pipes = {pipe.fileno(): name for name, pipe in (("out", self.outer.stdout), ("err", self.outer.stderr))
                 if pipe is not None and not pipe.closed}  # fmt: skip
        for fd in select.select(list(pipes), [], [], timeout_s)[0]:
            data = os.read(fd, 1 << 16)
            self.text[pipes[fd]] += data
            if not data:
                (self.outer.stdout if pipes[fd] == "out" else self.outer.stderr).close()
        *lines, rest = self.text["out"][self.taken:].split(b"\n")
        self.taken = len(self.text["out"]) - len(rest)
        for line in lines:
            with contextlib.suppress(ValueError):
                self.events.append(json.loads(line))
        return bool(pipes)

    def wait(self, match, what, after=0, others=()):
        """Waits until an event matches, from the place `after` in the list on. Returns the event."""
        end = time.monotonic() + LIMIT_S
        while True:
            for event in self.events[after:]:
                if match(event):
                    return event
            if time.monotonic() > end or not self.pump(0.2):
                raise AssertionError(f"pod {self.number}: no {what}: {self.shown()}")
            for other in others:
                other.pump(0)

    def wait_view(self, members, after=0, others=()):
        return self.wait(lambda e: e["event"] == "view" and len(e["members"]) == members, f"view of {members}", after, others)

    def wait_log(self, part, after=0, others=()):
        return self.wait(lambda e: part in e.get("text", ""), part, after, others)

    def end(self, others=()):
        """Waits for the end of the pod. Returns its exit code."""
        limit = time.monotonic() + LIMIT_S
        while self.pump(0.2):
            for other in others:
                other.pump(0)
            if time.monotonic() > limit:
                raise AssertionError(f"pod {self.number} does not end: {self.shown()}")
        return self.outer.wait(timeout=LIMIT_S)

    def done(self):
        """The last event of a run."""
        ends = [event for event in self.events if event["event"] == "done"]
        return ends[-1] if ends else None

    def shown(self):
        return "\n".join(self.text[name].decode(errors="replace")[-6000:] for name in ("out", "err"))

    def kill(self):
        """Ends the pod at once, and removes its network."""
        if self.outer.poll() is None:
            with contextlib.suppress(OSError, IndexError):  # it may be about to end, or have no process 1 yet
                self.signal(signal.SIGKILL)
                self.outer.wait(timeout=LIMIT_S)
            self.outer.kill()
        for pipe in (self.outer.stdout, self.outer.stderr):
            if pipe is not None:
                pipe.close()
        self.outer.wait()
        subprocess.run(["ip", "link", "delete", f"pod{self.number}"], capture_output=True, check=False)


# Enters the root folder, drops what a container does not have, and executes the program.
ENTER = """
import ctypes, json, os, sys
root, folder, user, group, groups, variables, *command = sys.argv[1:]
libc = ctypes.CDLL(None)
os.chroot(root); os.chdir(folder)
for capability in range(64): libc.prctl(24, capability, 0, 0, 0)
os.setgroups([int(one) for one in groups.split()])
os.setresgid(*[int(group)] * 3); os.setresuid(*[int(user)] * 3)
libc.prctl(38, 1, 0, 0, 0)
os.execve(command[0], command, json.loads(variables))
"""


class System:
    """The root folder of containers: the program with its libraries, and nothing else, or that of an image, with the path
    of the program in it. A container's root is read-only but for what is mounted there; it has no capabilities, cannot
    gain any, and its user has no entry anywhere."""

    def __init__(self, root, program=None):
        self.root, self.program = root, program or "/bin/godwit"
        if program is None:
            self.fill(root)

    @staticmethod
    def fill(root):
        for folder in ("proc", "dev", "sys", "bin", "etc"):
            (root / folder).mkdir(parents=True)
        shutil.copy(BINARY, root / "bin" / "godwit")
        for line in call("ldd", BINARY).splitlines():
            path = re.search(r"(/\S+) \(0x", line)
            if path:
                target = root / path[1].lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(os.path.realpath(path[1]), target)

    def start(self, number, command, user, mounts, shm=None, groups=(), host="container", control_group=None,
              environment=None):  # fmt: skip
        """Starts the program as process 1 of a pod, in the folder of the first mount. `user`: its number and that of its
        group. `mounts`: from folders and files in the container to those of this machine. `shm`: the size of /dev/shm, or
        a folder in memory; None: there is none. `control_group`: what it is in, alone."""
        dev = self.root / "dev"
        lines = [f"hostname {host}", f"mount --bind {self.root} {self.root}", f"mount -t proc proc {self.root}/proc",
                 f"mount -t tmpfs -o size=64k,mode=755 none {dev}"]  # fmt: skip
        lines += [f"touch {dev}/{name}; mount --bind /dev/{name} {dev}/{name}" for name in ("null", "zero", "urandom")]
        for target, source in mounts.items():
            (self.root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind {source} {self.root}{target}")
        if shm:
            kind = f"--bind {shm}" if os.path.isdir(shm) else f"-t tmpfs -o mode=1777,size={shm} none"
            lines.append(f"mkdir {dev}/shm; mount {kind} {dev}/shm")
        lines.append(f"mount -o remount,bind,ro {self.root}")
        entry = (sys.executable, "-c", ENTER, self.root, next(iter(mounts)), *user, " ".join(map(str, groups)),
                 json.dumps(environment or {}), self.program, *command)  # fmt: skip
        if control_group:
            lines.append(f"echo $$ >{control_group}/cgroup.procs")
            old = "memory/" in str(control_group)
            kind, place = ("cgroup -o memory", "memory") if old else ("cgroup2", "")
            place = f"{self.root}/sys/fs/cgroup/{place}"
            mount = f"mount -t tmpfs none {self.root}/sys; mkdir -p {place}; mount -t {kind} none {place}"
            entry = ("unshare", "--cgroup", "sh", "-c", f'{mount}; exec "$@"', "sh", *entry)
        return Pod(number, entry, "; ".join(lines), {"PATH": os.environ["PATH"]})


def debian(*packages):
    """The tar ball of a small Debian with these packages, which is made once, into the user's cache."""
    name = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]
    include = [f"--include={','.join(packages)}"] if packages else []
    command = ["mmdebstrap", "--quiet", "--variant=minbase", *include, "bookworm", "root.tar", "http://deb.debian.org/debian"]
    folder, why = readers.make(f"debian-{name}", "Debian", [command])
    if why:
        raise unittest.SkipTest(why)
    return folder / "root.tar"


def scratch(test):
    """A folder that goes with the test."""
    return pathlib.Path(test.enterContext(tempfile.TemporaryDirectory(prefix="godwit-places-")))
