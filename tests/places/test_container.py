"""The program as a container's entry: process 1 in a root folder that holds nothing but the program and its libraries,
with what an orchestrator takes away taken away."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
import unittest

import world

sys.path.insert(0, str(world.HERE.parent / "lab"))
import tap  # noqa: E402

NOBODY = 54321  # a user without an entry anywhere
WORK = ("synthetic", "--shards", "4", "--shard-ms", "10", "--workers", "1")


class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        world.enter()
        cls.root = world.pathlib.Path(cls.enterClassContext(world.tempfile.TemporaryDirectory()))
        cls.system = world.System(cls.root / "system")
        cls.key = cls.root / "key"
        world.call(world.BINARY, "keygen", cls.key)

    def setUp(self):
        self.data = world.scratch(self)
        os.chown(self.data, NOBODY, 0)
        self.data.chmod(0o770)
        self.pods = []
        self.addCleanup(lambda: [pod.kill() for pod in self.pods])

    def start(self, *command, number=11, mounts=None, **more):
        """Runs the program with nothing but a data folder. Its user is unknown."""
        mounts = {"/data": self.data, **(mounts or {})}
        self.pods.append(self.system.start(number, command, (NOBODY, 0), mounts, **more))
        return self.pods[-1]

    def alone(self, *options):
        """The state of an undisturbed peer outside of all containers."""
        shown = world.call(world.BINARY, "run", *WORK, *options, "--dir", world.scratch(self) / "a", "--listen",
                           "127.0.0.1:0", "--json")  # fmt: skip
        return json.loads(shown.splitlines()[-1])["state"]

    def wait_step(self, pod, after=0):
        pod.wait(lambda e: e["event"] == "step", "step", after)

    def wait_processes(self, pod, names):
        """Waits until the processes of the pod are these."""
        end = time.monotonic() + world.LIMIT_S
        while True:
            found = sorted(name for _, _, name, _ in pod.processes())
            if found == sorted(names):
                return
            self.assertLess(time.monotonic(), end, list(pod.processes()))
            time.sleep(0.01)

    def run_peer(self, *options, **more):
        return self.start("run", *WORK, "--dir", "/data", "--listen", "127.0.0.1:0", "--json", *options, **more)

    def test_a_peer_runs_without_anything_but_its_data_folder(self):
        pod = self.run_peer("--steps", "20", "--http", "8080")
        self.assertEqual(pod.end(), 0, pod.shown())
        self.assertEqual(pod.done()["state"], self.alone("--steps", "20"))
        self.assertIn("a file system in memory at /dev/shm", pod.text["err"].decode())
        (self.data / "lost+found").mkdir()  # as a new volume has it
        self.assertEqual([path.name for path in self.data.iterdir() if path.name == "godwit-data"], [])
        for path in self.data.iterdir():
            self.assertEqual(path.stat().st_uid, 0 if path.name == "lost+found" else NOBODY, path)

    def test_a_new_volume_with_lost_and_found_is_used_itself(self):
        (self.data / "lost+found").mkdir(mode=0o700)
        pod = self.run_peer("--steps", "2")
        self.assertEqual(pod.end(), 0, pod.shown())
        self.assertFalse((self.data / "godwit-data").exists())

    def test_sigterm_makes_the_peer_leave_with_a_checkpoint(self):
        pod = self.run_peer()
        self.wait_step(pod)
        pod.signal(signal.SIGTERM)
        self.assertEqual(pod.end(), 0, pod.shown())
        self.assertEqual(pod.done()["outcome"], "left", pod.shown())
        saved = [event["step"] for event in pod.events if event["event"] == "checkpoint"]
        pod.kill()
        again = self.run_peer()
        self.wait_step(again)
        self.assertEqual(next(event for event in again.events if event["event"] == "resumed")["step"], saved[-1])
        again.signal(signal.SIGHUP)  # there is no terminal that could have been closed
        again.wait_log("no terminal was closed, so this peer goes on")
        self.wait_step(again, after=len(again.events))

    def test_every_signal_ends_process_1_as_it_ends_another_process(self):
        """A command without handlers: what it asks takes connections and never answers."""
        with contextlib.closing(world.socket.create_server((world.NAMESERVER, 0))) as silent:
            port = silent.getsockname()[1]
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
                pod = self.start("inspect", "--from", f"{world.NAMESERVER}:{port}")
                client, _ = silent.accept()
                with client:
                    pod.signal(number)
                    self.assertEqual(pod.end(), 128 + number, pod.shown())
                pod.kill()

    def test_an_interrupt_from_a_terminal_makes_the_peer_leave(self):
        """As `docker run -it`: the terminal sends the signal to process 1 and to the peer itself."""
        process, terminal = pty.fork()
        if process == 0:
            command = (world.BINARY, "run", *WORK, "--dir", self.data / "a", "--listen", "127.0.0.1:0")
            os.execvp("unshare", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *map(str, command)])
        shown = b""
        with contextlib.suppress(OSError):  # the end of the last process that has the terminal
            while True:
                shown += os.read(terminal, 4096)
                if b"/s  1 peer" in shown:
                    os.write(terminal, b"\x03")
                    while True:
                        shown += os.read(terminal, 4096)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), 0, shown)
        self.assertIn(b"godwit: left", shown)

    def test_a_peer_dies_of_its_own_fault(self):
        pod = self.run_peer("--steps", "20", "--crash-shard", "3:1", shm="1m")
        self.assertEqual(pod.end(), 128 + signal.SIGSEGV, pod.shown())
        self.assertIsNone(pod.done())

    def test_a_shard_that_kills_its_peer_is_known_to_the_next_container_of_the_pod(self):
        """Kubernetes' emptyDir at /dev/shm lives as long as the pod, and its containers are started again in it."""
        memory = world.scratch(self)
        world.call("mount", "-t", "tmpfs", "-o", "mode=1777,size=1m", "none", memory)
        self.addCleanup(world.call, "umount", memory)
        for attempt in range(4):
            pod = self.run_peer("--steps", "20", "--crash-shard", "3:1", shm=memory)
            code = pod.end()
            self.assertEqual(code, 128 + signal.SIGSEGV if attempt < 3 else 1, pod.shown())
            pod.kill()
        self.assertRegex(pod.done()["text"], "shard 1")

    def test_who_kills_the_peer_itself_ends_the_container(self):
        pod = self.run_peer()
        self.wait_step(pod)
        peer = next(here for inner, here, _, _ in pod.processes() if inner != 1)
        os.kill(peer, signal.SIGKILL)
        self.assertEqual(pod.end(), 128 + signal.SIGKILL, pod.shown())

    def test_orphans_are_reaped(self):
        """As `kubectl exec` leaves them: their parents have ended before them."""
        pod = self.run_peer()
        self.wait_step(pod)
        self.wait_processes(pod, ["godwit", "godwit"])
        orphans = "for i in 1 2 3 4 5 6 7 8; do (sleep 0.05 &); done"
        world.call("nsenter", "--target", pod.pid, "--pid", "sh", "-c", orphans)
        self.wait_processes(pod, ["godwit", "godwit"])
        pod.signal(signal.SIGTERM)
        self.assertEqual(pod.end(), 0, pod.shown())

    def test_the_end_of_the_peer_ends_what_others_have_started_in_the_container(self):
        pod = self.run_peer()
        self.wait_step(pod)
        reading, writing = os.pipe()
        with open(reading, "rb") as until, open(writing, "wb") as held:
            inside = ("nsenter", "--target", str(pod.pid), "--pid")
            subprocess.run([*inside, "sh", "-c", "(sleep 1000 &)"], stdout=held, check=True)
            held.close()
            pod.signal(signal.SIGTERM)
            self.assertEqual(pod.end(), 0, pod.shown())
            self.assertEqual(until.read(), b"")  # nobody has the other end any more

    def test_a_secret_of_kubernetes_is_a_key(self):
        """A volume of a secret: links to a folder of root's, files 0440 of the group that fsGroup names."""
        secret = world.scratch(self)
        secret.chmod(0o755)
        (secret / "..2026").mkdir()
        key = secret / "..2026" / "cluster.key"
        shutil.copy(self.key, key)
        key.chmod(0o440)
        os.chown(key, 0, 3333)
        (secret / "..data").symlink_to("..2026")
        (secret / "cluster.key").symlink_to("..data/cluster.key")
        mounts = {"/key": secret}
        options = ("--steps", "2", "--key", "/key/cluster.key")
        pod = self.run_peer(*options, mounts=mounts, groups=[3333])
        self.assertEqual(pod.end(), 0, pod.shown())
        for path in self.data.rglob("*"):  # as fsGroup does at each start of a pod
            path.chmod(path.stat().st_mode | (0o2070 if path.is_dir() else 0o060))
        pod.kill()
        pod = self.run_peer("--fresh", *options, mounts=mounts, groups=[3333])
        self.assertEqual(pod.end(), 0, pod.shown())
        pod.kill()
        pod = self.run_peer("--fresh", *options, mounts=mounts)
        self.assertEqual(pod.end(), 2, pod.shown())
        self.assertRegex(pod.done()["text"], f"/key/cluster.key.*user {NOBODY}.*fsGroup")

    def test_containers_of_one_host_meet_by_tcp(self):
        """They have one kernel and no memory in common."""
        pods = []
        shutil.copy(self.key, self.data / "key")
        os.chown(self.data / "key", NOBODY, 0)
        for number in (11, 12):
            folder = self.data / str(number)
            folder.mkdir()
            os.chown(folder, NOBODY, 0)
            pods.append(self.start("run", *WORK, "--dir", f"/data/{number}", "--key", "/data/key", "--peers", "2", "--json",
                                   "--join", "10.77.0.11:7117,10.77.0.12:7117", "--steps", "60", number=number,
                                   shm="1m"))  # fmt: skip
        for pod in pods:
            self.assertEqual(pod.end(others=pods), 0, pod.shown())
            self.assertEqual(pod.done()["state"], self.alone("--steps", "60"))

    def test_a_small_memory_limit_is_heeded(self):
        with memory_group(100 << 20) as group:
            pod = self.run_peer("--steps", "2", "--state-bytes", "512m", control_group=group)
            self.assertEqual(pod.end(), 1, pod.shown())
            self.assertIn("memory", pod.done()["text"])
            pod.kill()
            pod = self.run_peer("--steps", "2", control_group=group)
            self.assertEqual(pod.end(), 0, pod.shown())

    def test_other_commands_run_as_well(self):
        pod = self.start("run", *WORK, "--dir", "/data/a", "--listen", "127.0.0.1:0", "--steps", "2")
        self.assertEqual(pod.end(), 0, pod.shown())
        pod.kill()
        for command in (("inspect", "/data/a"), ("keygen", "/data/key"), ("prune", "/data/a"), ("--version",),
                        ("export", "/data/a", "--to", "/data/x.safetensors")):  # fmt: skip
            pod = self.start(*command)
            self.assertEqual(pod.end(), 0, f"{command} {pod.shown()}")
            pod.kill()
        pod = self.start("export", "/data/a", "--to", "-")
        self.assertEqual(pod.end(), 1, pod.shown())
        self.assertIn("TMPDIR", pod.text["err"].decode())


@contextlib.contextmanager
def memory_group(limit):
    """A control group whose processes have so much memory; its path below the hierarchy."""
    old = world.pathlib.Path("/sys/fs/cgroup/memory")
    group = (old if old.is_dir() else old.parent) / f"godwit-places-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")).write_text(str(limit))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise unittest.SkipTest(f"no control group for memory: {error}") from error
    try:
        yield group
    finally:
        end = time.monotonic() + world.LIMIT_S
        while group.exists() and time.monotonic() < end:  # its last process may not be gone altogether
            with contextlib.suppress(OSError):
                group.rmdir()


if __name__ == "__main__":
    tap.main(world.missing, "containers")
