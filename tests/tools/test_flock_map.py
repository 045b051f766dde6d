"""`godwit map` on a flock: what it prints is what it prints on one machine, whoever is killed meanwhile."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import flock_members  # noqa: E402
import tap  # noqa: E402
from flock_members import GODWIT, PATIENCE  # noqa: E402


class Map(flock_members.Flock):
    def begin(self, name, *arguments, cwd=None, stdin=subprocess.DEVNULL):
        """Starts a map at a member."""
        process = subprocess.Popen([GODWIT, "map", "--flock", self.path(name), *arguments], stdin=stdin,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd or self.folder)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        """Waits for a map. Returns its exit code, output and errors."""
        output, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, output, errors

    def map(self, name, *arguments, cwd=None):
        return self.end(self.begin(name, *arguments, cwd=cwd))

    def children(self, *names):
        """The children of maps that run on nodes: process numbers."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").split("\0")
            except OSError:
                continue
            if "map" in words and any(word.startswith(f"--child={self.path(name)}/") for word in words for name in names):
                found.append(int(pid))
        return found

    def effects(self):
        """The tasks that have left a file, and how many attempts each."""
        count = {}
        for name in os.listdir(self.path("effects")):
            task = name.split(".")[0]
            count[task] = count.get(task, 0) + 1
        return count

    def test_it_prints_what_one_machine_prints(self):
        self.start("a", "b")
        for arguments in (["-k", "echo {2}-{1}; echo {#} >&2", ":::", "x y", "z", ":::", "1", "2"],
                          ["-k", "--tag", "exit {}", ":::", "0", "3", "0", "1"],
                          ["-k", "-n2", "echo", ":::", *map(str, range(7))],
                          ["-k", "--retries", "2", "test $GODWIT_ATTEMPT = 2 && echo {}", ":::", "p", "q"],
                          ["-k", "--timeout", "3s", "sleep {}; echo slept", ":::", "0", "60"]):
            there = self.map("a", *arguments)
            here = subprocess.run([GODWIT, "map", "--here", *arguments], capture_output=True, text=True, timeout=PATIENCE,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(there[:2], (here.returncode, here.stdout), f"{arguments}: {there[2]}{self.logs()}")
        summary = [json.loads(self.map("b", "--json", "echo {}", ":::", "1", "2")[1].splitlines()[-1])["result"]]
        here = subprocess.run([GODWIT, "map", "--here", "--json", "echo {}", ":::", "1", "2"], capture_output=True, text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual(summary, [json.loads(here.stdout.splitlines()[-1])["result"]])

    def test_outputs_logs_and_results_come_back(self):
        self.start("a", "b", "c")
        code, output, errors = self.map("b", "-k", "--joblog", "log", "--results", "out", "head -c {} /dev/zero | tr '\\0' x",
                                        ":::", "0", "3000000", "5")
        self.assertEqual((code, errors), (0, ""), self.logs())
        self.assertEqual(output, "x" * 3000005)
        with open(self.path("log")) as file:
            self.assertEqual(sorted(line.split("\t")[0] for line in file.readlines()[1:]), ["1", "2", "3"])
        self.assertTrue(os.path.isdir(self.path("out")))
        code, output, errors = self.map("b", "-k", "--joblog", "log", "--resume-failed", "echo {}", ":::", "0", "3000000", "5", "6")
        self.assertEqual((code, output), (0, "6\n"), errors)

    def test_a_program_travels_to_where_its_directory_is_not(self):
        self.start("a", "b")
        self.make("project/show.py", "import helper, sys\nprint(helper.VALUE, sys.argv[1])")
        self.make("project/helper.py", "VALUE = 'helped'")
        self.make("project/data.txt", "data\n")
        self.ask("drain", "a", "a")  # so that b runs it
        process = self.begin("a", "-k", "--name", "shown", "--files", "data.txt", sys.executable, "show.py", ":::", "1", "2",
                             cwd=self.path("project"), stdin=subprocess.DEVNULL)
        self.assertEqual(self.end(process)[:2], (0, "helped 1\nhelped 2\n"), self.logs())
        process = self.begin("a", "--detach", "--name", "later", "--files", "data.txt", "cat data.txt; pwd", ":::", "1",
                             cwd=self.path("project"))
        self.assertEqual(self.end(process)[0], 0, self.logs())
        self.assertEqual(self.wait_for("a", next(job["id"] for job in self.jobs("a") if job["name"] == "later"))["state"], "done")

    def test_killed_children_members_and_nodes_change_nothing(self):
        self.start("a", "b", "c")
        os.mkdir(self.path("effects"))
        process = self.begin("a", "-k", "sleep 0.05; touch effects/{}.$$; echo {}", ":::", *map(str, range(400)))
        self.wait_until(lambda: len(self.effects()) > 40, "the map does not begin")
        for pid in self.children("b"):
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: len(self.effects()) > 120, "it does not go on without a child")
        self.kill("c")  # the whole node
        for pid in self.children("c"):
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: len(self.effects()) > 200, "it does not go on without a node")
        self.kill("a")  # the member that the command in front asks, and whose child goes on
        self.start("a")
        self.start("c")  # what its tasks have written is on its disk
        code, output, errors = self.end(process)
        self.assertEqual((code, output), (0, "".join(f"{i}\n" for i in range(400))), errors + self.logs())
        effects = self.effects()
        self.assertEqual(len(effects), 400)
        self.assertLess(sum(effects.values()), 400 + 60, "only what was running or told to nobody is done twice")

    def test_the_command_in_front_ends_the_job_or_leaves_it(self):
        self.start("a", "b")
        os.mkdir(self.path("effects"))
        process = self.begin("a", "--name", "ended", "touch effects/{}.$$; sleep 60", ":::", "1", "2", "3", "4")
        self.wait_until(lambda: len(self.effects()) == 4, "the map does not begin")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process)[0], 130, self.logs())
        self.wait_until(lambda: not self.children("a", "b"), "children go on after Ctrl-C")
        self.assertEqual(next(job["state"] for job in self.jobs("b") if job["name"] == "ended"), "cancelled")
        process = self.begin("a", "--name", "left", "touch effects/{}.$$; while [ ! -e go ]; do sleep 0.05; done", ":::", "5", "6")
        self.wait_until(lambda: len(self.effects()) == 6, "the map does not begin")
        process.kill()
        process.wait()
        self.make("go")
        id = next(job["id"] for job in self.jobs("b") if job["name"] == "left")
        self.assertEqual(self.wait_for("b", id)["state"], "done", self.logs())

    def test_it_halts_everywhere(self):
        self.start("a", "b")
        code, _, errors = self.map("a", "--halt", "now,fail=1", "sleep {}; exit 7", ":::", "0.1", *["60"] * 7)
        self.assertEqual(code, 7, errors + self.logs())
        self.wait_until(lambda: not self.children("a", "b"), "children go on after the halt")

    def test_wrong_use_is_told(self):
        self.start("a")
        done = subprocess.run([GODWIT, "map", "--flock", self.path("nowhere"), "echo", ":::", "1"], capture_output=True, text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 255)
        self.assertIn("nowhere", done.stderr)
        code, _, errors = self.map("a", "--name", "../x", "echo", ":::", "1")
        self.assertEqual(code, 255)
        self.assertIn("--name", errors)
        code, _, errors = self.map("a", "--files", "/etc/passwd", "echo", ":::", "1")
        self.assertEqual(code, 255)
        self.assertIn("/etc/passwd is outside", errors)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
