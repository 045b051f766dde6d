"""Members of a standing flock as processes on loopback, each with a directory of its own, for the suites test_flock_*.py."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))

BUILD = os.environ.get("GODWIT_BUILD", os.path.realpath(os.path.join(HERE, "..", "..", "build")))
GODWIT = os.path.join(BUILD, "godwit")
PATIENCE = 60


class Flock(unittest.TestCase):
    """Each test has a folder, in which member NAME has the directory NAME."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="flock", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.members = {}
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.end_all)
        self.seed = None

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def make(self, name, content=""):
        """Makes a file, and the folders above it; returns its path."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb" if isinstance(content, bytes) else "w") as file:
            file.write(content)
        return path

    def start(self, *names, options=()):
        """Starts members, and returns when each knows that all of them are ready."""
        for name in names:
            join = ["--join", self.seed] if self.seed else []
            said = open(self.path(name + ".log"), "ab")
            self.members[name] = subprocess.Popen(
                [GODWIT, "up", "--dir", self.path(name), "--listen", "127.0.0.1:0", "--name", name, "--cores", "4",
                 "--memory", "4096", "--grace", "5s", "--as-root", *join, *options],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            said.close()
            if not self.seed:
                self.wait_until(lambda: self.nodes(name), f"{name} does not start")
                self.seed = self.nodes(name)[0]["address"]
        for name in names:
            self.wait_until(lambda: sum(node["state"] == "ready" for node in self.nodes(name)) == len(self.members),
                            f"{name} does not find the others")

    def kill(self, name):
        """Kills a member. Its children go on."""
        process = self.members.pop(name)
        process.kill()
        process.wait()

    def end_all(self):
        for name in self.members:
            self.ask("down", name, check=False)
        for name, process in self.members.items():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ask(self, command, name, *arguments, check=True, cwd=None):
        """Runs a command at a member. Returns it when it has ended."""
        done = subprocess.run([GODWIT, command, "--dir", self.path(name), *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, text=True,
                              cwd=cwd or self.folder)
        if check:
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}{self.logs()}")
        return done

    def door(self, name, request, more=b""):
        """Sends a line and bytes to a member's door as they are. Returns its answer, None where it hangs up."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.settimeout(PATIENCE)
            door.connect(self.path(name, "flock.sock"))
            door.sendall(json.dumps(request).encode() + b"\n" + more)
            with door.makefile("rb") as answers:
                try:
                    line = answers.readline()
                except ConnectionResetError:
                    line = b""
        return json.loads(line) if line else None

    def nodes(self, name):
        done = self.ask("nodes", name, "--json", check=False)
        return json.loads(done.stdout)["nodes"] if done.returncode == 0 else []

    def jobs(self, name):
        return json.loads(self.ask("queue", name, "--all", "--json").stdout)["jobs"]

    def job(self, name, id):
        return next((job for job in self.jobs(name) if job["id"] == id), None)

    def submit(self, name, *arguments, cwd=None):
        """Submits a job. Returns its id."""
        return json.loads(self.ask("submit", name, "--json", *arguments, cwd=cwd).stdout)["id"]

    def wait_until(self, true, what):
        end = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), end, what + self.logs())
            time.sleep(0.02)

    def wait_for(self, name, id):
        """Waits until a job is over, and returns it."""
        self.ask("wait", name, id, check=False)
        return self.job(name, id)

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log"):
                with open(self.path(name), errors="replace") as file:
                    text += f"\n--- {name}\n" + file.read()[-4000:]
        return text
