"""Chaos with a queue (tools/chaos/queue_chaos.py) for a short while, and what its judgement rests on."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
CHAOS = os.path.join(HERE, "..", "..", "tools", "chaos")
sys.path[:0] = [os.path.join(HERE, "..", "lab"), CHAOS]
import queue_chaos  # noqa: E402
import queue_faults  # noqa: E402
import queue_jobs  # noqa: E402
import queue_why  # noqa: E402
import tap  # noqa: E402

BINARY = os.path.realpath(os.environ.get("GODWIT_BINARY", "build/godwit"))


class Short(unittest.TestCase):
    def test_jobs_end_as_in_a_quiet_run_whatever_is_done_to_members(self):
        here = ["--here"] if queue_chaos.places.missing() else []
        done = subprocess.run([sys.executable, os.path.join(CHAOS, "queue_chaos.py"), "--binary", BINARY, "--seed", "12",
                               "--minutes", "0.15", "--jobs", "8", "--members", "3", "--every", "0.8", *here],
                              capture_output=True, text=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("chaos: passed", done.stdout)


class Judgement(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.said = "begin\nend\n"
        asked = types.SimpleNamespace(logs=lambda id: self.said)
        self.run_of = types.SimpleNamespace(effects=folder.name, rng=random.Random(1), asked=lambda: asked,
                                            alone=lambda steps: "ab" * 32, flock=types.SimpleNamespace(list=[1, 2]))

    def job(self, kind, lives=1):
        job = kind(self.run_of, 1)
        with open(job.effects, "w") as file:
            file.write("effect\n" * lives)
        return job

    def test_a_command_has_its_effect_and_is_recorded_once(self):
        good = {"state": "done", "ends": [{}], "rounds": []}
        self.assertIsNone(self.job(queue_jobs.Command).wrong(good))
        self.assertIsNone(self.job(queue_jobs.Command, lives=2).wrong(good))
        self.assertIn("no effect", self.job(queue_jobs.Command, lives=0).wrong(good))
        self.assertIn("failed, not done", self.job(queue_jobs.Command).wrong({**good, "state": "failed"}))
        self.assertIn("2 ends", self.job(queue_jobs.Command).wrong({**good, "ends": [{}, {}]}))
        self.said = "begin\nbegin\nend\n"
        self.assertIsNone(self.job(queue_jobs.Command).wrong(good))
        self.said = "begin\n"
        self.assertIn("its output", self.job(queue_jobs.Command).wrong(good))

    def test_failures_are_those_of_a_quiet_run(self):
        def failed(*codes):
            return {"state": "failed", "ends": [], "rounds": [{"code": code} for code in codes]}
        self.assertIsNone(self.job(queue_jobs.Failing).wrong(failed(3, 3)))
        self.assertIn("[3]", self.job(queue_jobs.Failing).wrong(failed(3)))
        self.assertIn("[3, 137]", self.job(queue_jobs.Failing).wrong(failed(3, 137)))
        done = {"state": "done", "ends": [{}], "rounds": [{"code": 1}]}
        self.assertIsNone(self.job(queue_jobs.Mended).wrong(done))
        self.assertIn("[]", self.job(queue_jobs.Mended).wrong({**done, "rounds": []}))

    def test_a_job_of_steps_has_the_bytes_of_one_peer(self):
        job = self.job(queue_jobs.Steps)
        self.assertIsNone(job.wrong({"state": "done", "ends": [{"hash": "ab" * 32}]}))
        self.assertIn("its result", job.wrong({"state": "done", "ends": [{"hash": "cd" * 32}]}))
        self.assertIn("its result", job.wrong({"state": "done", "ends": [{"hash": "ab" * 32}, {"hash": "cd" * 32}]}))


class Known:
    """A member that knows something of jobs, and has written lines."""

    def __init__(self, name, known, folder, lines=()):
        self.name, self.known, self.history = name, known, list(lines)
        self.directory = os.path.join(folder, name)

    def do(self, command, *arguments, seconds):
        return self.known if command == "info" else "it began\n"


class Explanation(unittest.TestCase):
    def test_of_a_wrong_job_the_output_has_what_members_know_and_wrote(self):
        with tempfile.TemporaryDirectory() as folder:
            members = [Known("n1", '{"state": "done"}', folder, ["n2 is here", "map-1 starts here", "map-12 starts here"]),
                       Known("n2", '{"state": "waiting"}', folder), Known("n3", '{"state":"done"}', folder)]
            flock = type("Flock", (list,), {"running": lambda self: list(self)})(members)
            run = types.SimpleNamespace(flock=flock, effects=folder, asked=lambda: members[0])
            job, other = queue_jobs.Map(run, 1), queue_jobs.Map(run, 12)
            job.id, other.id = "ab" * 16, "cd" * 16
            run.jobs = [job, other]
            os.makedirs(os.path.join(folder, "n2", "jobs", job.id))
            for path, text in ((os.path.join(folder, "n2", "jobs", job.id, "rows"), "12345"), (job.effects + ".err", "trouble")):
                with open(path, "w") as file:
                    file.write(text)
            told = queue_why.explain(run, job)
        for text in ('n1, n3: info --json\n    {"state": "done"}', 'n2: info --json\n    {"state": "waiting"}', "rows (5)",
                     "n1: why\n    it began", "n2 is here\n    map-1 starts here", "trouble"):
            self.assertIn(text, told)
        self.assertNotIn("map-12", told)


class Faults(unittest.TestCase):
    def test_a_way_is_open_again_when_no_fault_cuts_it_any_more(self):
        told = []

        class Here:
            home = types.SimpleNamespace(deafen=lambda other, on: told.append(on))

        a = Here()
        run = queue_chaos.Run.__new__(queue_chaos.Run)
        run.cuts = queue_chaos.collections.Counter()
        for on in (True, True, False, False, True, False):
            run.cut((a, a), on)
        self.assertEqual(told, [True, False, True, False])

    def test_no_process_of_a_child_sees_the_end_of_another(self):
        told = []
        job = types.SimpleNamespace(id="7", name="map-1", hurt=0)
        found = [{3, 4}, {3, 4, 5}]  # one is started before it is seen that its parent stands still
        member = types.SimpleNamespace(name="n1", keepers=lambda: {2: "7"}, children=lambda job: found.pop(0))
        run = types.SimpleNamespace(rng=random.Random(1), free=lambda: [member, member], jobs=[job])
        with unittest.mock.patch.object(queue_faults, "send", lambda pids, number: told.append((set(pids), number))):
            self.assertEqual(queue_faults.Child(run).begin(), "3 processes of map-1 on n1 are killed")
        self.assertEqual(told, [({3, 4}, signal.SIGSTOP), ({3, 4, 5}, signal.SIGKILL)])

    def test_one_member_is_left_alone(self):
        for free, expected in ((["a", "b"], True), (["a"], False), ([], False)):
            run = types.SimpleNamespace(rng=random.Random(1), free=lambda free=free: free)
            self.assertEqual(queue_faults.Kill(run).victim() is not None, expected)


if __name__ == "__main__":
    tap.main(lambda: None, "chaos")
