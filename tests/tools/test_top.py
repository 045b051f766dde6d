"""godwit top in a real terminal, by tmux: its screen at 80 x 24, its keys, a peer that ends, and what it leaves behind."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
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


class Front:
    """A directory with a control socket that passes requests on to that of a peer, or lets them wait."""

    def __init__(self, folder, behind):
        self.dir = os.path.join(folder, "front")
        os.mkdir(self.dir)
        self.behind = behind
        self.answers = threading.Event()
        self.answers.set()
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(os.path.join(self.dir, "control.sock"))
        self.listening.listen(64)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            with client, socket.socket(socket.AF_UNIX) as peer:
                self.answers.wait()
                try:
                    peer.connect(self.behind)
                    peer.sendall(client.recv(4096))
                    while data := peer.recv(65536):
                        client.sendall(data)
                except OSError:
                    pass  # The client has given up.

    def close(self):
        self.answers.set()
        self.listening.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listening.close()


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
        # The first picture is of what the peer has told by then, and may not be whole when it is captured.
        screen = terminal.wait_for(r"step \d+(?s:.*)node-x(?s:.*)q end")
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
        terminal.wait_for(r"! this peer has left at step \d+; the s")  # 45 columns: the same command goes on
        terminal.press("q")
        terminal.wait_for("ended with 0")

    def test_the_end_of_the_job_is_told_and_no_trouble(self):
        self.peer.kill()
        self.peer.stdout.read()
        self.peer.wait(60)
        peer = subprocess.Popen(
            [GODWIT, "run", "synthetic", "--steps", "40", "--shards", "4", "--peers", "2", "--dir", self.dir, "--fresh"]
            + ["--listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(peer.kill)
        port = next(json.loads(line)["port"] for line in peer.stdout if '"gossip"' in line)
        terminal = Terminal(self.folder, f"{GODWIT} top --dir {self.dir}")
        self.addCleanup(terminal.close)
        terminal.wait_for("waiting for 2 peers")
        other = [GODWIT, "run", "synthetic", "--steps", "40", "--shards", "4", "--peers", "2", "--dir", self.dir + "2"]
        subprocess.run([*other, "--listen", "127.0.0.1:0", "--join", f"127.0.0.1:{port}"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peer.stdout.read()
        peer.wait(60)
        terminal.wait_for(r"\n= the job is done: 40 steps\s*\n")
        terminal.press("q")
        terminal.wait_for("ended with 0")

    def test_a_peer_that_stops_leaves_the_picture_whole(self):
        terminal = Terminal(self.folder, f"{GODWIT} top --every 100 --dir {self.dir}")
        self.addCleanup(terminal.close)
        terminal.wait_for(r"step \d+(?s:.*)node-x(?s:.*)q end")
        os.kill(self.peer.pid, signal.SIGSTOP)
        try:
            screen = terminal.wait_for(r"! the peer's process \d+ is stopped: 'kill -CONT \d+' lets it go on")
            self.assert_whole(screen)
            terminal.press("?")  # Keys are obeyed while it waits.
            terminal.wait_for("KEYS")
            terminal.press("?")
            self.assert_whole(terminal.wait_for(r"PEER \(1\)"))
        finally:
            os.kill(self.peer.pid, signal.SIGCONT)
        self.assert_whole(terminal.wait_for(r"\n\+ computing"))
        terminal.press("q")
        terminal.wait_for("ended with 0")

    def test_a_busy_peer_and_other_programs_do_not_garble_the_picture(self):
        front = Front(self.folder, os.path.join(self.dir, "control.sock"))
        self.addCleanup(front.close)
        terminal = Terminal(self.folder, f"{GODWIT} top --every 100 --dir {front.dir}")
        self.addCleanup(terminal.close)
        terminal.wait_for(r"step \d+(?s:.*)node-x(?s:.*)q end")
        front.answers.clear()
        screen = terminal.wait_for(r"! the peer has not answered for [1-9] s")
        self.assert_whole(screen)
        self.assertNotIn("waiting for up to", screen)
        # Another program of this terminal writes, and Ctrl-L mends the picture.
        with open(terminal.run("display-message", "-p", "#{pane_tty}").strip(), "w") as tty:
            tty.write("\x1b[5;1Hsomething that does not belong here\r\n")
        terminal.wait_for("something that does not belong here")
        terminal.press("C-l")
        terminal.wait_for(r"\A(?!(?s:.*)something that does not belong here)(?s:.*)q end")
        front.answers.set()
        self.assert_whole(terminal.wait_for(r"\n\+ computing"))
        front.answers.clear()
        terminal.wait_for(r"! the peer has not answered for [1-9] s")
        terminal.press("q")  # which does not wait for the answer
        terminal.wait_for("ended with 0")

    def assert_whole(self, screen):
        """Each part is in its place, once."""
        lines = screen.splitlines()
        self.assertTrue(lines[0].startswith("godwit synthetic"), screen)
        self.assertRegex(lines[2], r"^step \d+/1000000", screen)
        self.assertEqual(screen.count("godwit synthetic"), 1, screen)
        self.assertEqual(screen.count("PEER (1)"), 1, screen)
        self.assertTrue(lines[23].startswith("q end"), screen)

    def test_without_a_terminal_it_says_what_to_use(self):
        done = subprocess.run([GODWIT, "top", "--dir", self.dir], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--once", done.stderr)
        done = subprocess.run([GODWIT, "top", "--dir", self.dir, "--once"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("node-x", done.stdout)
        self.assertEqual(self.width_of_once({}), 80)
        self.assertEqual(self.width_of_once({"COLUMNS": "120"}), 120)
        self.assertEqual(self.width_of_once({"COLUMNS": "wide"}), 80)
        done = subprocess.run([GODWIT, "top", "--dir", self.folder + "/no"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)


    def width_of_once(self, variables):
        """The width of the curve, which takes all that there is, once the peer has made enough steps."""
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        command = [GODWIT, "top", "--dir", self.dir, "--once"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**environment, "LC_ALL": "C.UTF-8", **variables})
        return max(map(len, done.stdout.splitlines()))


if __name__ == "__main__":
    tap.main()
