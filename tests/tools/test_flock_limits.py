"""What children of a standing flock get of their node, and no more: memory, processors, an end; and which build of the program
runs them. Where this machine lets its user make control groups the kernel enforces it, else the member does."""

import json
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_flock import GODWIT, STEPS, Case, folder_for  # noqa: E402

import tap  # noqa: E402
from members import Members, below, read, send  # noqa: E402

FILL = "b = bytearray({} << 20); b[::4096] = bytes(len(b[::4096])); print('full', flush=True); import time; time.sleep({})"
QUICK = [*STEPS, "--shard-ms", "1", "--steps", "3"]
PROCESSORS = len(os.sched_getaffinity(0))


def fill(mib, seconds=1000):
    """A command that takes so much memory."""
    return ["python3", "-c", FILL.format(mib, seconds)]


class Limits(Case):
    def test_a_job_that_has_more_memory_than_it_asked_for_fails_and_everybody_is_told_why(self):
        flock = self.flock(2)
        done = flock[0].run("submit", "--wait", "--memory", "64M", "--name", "big", "--retries", "1", "--", *fill(200))
        self.assertEqual((done.returncode, done.stderr), (1, "big: failed: out of memory: asked 64 MiB\n"))
        for member in flock:
            member.wait("big", code=1)
            rounds = member.job("big")["rounds"]
            self.assertEqual([(one["code"], one["out_of_memory"]) for one in rounds], [(137, True)] * 2)
            self.assertIn("state       failed: out of memory: asked 64 MiB\n", member.do("info", "big"))
            self.assertRegex(member.do("queue", "--all"), r"big +failed .* out of memory: asked 64 MiB")
        out = os.path.join(flock.folder, "out")
        self.assertIn("big: failed: out of memory: asked 64 MiB\n", flock[1].do("results", "big", "-o", out))
        self.until("the log tells it", lambda: any(
            "big: its child here has ended: out of memory: asked 64 MiB" in member.last_words() for member in flock))
        # One that keeps to it, and one that goes on without the process that did not.
        flock[0].do("submit", "--wait", "--memory", "200", "--", *fill(50, 1))
        words = " ".join(f"'{word}'" if " " in word else word for word in fill(200)).replace("'full'", '"full"')
        flock[0].do("submit", "--wait", "--memory", "64", "--", "sh", "-c", f"{words}; [ $? = 137 ]")

    def test_each_child_has_processors_of_its_own(self):
        if PROCESSORS < 2:
            self.skipTest("there is one processor")
        flock = self.flock(1)
        script = "nproc; grep Cpus_allowed_list /proc/self/status; while [ ! -e over ]; do sleep 0.05; done"
        jobs = [flock[0].submit("--name", f"j{i}", "--", "sh", "-c", script) for i in range(PROCESSORS)]
        for job in jobs:
            self.until("it has written", lambda: flock[0].logs(job).count("\n") == 2)
        told = [flock[0].logs(job).split() for job in jobs]
        self.assertEqual([one[0] for one in told], ["1"] * PROCESSORS)
        self.assertEqual(len({one[2] for one in told}), PROCESSORS, told)
        with open(os.path.join(flock.folder, "over"), "w"):
            pass
        flock[0].wait(*jobs)
        all_of_it = flock[0].submit("--cores", str(PROCESSORS), "--", "nproc")
        flock[0].wait(all_of_it)
        self.assertEqual(flock[0].logs(all_of_it), f"{PROCESSORS}\n")

    def test_a_map_gives_way_to_others_and_takes_what_is_idle(self):
        if PROCESSORS < 2:
            self.skipTest("there is one processor")
        flock = self.flock(1)
        script = "until [ -e enough ]; do nproc > seen.$$; mv seen.$$ seen; sleep 0.05; done; : {}"
        mark = next(iter(flock.mark))
        line = [GODWIT, "map", "--flock", flock[0].directory, "--env", mark, "--detach", script, ":::", "1"]
        done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=flock.folder,
                              env={**os.environ, **flock.mark})
        job = done.stdout.split()[1]

        def seen(count):
            self.until(f"it has {count}", lambda: self.lines(flock.folder, "seen") == [str(count)])
        seen(PROCESSORS)
        other = flock[0].submit("--", "sh", "-c", "until [ -e enough ]; do sleep 0.05; done")
        seen(PROCESSORS - 1)
        flock[0].do("cancel", other)
        seen(PROCESSORS)
        with open(os.path.join(flock.folder, "enough"), "w"):
            pass
        flock[0].wait(job)

    def test_more_cores_than_there_are_processors_are_not_dealt_out(self):
        flock = self.flock(1, ["--cores", str(PROCESSORS + 1)])
        job = flock[0].submit("--", "nproc")
        flock[0].wait(job)
        self.assertEqual(flock[0].logs(job), f"{PROCESSORS}\n")
        flock[0].await_line("--cores is more than the processors")

    def test_nodes_and_the_log_tell_who_enforces_it(self):
        flock = self.flock(2)
        nodes = json.loads(flock[0].do("nodes", "--json"))["nodes"]
        self.assertEqual(len(nodes), 2)
        kernel = "memory" in nodes[0]["limits"]
        self.assertEqual([node["limits"] for node in nodes], [nodes[0]["limits"]] * 2)
        self.assertEqual(flock[1].do("nodes").count("kernel" if kernel else "watched"), 2)
        flock[0].await_line("which the kernel enforces" if kernel else "which is watched five times a second")

    def test_what_a_child_has_started_ends_with_it_though_it_hides(self):
        """It has left its process group and its environment, and its keeper is killed: only its control group has it."""
        flock = self.flock(1)
        hides = "setsid env -i sh -c 'trap \"\" TERM HUP; echo $$ > hidden; exec sleep 1000' & echo; sleep 1000"
        job = flock[0].submit("--", "sh", "-c", hides)
        [hidden] = self.until("it has started", lambda: self.lines(flock.folder, "hidden"))
        if not any(b"/godwit-" in line for line in read(hidden, "cgroup")):
            self.addCleanup(os.kill, int(hidden), signal.SIGKILL)
            self.skipTest("no control groups can be made here")
        send([pid for pid, kept in flock[0].keepers().items() if kept == job], signal.SIGKILL)
        self.until("it has ended", lambda: not below([int(hidden)]))
        flock[0].do("cancel", job)


