"""Hosts on one network, for the suites of this folder: each has a network, a name, mounts and process numbers of its own,
and the files of this machine. This process is a host of that network as well, by the number 0.

Nothing of them stays behind when this process ends, however it ends. It needs what world.py needs, and nsenter.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import world

CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "GODWIT_", "CUDA_VISIBLE"))}


def missing(*programs):
    """Why there can be no hosts with these programs here; None where there can."""
    lacks = [program for program in ("nsenter", *programs) if not shutil.which(program)]
    return f"{', '.join(lacks)} missing" if lacks else world.missing()


def run(*command, check=True, **more):
    """Runs a command; returns what it prints."""
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False, **more
    )  # fmt: skip
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.stdout}")
    return done.stdout


class Hosts:
    """`count` hosts NAME1, NAME2, ... at the addresses SUBNET.1, SUBNET.2, ...; this process is at SUBNET.254, as `own`.
    There can be one network of them in a process."""

    def __init__(self, name, count, subnet, own):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="godwit-hosts-"))
        self.folder.chmod(0o755)
        self.count, self.names, self.subnet = count, [own, *(f"{name}{i}" for i in range(1, count + 1))], subnet
        self.first = {}  # of each host that runs, the process that all others of it end with

    def enter(self):
        if world.libc.unshare(world.CLONE_NEWNS | world.CLONE_NEWNET) != 0:
            raise OSError(world.ctypes.get_errno(), "unshare")
        world.libc.mount(b"none", b"/", None, world.MS_REC_PRIVATE, None)
        os.makedirs("/run/netns", exist_ok=True)
        run("mount", "-t", "tmpfs", "none", "/run/netns")  # the names of networks are this process's own
        lines = ["127.0.0.1 localhost", f"{self.address(0)} {self.names[0]}"]
        lines += [f"{self.address(i)} {self.names[i]}" for i in range(1, self.count + 1)]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "addr", "add", f"{self.address(0)}/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        for i in range(1, self.count + 1):
            run("ip", "netns", "add", self.names[i])
            run("ip", "-n", self.names[i], "link", "set", "lo", "up")
            run("ip", "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", self.names[i])
            run("ip", "link", "set", f"port{i}", "master", "bridge", "up")
            run("ip", "-n", self.names[i], "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            run("ip", "-n", self.names[i], "link", "set", "eth0", "up")

    def address(self, host):
        return f"{self.subnet}.{host or 254}"

    def within(self, host, *command, shell="true"):
        """The command as it is run on that host, behind a command of the shell. On a host other than 0 it is process 1."""
        script = f'hostname {self.names[host]} && mount --bind {self.folder}/hosts /etc/hosts && {shell} && exec "$@"'
        own = ("unshare", "--mount", "--uts")
        if host:
            network = f"--net=/run/netns/{self.names[host]}"
            own = ("nsenter", network, *own, "--pid", "--fork", "--kill-child", "--mount-proc")
        return (*own, "sh", "-c", script, "sh", *map(str, command))

    def start(self, host, *command, shell="true", **more):
        """Starts the first process of a host, or one more of host 0."""
        process = subprocess.Popen(self.within(host, *command, shell=shell), preexec_fn=world.die_with_parent, **more)
        if host:
            self.first[host] = process
        return process

    def fail(self, host):
        """Cuts the cable of a host and ends everything on it at once, as a loss of power does."""
        run("ip", "link", "set", f"port{host}", "down")
        self.first[host].kill()
        self.first.pop(host).wait()

    def mend(self, host):
        """Puts the cable back. The caller starts a first process again."""
        run("ip", "link", "set", f"port{host}", "up")

    def processes(self, host):
        return list(map(int, run("ip", "netns", "pids", self.names[host]).split()))

    def close(self):
        for process in self.first.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
