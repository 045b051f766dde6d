"""`godwit why` and `godwit report` on a flock of which a peer was killed and another one stopped: both are told with
who, what and the cost, and the page is whole, also in a browser where there is one (chromium).
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(SOURCE, "tools", "lab")]
import tap  # noqa: E402
from flock import Flock  # noqa: E402

GODWIT = os.path.join(os.environ.get("GODWIT_BUILD", os.path.join(SOURCE, "build")), "godwit")
JOB = ["synthetic", "--shards", "12", "--shard-ms", "5", "--steps", "1000000", "--checkpoint-every", "2s"]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE_S = 300
STOPPED_S = 2.5  # longer than any pause that a busy machine makes of itself in the middle of a test, as a rule


def run(*words):
    return subprocess.run([GODWIT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


class Why(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.flock = cls.enterClassContext(Flock(GODWIT, JOB))
        cls.peers = cls.flock.gather(3, ["--peers", "3"])
        for peer in cls.peers:
            cls.wait_view(peer, 3)
        cls.flock.wait_step(20, PATIENCE_S)
        cls.hurt(*cls.peers)
        command = [GODWIT, "stop", "--no-wait", "--dir", cls.peers[0].directory]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        cls.flock.wait_ends(cls.peers, PATIENCE_S)
        cls.folders = [peer.directory for peer in cls.peers]

    @classmethod
    def wait_view(cls, peer, members):
        whole = lambda: peer.view and len(peer.view["members"]) == members  # noqa: E731
        cls.flock.wait(whole, PATIENCE_S, f"a view of {members}")

    @classmethod
    def hurt(cls, first, second, third):
        """Kills the third peer and starts it again, and stops the second one for a while."""
        third.kill()
        cls.wait_view(first, 2)
        cls.flock.start(third)
        cls.wait_view(first, 3)
        second.signal(signal.SIGSTOP)
        cls.wait_view(first, 2)
        time.sleep(STOPPED_S)  # how long it is stopped is what is measured
        second.signal(signal.SIGCONT)
        cls.wait_view(first, 3)
        cls.flock.wait_step(cls.flock.step() + 5, PATIENCE_S)

    def findings(self, *folders):
        told = run("why", "--json", *folders)
        self.assertEqual(told.returncode, 0, told.stderr)
        return json.loads(told.stdout)["findings"]

    def about(self, findings, kind, peer):
        return [one for one in findings if one["kind"] == kind and peer.id in [each["peer"] for each in one["peers"]]]

    def test_a_peer_that_was_killed_is_told(self):
        deaths = self.about(self.findings(*self.folders), "death", self.peers[2])
        self.assertEqual(len(deaths), 1)
        self.assertIn("killed without a word (SIGKILL)", deaths[0]["text"])
        self.assertIn("Seen by", deaths[0]["evidence"])
        self.assertGreater(deaths[0]["view_s"] + deaths[0]["lost_s"], 0)

    def test_a_peer_that_was_stopped_is_told_and_not_taken_for_dead(self):
        findings = self.findings(*self.folders)
        stalls = self.about(findings, "stall", self.peers[1])
        self.assertEqual(len(stalls), 1)
        self.assertGreater(stalls[0]["to"] - stalls[0]["from"], STOPPED_S - 0.5)
        for kind in ("death", "unreachable"):
            self.assertEqual(self.about(findings, kind, self.peers[1]), [])
        cuts = self.about(findings, "cut", self.peers[1])
        self.assertEqual([one for one in cuts if stalls[0]["from"] <= one["from"] <= stalls[0]["to"]], [])

    def test_one_directory_tells_what_the_peer_there_saw(self):
        findings = self.findings(self.folders[0])
        deaths = self.about(findings, "death", self.peers[2])
        self.assertEqual(len(deaths), 1)
        self.assertIn("was back after", deaths[0]["text"])

    def test_people_are_told_in_lines_that_fit(self):
        told = run("why", *self.folders)
        self.assertEqual(told.returncode, 0)
        self.assertLessEqual(max(map(len, told.stdout.splitlines())), 79)
        self.assertIn("To do: ", told.stdout)

    def test_what_is_over_is_left_out_where_it_is_asked_for(self):
        told = run("why", "--json", "--since", "0.001s", *self.folders)
        happened = [one for one in json.loads(told.stdout)["findings"] if not one["pattern"]]
        self.assertEqual(happened, [])

    def test_bad_command_lines_and_directories_are_named(self):
        for words, code, text in ((["--since", "soon"], 2, "is not a time"), (["--dir", "/nowhere"], 2, "/nowhere: No such file or directory; give the directory of a peer"),
                                  (["--dir", self.flock.folder], 1, "has no journal")):
            told = run("why", *words)
            self.assertEqual(told.returncode, code, told.stderr)
            self.assertIn(text, told.stderr)
        self.assertEqual(run("report").returncode, 2)

    def test_the_report_tells_programs_what_it_is_of(self):
        path = os.path.join(self.flock.folder, "told.html")
        told = json.loads(run("report", "--json", *self.folders, "-o", path).stdout)
        self.assertEqual((told["page"], told["bytes"], told["job"]), (path, os.path.getsize(path), "synthetic"))
        self.assertEqual(told["first_step"], 1)
        self.assertGreater(told["last_step"], 20)
        chosen = json.loads(run("why", "--json", "--job", told["job_id"][:6], *self.folders).stdout)
        self.assertEqual((chosen["job_id"], chosen["first_step"], chosen["other_jobs"]), (told["job_id"], 1, []))
        for command in (["why"], ["report", "-o", path]):
            refused = run(*command, "--job", "0" * 64, *self.folders)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"the journals tell of synthetic {told['job_id'][:8]}", refused.stderr)

    def page(self):
        path = os.path.join(self.flock.folder, "run.html")
        told = run("report", *self.folders, "-o", path)
        self.assertEqual(told.returncode, 0, told.stderr)
        return path

    def test_a_file_of_somebody_else_is_not_replaced(self):
        path = os.path.join(self.flock.folder, "thesis.html")
        with open(path, "w") as file:
            file.write("<h1>Four years of work</h1>")
        told = run("report", *self.folders, "-o", path)
        self.assertEqual(told.returncode, 1)
        self.assertIn(f"{path} exists and is none that this command wrote", told.stderr)
        with open(path) as file:
            self.assertEqual(file.read(), "<h1>Four years of work</h1>")
        for options in (["--force"], []):
            self.assertEqual(run("report", *self.folders, "-o", path, *options).returncode, 0, "then it is its own")

    def test_the_page_has_all_and_fetches_nothing(self):
        with open(self.page()) as file:
            page = file.read()
        self.assertLess(len(page), 200_000)
        for part in ("curves", "timeline", "happened", "suspicious", "peers", "energy", "end", "configuration"):
            self.assertIn(f'id="{part}"', page)
        self.assertIn("killed without a word", page)
        self.assertIn(self.peers[0].done["state"], page)
        self.assertGreaterEqual(page.count("<figure>"), 3)
        self.assertIsNone(re.search(r"(?i)<(script|link|img|iframe)|https?://|url\(", page))

    @unittest.skipIf(BROWSER is None, "there is no chromium")
    def test_a_browser_shows_the_page(self):
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.flock.folder}/browser"]
        command = [BROWSER, *options, "--window-size=400,900", "--dump-dom", f"file://{self.page()}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True, timeout=120)
        self.assertIn("What happened", done.stdout)
        self.assertIn("</svg>", done.stdout)
        self.assertNotIn("Content Security Policy", done.stderr)


if __name__ == "__main__":
    tap.main()