class Builds(Case):
    def test_a_job_goes_on_under_the_build_that_it_began_under(self):
        folder = folder_for(self)
        program = os.path.join(folder, "godwit")
        shutil.copy(GODWIT, program)
        flock = Members(folder_for(self), 1, program)
        self.addCleanup(flock.close)
        flock.start()
        job = flock[0].submit("--hold", *QUICK)
        build = flock[0].job(job)["build"]
        # Another build: the same program in a file with other bytes, put in its place as an upgrade does.
        upgrade = program + ".new"
        shutil.copy(GODWIT, upgrade)
        with open(upgrade, "ab") as file:
            file.write(b"another build")
        os.replace(upgrade, program)
        flock[0].kill()
        flock[0].start()
        flock.until_ready()
        [node] = json.loads(flock[0].do("nodes", "--json"))["nodes"]
        self.assertNotEqual(node["build"], build)
        flock[0].do("release", job)
        flock[0].wait(job)
        self.assertIn(f"build       {build}\n", flock[0].do("info", job))
        # Nobody has the program any more.
        left = flock[0].submit("--hold", *QUICK)
        lost = flock[0].job(left)["build"]
        shutil.copy(GODWIT, upgrade)
        os.replace(upgrade, program)
        flock[0].do("down")
        flock[0].end()
        os.remove(os.path.join(flock[0].directory, "bin", f"godwit-{lost}"))
        flock[0].start()
        flock.until_ready()
        flock[0].do("release", left)
        self.until("it says so", lambda: "a build that no node has" in flock[0].do("info", left))
        flock[0].do("cancel", left)
        again = flock[0].do("retry", left).split()[1]
        flock[0].wait(again)
        self.assertEqual(flock[0].job(again)["build"], build)
        # One node of two has it.
        newer = os.path.join(folder, "newer")
        shutil.copy(GODWIT, newer)
        with open(newer, "ab") as file:
            file.write(b"another build")
        other = Members(folder_for(self), 1, newer)
        self.addCleanup(other.close)
        other[0].start([flock[0]])
        both = flock[0].submit("--nodes", "2", *QUICK)
        self.until("it says why it waits", lambda: "needs 2 nodes, and 1 here can have it: 1 has another build of Godwit\n" in
                   flock[0].do("info", both))
        flock[0].do("cancel", both)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
