"""What is to be had of jobs that are over: godwit results fetches output, files and checkpoints from the node that has them,
forget removes them, and of a sweep retry tries again what has failed."""

import contextlib
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_flock import GODWIT, PATIENCE, STEPS, Case, tap  # noqa: E402
from test_flock_files import hand  # noqa: E402


class Results(Case):
    def test_files_come_from_the_node_that_has_them(self):
        a, b = flock = self.flock(2)
        films = os.path.join(flock.folder, "films")
        a.do("drain", a.name)
        script = ("mkdir -p deep/er; printf '%s' one > deep/er/one; head -c 3000000 /dev/zero > big; : > empty; "
                  "chmod +x empty; ln -s /etc/passwd link; ln -s /etc away; mkfifo pipe; echo said; echo wrong >&2")
        os.mkdir(os.path.join(flock.folder, "gone"))
        job = a.submit("--hold", "--name", "films", "--", "sh", "-c", script, cwd=os.path.join(flock.folder, "gone"))
        os.remove(os.path.join(flock.folder, "gone", ".godwit-token"))  # so that the job has a directory of its own
        a.do("release", job)
        a.wait(job)
        a.do("results", "films")
        found = {}
        for folder, _, names in os.walk(films):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.relpath(file.name, films)] = file.read()
        self.assertEqual(found, {"out": b"said\n", "err": b"wrong\n", "work/deep/er/one": b"one", "work/big": bytes(3000000),
                                 "work/empty": b""})
        self.assertTrue(os.access(os.path.join(films, "work", "empty"), os.X_OK))
        done = a.run("results", "films")
        self.assertEqual((done.returncode, "is not empty" in done.stderr), (2, True), done.stderr)
        told = json.loads(b.do("results", "films", "--json", "-o", films + "-again", "--node", b.name))
        self.assertEqual((len(told["files"]), told["folder"]), (5, films + "-again"))
        node = next(end["node"] for end in a.job(job)["ends"])
        for path, said in [("state/identity", "no result"), ("work/../key", "no result"), ("work/link", "is a link"),
                           ("work/away/passwd", "leads through one"), ("work/pipe", "neither a file")]:
            for member in flock:
                answer = hand(member, {"do": "result", "job": job, "node": node, "path": path, "offset": 0})
                self.assertIn(said, answer["error"], path)
        done = a.run("results", "nothing")
        self.assertEqual((done.returncode, "there is no job" in done.stderr), (2, True), done.stderr)
        # What is forgotten is gone, and not what links in it lead to.
        b.do("forget", "--before", "2100-01-01")
        self.until("the folder is removed", lambda: not os.path.exists(os.path.join(b.directory, "jobs", job)))
        self.assertTrue(os.path.exists("/etc/passwd"))

    def test_a_checkpoint_comes_from_any_node(self):
        a, _ = flock = self.flock(2)
        a.do("drain", a.name)
        job = a.submit("--name", "noise", *STEPS, "--state-bytes", "9m", "--steps", "20", "--shards", "2", "--shard-ms", "0")
        a.wait(job)
        with contextlib.ExitStack() as doors:  # several want it at once, while a copy may be on its way to this member anyway
            asking = [doors.enter_context(a.knock()) for _ in range(3)]
            for door in asking:
                door.sendall(json.dumps({"do": "bring", "job": job}).encode() + b"\n")
            answers = [json.loads(doors.enter_context(door.makefile("rb")).readline()) for door in asking]
        self.assertEqual([answer.get("step", answer) for answer in answers], [20] * 3)
        told = json.loads(a.do("results", "noise", "--json"))
        self.assertEqual(told["step"], 20)
        shown = subprocess.run([GODWIT, "inspect", os.path.join(flock.folder, "noise", "state")], capture_output=True,
                               text=True, timeout=PATIENCE)
        self.assertIn(a.job(job)["ends"][0]["hash"], shown.stdout, shown.stderr)

    def test_of_a_sweep_what_failed_is_tried_again(self):
        flock = self.flock(1)
        [a] = flock
        script = "test $0 = 1 || test -e good || exit 3"
        a.do("submit", "--name", "swept", "--sweep", "n=1,2,3", "--", "sh", "-c", script, "{n}")
        a.do("submit", "--name", "other", "--", "false")
        for name, code in [("swept-1", 0), ("swept-2", 1), ("swept-3", 1), ("other", 1)]:
            a.wait(name, code=code)
        states = lambda: sorted((job["name"], job["state"]) for job in a.jobs().values())  # noqa: E731
        before = [("other", "failed"), ("swept-1", "done"), ("swept-2", "failed"), ("swept-3", "failed")]
        self.assertEqual(states(), before)
        self.assertEqual(len(a.do("retry", "--failed", "--wait", "swept", code=1).splitlines()), 2)
        with open(os.path.join(flock.folder, "good"), "w"):
            pass
        # Those that were tried again are tried once more, and no others.
        self.assertEqual(len(a.do("retry", "--failed", "--wait", "swept-3").splitlines()), 2)
        self.assertEqual(states(), sorted(before + [("swept-2", "failed"), ("swept-3", "failed"), ("swept-2", "done"),
                                                    ("swept-3", "done")]))
        for name, code, said in [("swept", 1, "has failed"), ("nobody", 2, "there is no job")]:
            done = a.run("retry", "--failed", name)
            self.assertEqual((done.returncode, said in done.stderr), (code, True), done.stderr)

    def test_of_a_map_what_failed_is_tried_again(self):
        flock = self.flock(2)
        a, b = flock
        ran = os.path.join(flock.folder, "ran")
        words = [GODWIT, "map", "--flock", a.directory, "--env", next(iter(flock.mark)), "--detach", "--name", "films",
                 f"echo {{}} >> {ran}; echo out {{}}; test {{}} -lt 7 || test -e good", ":::", *map(str, range(10))]
        subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE, cwd=flock.folder,
                       env={"PATH": os.environ["PATH"], "HOME": flock.folder, **flock.mark})
        a.wait("films", code=1)
        self.assertEqual(sorted(self.lines(ran)), [str(i) for i in range(10)])
        with open(os.path.join(flock.folder, "good"), "w"):
            pass
        b.do("retry", "--wait", "films")
        self.assertEqual(sorted(self.lines(ran)[10:]), ["7", "8", "9"])
        b.do("results", "-o", os.path.join(flock.folder, "left"), "films")
        self.assertEqual(self.lines(flock.folder, "left", "out"), [f"out {i}" for i in range(10)], "of both jobs")


if __name__ == "__main__":
    tap.main(missing=lambda: None)
