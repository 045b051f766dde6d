"""A model from a flock on three hosts, to a fourth machine that reaches one of them alone and has no directory.

Each host is a network namespace. Three of them are joined by a bridge; the client's has a cable to the first one, and no
route to the others.
"""

import glob
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "chaos")]
import tap  # noqa: E402

import places  # noqa: E402  (it finds its modules by the path that tap has set)

BINARY = os.path.abspath(os.environ.get("GODWIT_BINARY", "build/godwit"))
LIMIT_S = 300
STEP = 2
HOSTS = [f"godwit-clients-{os.getpid()}-{number}" for number in range(3)]
CLIENT = f"godwit-clients-{os.getpid()}-c"
# Six chunks, of which each peer keeps some. A step takes long enough that few checkpoints are made.
JOB = f"run synthetic --state-bytes 24m --shards 24 --shard-ms 40 --workers 1 --checkpoint-every {STEP} --keep 20".split()


def ip(*words):
    subprocess.run(("ip", *words), check=True)


class Clients(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.peers = []
        self.addCleanup(self.end)
        for name in (*HOSTS, CLIENT):
            ip("netns", "add", name)
            self.addCleanup(places.run, "ip", "netns", "del", name, quiet=True)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", HOSTS[0], "link", "add", "br0", "type", "bridge")
        ip("-n", HOSTS[0], "addr", "add", "10.78.1.1/24", "dev", "br0")
        ip("-n", HOSTS[0], "link", "set", "br0", "up")
        for number in (1, 2):
            self.join(HOSTS[number], f"port{number}", f"10.78.1.{number + 1}/24")
            ip("-n", HOSTS[0], "link", "set", f"port{number}", "master", "br0")
        self.join(CLIENT, "client", "10.79.1.2/24")
        ip("-n", HOSTS[0], "addr", "add", "10.79.1.1/24", "dev", "client")
        self.key = self.path("key")
        self.godwit(None, "keygen", self.key)

    def join(self, name, port, address):
        """Lays a cable from the first host to another one."""
        ip("-n", HOSTS[0], "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", HOSTS[0], "link", "set", port, "up")
        ip("-n", name, "addr", "add", address, "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")

    def path(self, name):
        return os.path.join(self.folder, name)

    def godwit(self, host, *words):
        """Runs a command on a host; returns its exit code and what it says."""
        within = ("ip", "netns", "exec", host) if host else ()
        done = subprocess.run((*within, BINARY, *words), cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=LIMIT_S)
        return done.returncode, done.stdout + done.stderr

    def start(self, name, *options, host=None):
        within = ("ip", "netns", "exec", host) if host else ()
        with open(self.path(f"{name}.log"), "w") as log:
            peer = subprocess.Popen((*within, BINARY, *JOB, "--dir", self.path(name), *options), stdout=log, stderr=log)
        self.peers.append(peer)
        return peer

    def end(self):
        for peer in self.peers:
            peer.kill()
            peer.wait()

    def wait_saved(self, name):
        """Waits until the peer has the checkpoint of STEP."""
        end = time.monotonic() + LIMIT_S
        while not glob.glob(self.path(f"{name}/manifests/{STEP:08}-*.manifest")):
            with open(self.path(f"{name}.log")) as log:
                self.assertLess(time.monotonic(), end, f"{name} saves nothing: {log.read()}")
            time.sleep(0.05)

    def test_a_machine_that_reaches_one_host_gets_what_all_of_them_have(self):
        for number, host in enumerate(HOSTS):
            self.start(f"p{number}", "--key", self.key, "--peers", "3", "--replicas", "1", "--join", "10.78.1.1:7117",
                       host=host)
        for number in range(3):
            self.wait_saved(f"p{number}")
        place = ("--from", "10.79.1.1:7117", "--key", self.key)
        export = ("export", *place, "--tensors", "all", "--step", str(STEP), "--to", "client.safetensors")
        code, text = self.godwit(CLIENT, *export)
        self.assertEqual(code, 0, text)
        code, text = self.godwit(CLIENT, "inspect", *place)
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"chunks +6: 0 held, 6 held by others, 0 missing, 0 damaged")
        code, text = self.godwit(CLIENT, "inspect", "--from", "10.78.1.2:7117", "--key", self.key)
        self.assertEqual(code, 1)
        self.assertIn("10.78.1.2:7117: it cannot be reached (Network is unreachable)", text)

        self.start("alone")
        self.wait_saved("alone")
        code, text = self.godwit(None, "export", "alone", "--tensors", "all", "--step", str(STEP), "--to", "alone.safetensors")
        self.assertEqual(code, 0, text)
        with open(self.path("client.safetensors"), "rb") as got, open(self.path("alone.safetensors"), "rb") as expected:
            self.assertEqual(got.read(), expected.read(), "the bytes differ")

        self.peers[0].kill()
        self.peers[0].wait()
        code, text = self.godwit(CLIENT, *export[:-1], "late.safetensors")
        self.assertEqual(code, 1)
        self.assertIn("10.79.1.1:7117: nobody listens there", text)
        self.assertEqual(glob.glob(self.path("late*")), [])


def missing():
    if os.geteuid() != 0:
        return "namespaces need root"
    name = f"{CLIENT}-x"
    if not places.run("ip", "netns", "add", name, quiet=True):
        return "network namespaces cannot be made here"
    bridge = places.run("ip", "-n", name, "link", "add", "br0", "type", "bridge", quiet=True)
    places.run("ip", "netns", "del", name, quiet=True)
    return None if bridge else "the kernel has no bridges"


if __name__ == "__main__":
    tap.main(missing, "network namespaces")
