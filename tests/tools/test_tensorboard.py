"""TensorBoard itself reads what peers write with --tensorboard: each step once, however the peers ended."""

import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "lab"))
sys.path.insert(0, str(TREE / "tools" / "lab"))
import flock  # noqa: E402
import readers  # noqa: E402
import tap  # noqa: E402

GODWIT = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build")) / "godwit"
SYNTHETIC = "synthetic --workers 1 --shards 4 --shard-ms 1 --state-bytes 64k --checkpoint-every 20 --keep 9".split()
DIGITS = "digits --workers 1 --epochs 2 --samples 2000 --quiet".split()
ANY_PORT = ["--listen", "127.0.0.1:0"]


def read(folder):
    command = [readers.program("python"), HERE / "read_events.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def steps_of(points):
    return [step for step, *_ in points]


class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.events = self.folder / "events"

    def expect_once(self, points, steps):
        self.assertEqual(steps_of(points), list(steps))

    def test_a_peer_that_is_killed_and_resumes_has_each_step_once_and_so_has_its_branch(self):
        job = [*SYNTHETIC, "--steps", "120"]
        metrics = ["--metrics", str(self.folder / "a.csv"), "--tensorboard", str(self.events)]
        with flock.Flock(GODWIT, job) as peers:
            peer = peers.add(metrics)
            for step in (30, 70):
                peers.wait_step(step, 60)
                peer.kill()
                peers.start(peer)
            peers.wait_ends([peer], 60)
            found = read(self.events)
            branch = [GODWIT, "run", *SYNTHETIC, "--steps", "100", "--dir", peer.directory, "--continue=@80", "--quiet"]
            subprocess.run([*branch, *ANY_PORT, "--tensorboard", self.events], check=True, timeout=60)
        self.expect_once(found["train/energy"], range(1, 121))
        with open(self.folder / "a.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        for (step, value), row in zip(found["train/energy"], rows, strict=True):
            self.assertEqual(step, int(row["step"]))
            self.assertAlmostEqual(value, float(row["energy"]), delta=1e-6 * abs(value))
        for tag in ("perf/step_seconds", "perf/members", "perf/shards_per_second"):
            self.expect_once(found[tag], range(1, 121))
        texts = found["configuration"]
        self.assertEqual(len(texts), 3, "one of each life")
        self.assertEqual({plugin for _, plugin, _ in texts}, {"text"})
        self.assertIn("| state-bytes | 65536 |", texts[0][2])
        branched = read(self.events)
        self.expect_once(branched["train/energy"], range(1, 101))
        step, _, text = branched["configuration"][-1]
        self.assertEqual(step, 81)
        self.assertRegex(text, r"\| goes on from \| step 80 of job [0-9a-f]{8} \|")

    def test_of_peers_that_share_a_folder_another_one_goes_on_when_the_writer_is_killed(self):
        job = [*SYNTHETIC, "--shards", "12", "--shard-ms", "4", "--steps", "400", "--probe-interval-ms", "50"]
        with flock.Flock(GODWIT, job) as peers:
            all_peers = peers.gather(3, ["--peers", "3", "--tensorboard", str(self.events)])
            peers.wait_step(30, 60)

            def files():
                return sorted(path.name for path in self.events.glob("*tfevents*"))

            killed = next(peer for peer in all_peers if f".{peer.id[:8]}." in files()[0])
            killed.kill()
            peers.wait(lambda: len(files()) == 2, 60, "another peer goes on", watch=peers.living())
            self.assertNotIn(f".{killed.id[:8]}.", files()[1])
            peers.start(killed)
            peers.wait_ends(all_peers, 120)
            self.assertEqual(len(files()), 2)
            self.expect_once(read(self.events)["train/energy"], range(1, 401))

    def test_evaluations_are_told_from_training(self):
        command = [GODWIT, "run", *DIGITS, *ANY_PORT, "--dir", self.folder / "d", "--tensorboard", self.events]
        subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
        found = read(self.events)
        self.assertIn("train/loss", found)
        self.assertIn("eval/test_loss", found)
        self.assertGreater(found["train/loss"][0][1], found["train/loss"][-1][1])
        self.assertFalse(set(steps_of(found["train/loss"])) & set(steps_of(found["eval/test_loss"])))
        self.ask_the_server(found)

    def ask_the_server(self, found):
        """TensorBoard's web server reads the files by another program, the data server, and shows the same."""
        command = [readers.program("tensorboard"), "--logdir", self.folder, "--port", "0", "--host", "127.0.0.1"]
        log = self.folder / "tensorboard.log"
        with open(log, "w") as file, subprocess.Popen(command, stderr=file, stdout=file) as server:
            try:
                port = self.port_of(server, log)

                def ask(path, tag):
                    query = urllib.parse.urlencode({"run": "events", "tag": tag})
                    url = f"http://127.0.0.1:{port}/data/plugin/{path}?{query}"
                    with urllib.request.urlopen(url, timeout=60) as answer:
                        return json.load(answer)

                for tag in ("train/loss", "eval/test_loss"):
                    points = [[step, value] for _, step, value in ask("scalars/scalars", tag)]
                    self.assertEqual(points, found[tag])
                (text,) = ask("text/text", "configuration")
                self.assertIn("<td>digits</td>", text["text"])
            finally:
                server.terminate()

    def port_of(self, server, log):
        while True:
            match = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
            if match:
                return match.group(1)
            self.assertIsNone(server.poll(), log.read_text())
            try:
                server.wait(0.1)
            except subprocess.TimeoutExpired:
                continue


class Troubles(unittest.TestCase):
    def test_what_is_no_folder_is_refused_before_anything_is_read(self):
        with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
            command = [GODWIT, "run", *SYNTHETIC, *ANY_PORT, "--dir", f"{folder}/d", "--tensorboard", file.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"--tensorboard: {file.name} is no folder", done.stderr)


if __name__ == "__main__":
    tap.main(readers.missing, "TensorBoard")
