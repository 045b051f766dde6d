"""Peers of this machine with --http, for the tests of their page."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

SOURCE = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BINARY = os.path.join(os.environ.get("GODWIT_BUILD", os.path.join(SOURCE, "build")), "godwit")
LIMIT_S = 300


def until(what, look, seconds=LIMIT_S):
    """Waits until look() is true, and returns that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = look()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come in {seconds} s")


class Peer:
    def __init__(self, folder, name, job, seed=None, options=()):
        self.folder, self.name, self.job, self.options = folder, name, job, options
        self.log = os.path.join(folder, f"{len(os.listdir(folder))}.log")
        self.port = self.http_port = None
        self.seed = seed
        self.start()

    def start(self):
        """Starts the peer, again at the ports that it had before."""
        directory = os.path.join(self.folder, re.sub(r"\W", "", self.name))
        self.begin = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        command = [BINARY, "run", *self.job, "--dir", directory, "--name", self.name, "--workers", "1",
                   "--listen", f"127.0.0.1:{self.port or 0}", "--http", f"127.0.0.1:{self.http_port or 0}",
                   "--probe-interval-ms", "50", *self.options]
        if self.seed is not None:
            command += ["--join", f"127.0.0.1:{self.seed.port}"]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.port = int(self.said(r"listening on 127\.0\.0\.1:(\d+)"))
        self.http_port = int(self.said(r"serving http on http://127\.0\.0\.1:(\d+)"))
        return self

    def text(self):
        with open(self.log) as file:
            file.seek(self.begin)
            return file.read()

    def said(self, pattern):
        def look():
            found = re.search(pattern, self.text())
            if found is None and self.process.poll() is not None:
                raise AssertionError(f"{self.name} has ended: {self.text()}")
            return found

        return until(pattern, look).group(1)

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.http_port}{path}"

    def ask(self, path):
        with urllib.request.urlopen(self.url(path), timeout=LIMIT_S) as answer:
            return json.load(answer)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def rss(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Flock:
    """Peers that are killed, and whose folder is removed, at the end."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="godwit-page-")
        self.peers = []

    def peer(self, name, job, options=()):
        self.peers.append(Peer(self.folder, name, job, self.peers[0] if self.peers else None, options))
        return self.peers[-1]

    def close(self):
        for peer in self.peers:
            if peer.process.poll() is None:
                peer.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
