"""Virtual machines with an RDMA device each (Soft-RoCE), on a private network, driven from Python.

    from machines import Lab

    with Lab(2) as lab:                             # nothing of it is left afterwards, whatever happens
        one, two = lab.start_all()                  # boots both: some five seconds
        code, output = one.run("build/godwit --version")        # (exit code, stdout and stderr together)
        server = two.spawn("ib_write_bw -x 1")                  # goes on by itself; .lines() .wait() .kill()
        code, output = one.run(f"ib_write_bw -x 1 {two.address}", timeout_s=60)
        two.cut()                                   # its cable is out; two.heal() puts it back
        one.freeze()                                # stands still; one.thaw()
        two.kill()                                  # gone without a word: its QEMU gets SIGKILL
        lab.start(2)                                # a new machine in its place, with the same address

What a machine is:
- Its root is the host's, read only, under a layer in its memory: every program and library of the host is there,
  under the same path, and what a command writes is lost with the machine. Commands start in the working directory
  of the process that made the Lab. Only /proc /sys /dev /run are the machine's own.
- /lab is lab.shared on the host: shared, writable, not cached. lab.put(file) copies a file into it. (A file
  elsewhere that changes after the boot may be seen as it was; nothing outside /lab is written to the host.)
- Machine i has the address 10.77.0.i on eth0 and the RDMA device rxe0 on it; GID index 1 is the IPv4 RoCE v2 one.
  Its device counters are machine.counters(). A machine reaches itself, too: Lab(1) is enough for two processes.
- Lab(count, rail=True) gives RDMA a network of its own: rxe0 is then on eth1, with the address 10.78.0.i. Its cable is
  another one: two.cut_rail() and two.heal_rail().
- Locked memory is unlimited, or what Lab(memlock=KIB) says; `ulimit -l` in a command lowers it for that command. Root
  may lock more all the same, unless it runs under `setpriv --bounding-set=-ipc_lock`.
- Commands run as root, under /bin/sh, with GODWIT_LAB_NUMBER, GODWIT_LAB_ADDRESS (the machine's) and
  GODWIT_LAB_ADDRESSES (all, by number) in the environment, and none of the host's variables. Whoever is still in a command's process group when it ends is killed.
- Unless the host's KVM can be used, the processor is emulated, 10 to 50 times slower than the host's, and a machine's
  cores take turns. GODWIT_LAB_ACCEL=kvm|tcg decides it by hand.

Lab(count) says how many there may be; a machine exists from lab.start(i) to its kill(). missing() says why this host
can have no lab, or returns None. The bridge and its taps are in a network namespace without a name that a keeper
process holds (keeper.py): when the process that made the Lab ends, in any way, everything goes.
"""

import collections
import contextlib
import fcntl
import glob
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import image  # noqa: E402
from flock import Trouble  # noqa: E402

KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")
NETWORK = "10.77.0"
RAIL = "10.78.0"  # the network of the RDMA devices, when they have one of their own
COMMANDS = 8  # the most commands at the same time in one machine
BOOT_S = 120  # it takes three to six seconds where nothing else runs
CONTROL_S = 30
MACHINE_GONE = -signal.SIGKILL  # exit code of a command whose machine ended beneath it
FOLDER_PREFIX = "godwit-machines-"

Result = collections.namedtuple("Result", "code output")


