"""The role of tools/ansible on three hosts: containers of systemd-nspawn with systemd and sshd, in which Ansible installs the
program, distributes the key and starts a flock. It needs Debian's packages, and runs before a release."""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import world

sys.path.insert(0, str(world.HERE.parent / "lab"))
import tap  # noqa: E402

FOLDER = world.TREE / "tools" / "ansible"
PACKAGES = ("systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "python3-apt", "xz-utils",
            "libopenblas0-serial", "libopenblas0", "libsodium23", "libmicrohttpd12", "zlib1g",
            "libzstd1", "libjansson4", "libpcre2-8-0", "libutf8proc2")  # fmt: skip
HIERARCHIES = tuple(map(pathlib.Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup")))
HOSTS = {11: "node1", 12: "node2", 13: "node3"}
NAME = "trial"
WORK = ("--shards", "8", "--shard-ms", "10")


def missing():
    for program in ("ansible-playbook", "systemd-nspawn", "mmdebstrap", "ssh", "ssh-keygen"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    return world.missing()


class Host:
    """A host that boots. `number` is the last of its address."""

    started = itertools.count()  # of names of containers: what is left of one that was killed may last longer than it

    def __init__(self, number, base, memory):
        self.address, self.log = f"10.77.0.{number}", memory / f"{number}.log"
        self.groups = []
        parts = {name: memory / f"{number}-{name}" for name in ("upper", "work", "root")}
        for part in parts.values():
            part.mkdir()
        layers = f"lowerdir={base},upperdir={parts['upper']},workdir={parts['work']}"
        world.call("mount", "-t", "overlay", "-o", layers, "none", parts["root"])
        (parts["root"] / "etc/hostname").write_text(f"{HOSTS[number]}\n")
        (parts["root"] / "etc/systemd/network").mkdir(parents=True, exist_ok=True)
        (parts["root"] / "etc/systemd/network/10-host0.network").write_text(
            f"[Match]\nName=host0\n[Network]\nAddress={self.address}/16\n"
        )
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--network-bridge=pods", "--boot",
                 f"--machine=godwit{next(self.started)}-{os.getpid()}", f"--directory={parts['root']}", "--console=read-only"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=lambda: self.enter_groups(number))  # fmt: skip

    @staticmethod
    def groups_of(number):
        found = [h for h in HIERARCHIES[:2] if h.is_dir()] or [HIERARCHIES[2]]
        return [hierarchy / f"godwit-places-{os.getpid()}-{number}" for hierarchy in found]

    @classmethod
    def make_groups(cls, number):
        for group in cls.groups_of(number):
            group.mkdir()

    @classmethod
    def remove_groups(cls, number):
        """Ends all that is left of the host."""
        for group in cls.groups_of(number):
            for folder, _, _ in os.walk(group, topdown=False):
                for process in pathlib.Path(folder, "cgroup.procs").read_text().split():
                    os.kill(int(process), signal.SIGKILL)
                os.rmdir(folder)

    def enter_groups(self, number):
        """In the process that becomes systemd-nspawn, which makes groups of its own in the one that it is in."""
        world.die_with_parent()
        parent = os.getppid()
        for group in self.groups_of(number):
            path = str(group).replace(f"-{os.getpid()}-", f"-{parent}-")
            with open(f"{path}/cgroup.procs", "w") as file:
                file.write("0")

    def wait_ssh(self):
        end = time.monotonic() + world.LIMIT_S
        while True:
            try:
                with socket.create_connection((self.address, 22), timeout=5) as one:
                    if one.recv(4) == b"SSH-":
                        return
            except OSError:
                pass
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(self.log.read_text(errors="replace")[-4000:])
            time.sleep(0.1)

    def end(self):
        self.process.kill()
        self.process.wait()


class Flock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        archive = world.debian(*PACKAGES)
        world.enter()
        world.call("mount", "-t", "tmpfs", "none", "/run")  # systemd-nspawn keeps notes there
        cls.root = pathlib.Path(cls.enterClassContext(world.tempfile.TemporaryDirectory(prefix="godwit-ansible-")))
        world.call("mount", "-t", "tmpfs", "none", cls.root)
        cls.addClassCleanup(world.call, "umount", "--recursive", "--lazy", cls.root)
        base = cls.base = cls.root / "base"
        base.mkdir()
        world.call("tar", "-C", base, "-xf", archive)
        world.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", cls.root / "id")
        (base / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        shutil.copy(cls.root / "id.pub", base / "root/.ssh/authorized_keys")
        world.call("systemctl", f"--root={base}", "enable", "systemd-networkd", "ssh")
        world.call(world.BINARY, "keygen", cls.root / "cluster.key")

    def setUp(self):
        """Each test has new hosts."""
        self.folder = self.root / self._testMethodName
        self.folder.mkdir()
        self.hosts = []
        for number in HOSTS:
            Host.make_groups(number)
            self.addCleanup(self.remove, number)
            self.hosts.append(Host(number, self.base, self.folder))
            self.addCleanup(self.hosts[-1].end)
        for host in self.hosts:
            host.wait_ssh()

    def remove(self, number):
        end = time.monotonic() + world.LIMIT_S
        while True:
            try:
                return Host.remove_groups(number)
            except OSError:  # the last processes are about to end
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def play(self, *options, **variables):
        """Runs the example's playbook. Returns the numbers of changes of the hosts."""
        hosts = {name: {"ansible_host": f"10.77.0.{number}"} for number, name in HOSTS.items()}
        (self.root / "inventory.json").write_text(json.dumps({"flock": {"hosts": hosts, "vars": {
            "ansible_user": "root", "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(self.root / "id"), "ansible_ssh_common_args":
                f"-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o ControlPath={self.folder}/%h",
            "godwit_key": str(self.root / "cluster.key"), "godwit_name": NAME, "godwit_job": "synthetic",
            **variables}}}))  # fmt: skip
        environment = {**os.environ, "ANSIBLE_CONFIG": str(FOLDER / "example/ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
                       "ANSIBLE_ROLES_PATH": str(FOLDER / "roles"), "ANSIBLE_LOCAL_TEMP": str(self.root / "tmp")}  # fmt: skip
        done = subprocess.run(["ansible-playbook", "-i", self.root / "inventory.json", FOLDER / "example/site.yml", *options],
                              env=environment, capture_output=True, text=True, check=False, timeout=500)  # fmt: skip
        if os.environ.get("GODWIT_TEST_SHOW"):
            print(done.stdout, done.stderr, sep="\n")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [int(count) for count in re.findall(r"changed=(\d+)", done.stdout)]

    def on(self, host, *command):
        """(exit status, output) of a command on a host."""
        done = subprocess.run(["ssh", "-q", "-i", self.root / "id", "-o", "UserKnownHostsFile=/dev/null", "-o",
                               "StrictHostKeyChecking=no", f"root@{host.address}", *command], capture_output=True, text=True,
                              check=False, timeout=100)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def wait_on(self, host, command, pattern):
        """Runs a command until its output matches."""
        end = time.monotonic() + world.LIMIT_S
        while True:
            found = re.search(pattern, self.on(host, command)[1], re.MULTILINE)
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{command}: {self.on(host, command)[1]}\n"
                                     f"{self.on(host, f'journalctl -u godwit@{NAME} -o cat')[1][-4000:]}")  # fmt: skip
            time.sleep(0.2)

    def status(self, host, pattern):
        return self.wait_on(host, f"godwit status --dir /var/lib/godwit/{NAME} --json", pattern)

    def step(self, host):
        return int(self.status(host, r'"step":\s*(\d+)')[1])

    def check_flock(self, **source):
        """A flock is installed, changed and stopped."""
        options = [*WORK]
        first = self.play(**source, godwit_options=options)
        self.assertTrue(all(count > 3 for count in first), first)
        self.assertEqual(self.play(**source, godwit_options=options), [0, 0, 0])
        for host in self.hosts:
            members = self.status(host, r'"members":\s*3')
            self.assertTrue(members)
            self.assertIn("440 root godwit", self.on(host, f"stat -c '%a %U %G' /etc/godwit/{NAME}.key")[1])
        before = self.step(self.hosts[0])
        for mode in (["--check", "--diff"], []):  # the first tells what would be done
            changed = self.play(*mode, **source, godwit_options=[*options, "--http 8080"])
            self.assertEqual(changed, [2, 2, 2])  # the command line, and the restart
        for host in self.hosts:
            self.status(host, r'"members":\s*3')
        self.assertGreaterEqual(self.step(self.hosts[0]), before)
        self.assertEqual(self.play(**source, godwit_options=[*options, "--http 8080"]), [0, 0, 0])
        self.assertEqual(self.on(self.hosts[1], "godwit", "stop", "--dir", f"/var/lib/godwit/{NAME}")[0], 0)
        states = {self.wait_on(host, f"journalctl -u godwit@{NAME} -o cat", r"^godwit: stopped .* state=([0-9a-f]{64})")[1]
                  for host in self.hosts}  # fmt: skip
        self.assertEqual(len(states), 1)
        for host in self.hosts:
            self.wait_on(host, f"systemctl is-active godwit@{NAME}", "^inactive")

    def built(self, pattern):
        """What ./build.sh package has made."""
        found = sorted((world.TREE / "dist").glob(pattern))
        if not found:
            self.skipTest(f"there is no dist/{pattern}: ./build.sh package makes it")
        return str(found[-1])

    def test_a_program_that_is_copied(self):
        program = shutil.copy(world.BINARY, self.folder)  # a build meanwhile would be a change
        self.check_flock(godwit_binary=str(program))

    def test_a_debian_package(self):
        self.check_flock(godwit_package=self.built("godwit_*.deb"))

    def test_a_tar_ball(self):
        self.check_flock(godwit_archive=self.built("godwit-*-linux-*.tar.*"))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # groups are removed
    tap.main(missing, "hosts")
