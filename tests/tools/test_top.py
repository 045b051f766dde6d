"""godwit top in a real terminal, by tmux: its screen at 80 x 24, its keys, a peer that ends, and what it leaves behind."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

BUILD = os.environ.get("GODWIT_BUILD", os.path.realpath(os.path.join(HERE, "..", "..", "build")))
GODWIT = os.path.join(BUILD, "godwit")


class Terminal:
    """A terminal of a server of tmux's own."""

    def __init__(self, folder, command, columns=80, rows=24):
        self.socket = os.path.join(folder, "tmux")
        shell = f"{command}; echo ended with $?; cat"
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        subprocess.run(
            ["tmux", "-f", "/dev/null", "-S", self.socket, "new-session", "-d", "-x", str(columns), "-y", str(rows), shell],
            check=True,
            env=environment,
        )

    def run(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], stdout=subprocess.PIPE, text=True).stdout

    def wait_for(self, pattern):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            screen = self.run("capture-pane", "-p")
            if re.search(pattern, screen):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"no {pattern} in\n{screen}")

    def press(self, *keys):
        self.run("send-keys", *keys)

    def close(self):
        self.run("kill-server")


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class Top(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.dir = os.path.join(self.folder, "d")
        self.peer = subprocess.Popen(
            [GODWIT, "run", "synthetic", "--steps", "1000000", "--shards", "4", "--shard-ms", "1", "--dir", self.dir]
            + ["--listen", "127.0.0.1:0", "--name", "node-x", "--json", "--workers", "1"],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.peer.kill)
        for line in self.peer.stdout:
            if json.loads(line)["event"] == "step":
                break

    def test_the_screen_its_keys_and_its_end(self):
        terminal = Terminal(self.folder, f"{GODWIT} top --dir {self.dir}")
        self.addCleanup(terminal.close)
        screen = terminal.wait_for("node-x")
        self.assertIn("godwit synthetic", screen)
        self.assertIn("PEER (1)", screen)
        self.assertTrue(all(len(line) <= 80 for line in screen.splitlines()))
        first = int(re.search(r"step (\d+)", screen).group(1))
        terminal.wait_for(rf"step (?!{first}/)\d+")  # it goes on by itself
        terminal.press("?")
        terminal.wait_for("KEYS")
        terminal.press("?", "Enter")
        terminal.wait_for("peer node-x")
        terminal.press("Escape")
        terminal.wait_for("PEER")
        terminal.press("e")
        terminal.wait_for("WHAT HAPPENED")
        terminal.press("e", "s")
        terminal.wait_for(r"SHARD/S\*")
        terminal.run("resize-window", "-x", "45", "-y", "12")
        terminal.wait_for("PEER")
        self.peer.terminate()
        self.peer.stdout.read()
        self.peer.wait(60)
        terminal.wait_for("! no peer runs")
        terminal.press("q")
        terminal.wait_for("ended with 0")

    def test_without_a_terminal_it_says_what_to_use(self):
        done = subprocess.run([GODWIT, "top", "--dir", self.dir], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--once", done.stderr)
        done = subprocess.run([GODWIT, "top", "--dir", self.dir, "--once"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("node-x", done.stdout)
        done = subprocess.run([GODWIT, "top", "--dir", self.folder + "/no"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)


if __name__ == "__main__":
    tap.main()