def unshare():
    """The prefix that runs a command in a network namespace; without root also in a user namespace that owns it."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--"]


def missing():
    """Why this host can have no lab, as a text with what to do; None if it can. Makes the image if need be."""
    try:
        image.prepare()
    except image.Missing as reason:
        return str(reason)
    script = "ip link add lab type bridge && ip tuntap add tap1 mode tap"
    tried = subprocess.run([*unshare(), "sh", "-c", script], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"no network namespace with a bridge and taps: {tried.stderr.strip()}"
    return None


def remove_stale():
    """Folders of labs whose keeper was killed. (Nothing else of them can be left.)"""
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), FOLDER_PREFIX + "*")):
        try:
            with open(os.path.join(folder, "alive"), "r+b") as alive:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # the keeper lives, or belongs to another user


def accelerator():
    """(QEMU's options, the kernel's) for the processor. /dev/kvm alone proves nothing: a guest may have it without the
    hardware for it."""
    with open("/proc/cpuinfo") as file:
        about = file.read()
    hardware = re.search(r"^flags.*\b(vmx|svm)\b", about, re.MULTILINE)
    usable = "kvm" if hardware and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg"
    if os.environ.get("GODWIT_LAB_ACCEL", usable) == "kvm":
        return ["-accel", "kvm", "-cpu", "host"], ""
    # An emulated processor counts the host's ticks. On a busy host the kernel would measure them wrongly, find that
    # its timer interrupts are broken, and give up; bogomips are twice the ticks of a microsecond.
    ticks = re.search(r"^bogomips\s*: ([\d.]+)", about, re.MULTILINE)
    khz = f"tsc_early_khz={float(ticks.group(1)) * 500:.0f}" if ticks else ""
    # All processors in one thread of QEMU. With one each, a processor may translate code just as another, patching the
    # running kernel, changes it, and before 8.1 (deba78709ae8) QEMU does not notice. The kernel patches by way of a
    # breakpoint: its translation outlived it in one boot of a few hundred, and the processors trapped there for ever.
    return ["-accel", "tcg,thread=single", "-cpu", "max"], f"no_timer_check tsc=reliable {khz}"


def listen_at(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    listener.settimeout(0.2)
    return listener


class MachineEnded(Trouble):
    """A machine ended by itself beneath a command; the text has its last words."""

    def __init__(self, machine, command, output):
        machine.await_end()
        super().__init__(f"machine {machine.number} ended at {command}:\n{output}{machine.last_words()}")


class Keeper:
    """The lab's side of keeper.py."""

    def __init__(self, folder, alive):
        self.lock = threading.Lock()
        self.changed = threading.Condition()
        self.answers = collections.deque()
        self.ended = {}  # pid: exit code as subprocess gives it
        self.gone = False
        self.process = subprocess.Popen(
            [*unshare(), sys.executable, KEEPER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[alive],  # locked as long as the keeper lives
            start_new_session=True,  # Ctrl-C is for the tool, which then closes the lab
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            word = json.loads(line)
            with self.changed:
                if "ended" in word:
                    self.ended[word["ended"]] = word["code"]
                else:
                    self.answers.append(word)
                self.changed.notify_all()
        with self.changed:
            self.gone = True
            self.changed.notify_all()

    def ask(self, do, *arguments):
        with self.lock:
            with contextlib.suppress(OSError):  # the keeper is gone, which the reader notices too
                self.process.stdin.write((json.dumps({"do": do, "with": arguments}) + "\n").encode())
                self.process.stdin.flush()
            with self.changed:
                self.changed.wait_for(lambda: self.answers or self.gone)
                if not self.answers:
                    raise Trouble("the lab's keeper ended")
                answer = self.answers.popleft()
        if "error" in answer:
            raise Trouble(f"{do}: {answer['error']}")
        return answer

    def call(self, *command):
        answer = self.ask("call", command)
        if answer["code"] != 0:
            raise Trouble(f"{' '.join(command)}: {answer['output'].strip()}")

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.reader.join()


class Job:
    """A command in a machine. Made by Machine.spawn; much like subprocess.Popen."""

    def __init__(self, machine, name, command, line):
        self.machine = machine
        self.name = name
        self.command = command
        self.line = line
        self.changed = threading.Condition()
        self.data = bytearray()  # the number of its process group in the first line, then its output
        self.code = None  # the exit code, once it has ended and its output was read
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        mark = f"\1{self.name} ".encode()
        while True:
            try:
                piece = self.line.recv(1 << 16)
            except OSError:
                piece = b""
            with self.changed:
                seen = max(0, len(self.data) - len(mark))
                self.data += piece
                end = self.data.find(mark, seen)
                if not piece:
                    self.code = MACHINE_GONE
                elif end >= 0 and self.data.endswith(b"\n"):
                    self.code = int(self.data[end + len(mark) :])
                    del self.data[end:]
                self.changed.notify_all()
                if self.code is None:
                    continue
            if piece:
                self.machine.give_back(self.line)
            return

    @property
    def output(self):
        """The output so far, stdout and stderr together."""
        with self.changed:
            return bytes(self.data).partition(b"\n")[2].decode(errors="replace")

    @property
    def stdout(self):
        return self.lines()

    def lines(self, timeout_s=None):
        """Yields the output line by line as it comes, until the command ends. Trouble when one takes longer than timeout_s."""
        at = None
        while True:
            with self.changed:
                if at is None:
                    self.await_(lambda: b"\n" in self.data, timeout_s, "it started")
                    at = self.data.find(b"\n") + 1
                self.await_(lambda: self.data.find(b"\n", at) >= 0, timeout_s, "it printed a line")
                end = self.data.find(b"\n", at) + 1
                if end == 0 or at == 0:  # it has ended
                    end = len(self.data)
                line = self.data[at:end].decode(errors="replace")
                at = end
            if not line:
                return
            yield line.rstrip("\n")

    def wait_line(self, pattern, timeout_s):
        """Waits until it has printed a line in which the regular expression is found; returns the match."""
        deadline = time.monotonic() + timeout_s
        for line in self.lines(timeout_s):
            found = re.search(pattern, line)
            if found:
                return found
            if time.monotonic() > deadline:
                break
        raise self.trouble(f"no line with {pattern!r}")

    def await_(self, condition, timeout_s, what):
        """Waits until condition() or the end of the job; the caller holds `changed`."""
        if not self.changed.wait_for(lambda: condition() or self.code is not None, timeout_s):
            raise self.trouble(f"after {timeout_s} s, not yet: {what}")

    def trouble(self, what):
        return Trouble(f"machine {self.machine.number}: {self.command}: {what}\n{self.output}".rstrip())

    def wait(self, timeout_s=None):
        """Waits for the exit code; 128 + N if signal N ended it; MACHINE_GONE if its machine ended beneath it."""
        with self.changed:
            self.await_(lambda: False, timeout_s, "it ended")
            return self.code

    def poll(self):
        return self.code

    def send_signal(self, number):
        """Sends a signal to the whole process group."""
        with self.changed:
            self.await_(lambda: b"\n" in self.data, CONTROL_S, "it started")
            group = bytes(self.data).partition(b"\n")[0].decode()
        if self.code is None:
            self.machine.control(f"kill -{int(number)} -{group} 2>/dev/null")

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Machine:
    """One of a lab's machines, from its start to its end. Made by Lab.start."""

    def __init__(self, lab, number):
        self.lab = lab
        self.number = number
        self.address = f"{NETWORK}.{number}"
        self.tap = f"tap{number}"
        self.rail = f"rail{number}" if lab.rail else None
        self.log = os.path.join(lab.folder, f"machine{number}.log")
        self.lock = threading.Lock()
        self.lines = []
        self.free = []
        self.serial = itertools.count(1)
        self.life = lab.next_life()
        self.pid = self.spawn_qemu()
        self.controls = self.lines[0]
        self.control_lock = threading.Lock()

    def spawn_qemu(self):
        """Starts it, and takes its end of each line; returns its pid."""
        paths = [os.path.join(self.lab.folder, f"{self.life}.{i}") for i in range(COMMANDS + 1)]
        listeners = [listen_at(path) for path in paths]
        pid = self.lab.keeper.ask("spawn", self.command(paths), self.log)["pid"]
        deadline = time.monotonic() + CONTROL_S
        for listener, path in zip(listeners, paths):
            with listener:
                self.lines.append(self.accept(listener, pid, deadline))
            os.unlink(path)
        self.free = self.lines[1:]
        return pid

    def accept(self, listener, pid, deadline):
        while True:
            try:
                return listener.accept()[0]
            except socket.timeout:
                if pid in self.lab.keeper.ended or time.monotonic() > deadline:
                    raise Trouble(f"machine {self.number}: no QEMU:\n{self.last_words()}") from None

    def command(self, paths):
        lab = self.lab
        options = f"lab.address={self.address}/24 lab.mtu={lab.mtu} lab.memlock={lab.memlock}"
        if self.rail:
            options += f" lab.rail={RAIL}.{self.number}/24"
        quick = "mitigations=off random.trust_cpu=on cryptomgr.notests lsm="  # a sixth of what a boot takes
        kernel = f"console=ttyS0 panic=-1 {quick} {lab.kernel_options} {options}"
        command = ["qemu-system-x86_64", *lab.accelerator, "-smp", str(lab.cores), "-m", f"{lab.memory_mb}M"]
        command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]
        command += ["-kernel", lab.kernel, "-initrd", lab.initramfs, "-append", kernel]
        # What machines make in /lab is an ordinary file here, whatever it is there (a socket, say).
        shares = {
            "host": "path=/,security_model=none,readonly=on,multidevs=remap",
            "lab": f"path={lab.shared},security_model=mapped-file",
        }
        for tag, share in shares.items():
            command += ["-fsdev", f"local,id={tag},{share}"]
            command += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        for i, tap in enumerate([self.tap, self.rail] if self.rail else [self.tap]):
            mac = f"52:54:00:67:{0x77 + i:02x}:{self.number:02x}"
            command += ["-netdev", f"tap,id=net{i},ifname={tap},script=no,downscript=no"]
            command += ["-device", f"virtio-net-pci,netdev=net{i},mac={mac},host_mtu={lab.mtu},romfile="]
        command += ["-device", "virtio-serial-pci"]
        for i, path in enumerate(paths):
            command += ["-chardev", f"socket,id=line{i},path={path}"]
            command += ["-device", f"virtserialport,chardev=line{i},name=line{i}"]
        return command

    def wait_ready(self):
        """Waits until the machine takes commands."""
        job = self.spawn("true")
        with contextlib.suppress(Trouble):
            job.wait(BOOT_S)
        if job.code == MACHINE_GONE:
            self.await_end()
        if job.code != 0:
            raise Trouble(f"machine {self.number} does not come up; {self.state()}:\n{self.last_words()}")
        return self

    def state(self):
        """Describes what its QEMU does: a machine in an endless loop uses processor time, one that waits does not."""
        keeper = self.lab.keeper
        if not self.alive:
            return f"QEMU ended with exit code {keeper.ended[self.pid]}"
        if keeper.gone:
            return "QEMU ended with the lab's keeper"
        with open(f"/proc/{self.pid}/stat") as file:
            about = file.read().rpartition(")")[2].split()
        ticks = int(about[11]) + int(about[12])  # in user and kernel mode
        return f"QEMU runs and has used {ticks / os.sysconf('SC_CLK_TCK'):.0f} s of processor time"

    def last_words(self):
        """The last lines of its kernel and of QEMU."""
        with open(self.log, errors="replace") as file:
            return "".join(file.readlines()[-20:])

    @property
    def alive(self):
        return self.pid not in self.lab.keeper.ended

    def give_back(self, line):
        with self.lock:
            self.free.append(line)

    def spawn(self, command, env=None):
        """Starts a shell command; env: variables on top of the machine's own."""
        with self.lock:
            if not self.free:
                raise Trouble(f"machine {self.number}: {COMMANDS} commands are running already")
            line = self.free.pop()
        return self.send(command, line, env)

    def send(self, command, line, env=None):
        name = f"{self.life}-{next(self.serial)}"
        about = {
            "GODWIT_LAB_NUMBER": self.number,
            "GODWIT_LAB_ADDRESS": self.address,
            "GODWIT_LAB_ADDRESSES": " ".join(f"{NETWORK}.{i + 1}" for i in range(self.lab.count)),
        }
        values = {**about, **(env or {})}
        variables = "".join(f"export {key}={shlex.quote(str(value))}\n" for key, value in values.items())
        with open(os.path.join(self.lab.shared, "jobs", name), "w") as file:
            file.write(f"cd {shlex.quote(self.lab.directory)}\n{variables}{command}\n")
        try:
            line.sendall(f"{name}\n".encode())
        except OSError:
            pass  # the machine is gone, which the job's reader notices too
        return Job(self, name, command, line)

    def run(self, command, timeout_s=60, env=None):
        """Runs a shell command to its end: (exit code, output). Trouble, and its end, when timeout_s is over."""
        job = self.spawn(command, env)
        try:
            return Result(job.wait(timeout_s), job.output)
        except Trouble:
            with contextlib.suppress(Trouble):  # a frozen machine does not answer
                job.kill()
                job.wait(CONTROL_S)
            raise

    def check(self, command, timeout_s=60, env=None):
        """Does the same as run for a command that must succeed: returns its output, or raises Trouble."""
        code, output = self.run(command, timeout_s, env)
        if code == MACHINE_GONE:
            raise MachineEnded(self, command, output)
        if code != 0:
            raise Trouble(f"machine {self.number}: {command}: exit code {code}\n{output}")
        return output

    def wait_listening(self, port, timeout_s=CONTROL_S):
        """Waits until some process in the machine listens on the TCP port."""
        socket_of_port = f":{port:04X} [0-9A-F]*:0000 0A"
        self.check(f"until grep -q '{socket_of_port}' /proc/net/tcp*; do sleep 0.05; done", timeout_s)

    def control(self, command):
        """Sends a line to the machine on a port of its own, as all others may be in use."""
        with self.control_lock:
            self.send(command, self.controls).wait(CONTROL_S)

    def counters(self):
        """The RDMA device's own counters, by name."""
        text = self.check("grep -H . /sys/class/infiniband/rxe0/ports/1/hw_counters/*")
        pairs = re.findall(r"/([^/:]+):(\d+)$", text, re.MULTILINE)
        return {name: int(value) for name, value in pairs}

    def signal(self, number):
        self.lab.keeper.ask("signal", self.pid, int(number))

    def kill(self):
        """Sends SIGKILL to its QEMU, and returns when the process is gone."""
        self.signal(signal.SIGKILL)
        self.await_end()
        self.close()

    def await_end(self):
        """Waits until the keeper has seen the end of its QEMU, or has ended itself."""
        keeper = self.lab.keeper
        with keeper.changed:
            keeper.changed.wait_for(lambda: not self.alive or keeper.gone)

    def freeze(self):
        """Stops the machine's processors and devices until thaw(); its clocks go on."""
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def cut(self):
        """Lets nothing through its cable in either direction; the machine is not notified."""
        self.lab.keeper.call("ip", "link", "set", self.tap, "nomaster")

    def heal(self):
        self.lab.keeper.call("ip", "link", "set", self.tap, "master", "lab")

    def cut_rail(self):
        self.lab.keeper.call("ip", "link", "set", self.rail, "nomaster")

    def heal_rail(self):
        self.lab.keeper.call("ip", "link", "set", self.rail, "master", "labrail")

    def close(self):
        for line in self.lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()


class Lab:
    """A network for up to `count` machines. cores and memory_mb are each machine's (two cores if it is alone)."""

    def __init__(self, count=3, cores=None, memory_mb=None, mtu=9000, memlock="unlimited", rail=False):
        reason = missing()
        if reason:
            raise Trouble(f"no lab here: {reason}")
        self.count = count
        self.cores = cores or (2 if count == 1 else 1)
        self.memory_mb = memory_mb or (1024 if count == 1 else 512)
        self.mtu = mtu
        self.memlock = memlock
        self.rail = rail
        self.kernel, self.initramfs = image.prepare()
        self.accelerator, self.kernel_options = accelerator()
        self.directory = os.getcwd()
        self.machines = {}  # number -> the latest Machine with it
        self.lives = itertools.count(1)
        remove_stale()
        self.folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
        self.shared = os.path.join(self.folder, "shared")
        os.makedirs(os.path.join(self.shared, "jobs"))
        with open(os.path.join(self.folder, "alive"), "wb") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            self.keeper = Keeper(self.folder, alive.fileno())
        try:
            self.make_network()
        except BaseException:
            self.close()
            raise

    def make_network(self):
        self.make_bridge("lab", "tap")
        if self.rail:
            self.make_bridge("labrail", "rail")

    def make_bridge(self, bridge, taps):
        """Makes a bridge, and a tap on it for each machine."""
        ip = self.keeper.call
        ip("ip", "link", "add", bridge, "mtu", str(self.mtu), "type", "bridge", "forward_delay", "0")
        ip("ip", "link", "set", bridge, "up")
        for number in range(1, self.count + 1):
            ip("ip", "tuntap", "add", f"{taps}{number}", "mode", "tap")
            ip("ip", "link", "set", f"{taps}{number}", "mtu", str(self.mtu), "master", bridge, "up")

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        """Ends every machine, and all that the lab has made. Jobs still running end with MACHINE_GONE."""
        self.keeper.close()
        for machine in self.machines.values():
            machine.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def next_life(self):
        return f"m{next(self.lives)}"

    def boot(self, number):
        old = self.machines.get(number)
        if not 1 <= number <= self.count or (old and old.alive):
            raise Trouble(f"machine {number}: there are 1 to {self.count}, and each starts once until it is killed")
        self.machines[number] = Machine(self, number)
        return self.machines[number]

    def start(self, number):
        """Boots machine `number` (from 1) and returns it when it takes commands."""
        return self.boot(number).wait_ready()

    def start_all(self):
        """Boots all machines at once; they are returned in order."""
        return [machine.wait_ready() for machine in [self.boot(i + 1) for i in range(self.count)]]

    def put(self, path, name=None):
        """Copies a file into /lab; returns its path there."""
        name = name or os.path.basename(path)
        shutil.copy(path, os.path.join(self.shared, name))
        return f"/lab/{name}"

    def machine(self, number):
        """The machine that was started last with this number."""
        if number not in self.machines:
            raise Trouble(f"machine {number} was not started")
        return self.machines[number]

    def cut(self, number):
        self.machine(number).cut()

    def heal(self, number):
        self.machine(number).heal()
