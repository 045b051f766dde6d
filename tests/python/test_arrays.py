"""Programs of NumPy's arrays: the same bytes whatever dies, and what a faulty program is told."""

import json
import os
import re
import subprocess
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
sys.path.insert(0, peers.MODULE)
import tap  # noqa: E402
from godwit.job import ShardContext  # noqa: E402

PLAIN = os.path.join(peers.PROGRAMS, "plain.py")
PROBED = os.path.join(peers.PROGRAMS, "probed.py")
LOGISTIC = os.path.join(peers.EXAMPLES, "logistic.py")
KMEANS = os.path.join(peers.EXAMPLES, "kmeans.py")


class SameBytes(peers.Case):
    def test_a_program_has_one_state_alone_with_workers_and_peers_that_die_and_when_it_resumes(self):
        alone = self.alone(PLAIN)
        state = peers.state_of(alone)
        self.assertIn("finished 8 480 3 ['size', 'val_size']", alone)
        log = os.path.join(self.folder, "log")
        self.assertEqual(self.state("two", PLAIN, (), ("--workers", "2"), GODWIT_TEST_LOG=log), state)
        with open(log) as file:
            lines = file.read().splitlines()
        self.assertEqual((lines.count("top"), lines.count("behind")), (1, 1), "a fork writes what its template has not")
        steps = [f"after {step}" for step in range(11)]
        self.assertEqual([line for line in lines if line.startswith("after")], steps)
        self.assertGreaterEqual(lines.count("shard"), 8 * 6 + 2 * 2, "a worker that leaves loses what its shards have written")
        marks = os.path.join(self.folder, "marks")
        places = ["shard 0 0", "shard 1 5", "spare shard 2 4", "shard 7 3", "once 0", "once 6", "after 1", "after 8"]
        dying = peers.kills(marks, *places)
        self.assertEqual(self.state("dying", PLAIN, (), ("--workers", "2"), **dying), state)
        self.assertEqual(sorted(os.listdir(marks)), sorted(places))
        stop = peers.kills(os.path.join(self.folder, "stop"), "stop shard 2 3")
        log = os.path.join(self.folder, "log of halves")
        halves = self.peer("halves", PLAIN, (), ("--workers", "2"), GODWIT_TEST_LOG=log, **stop)
        halves.end()
        self.assertIn("this peer leaves", halves.output)
        with open(log) as file:
            self.assertIn("after 1\n", file.read())
        self.assertEqual(self.state("halves", PLAIN, (), ("--workers", "1")), state)
        killed = peers.kills(os.path.join(self.folder, "killed"), "peer shard 3 1", "shard 4 4", "once 5")
        flock = self.flock(PLAIN, variables=[killed] * 3)
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0, 0], [p.output for p in flock])
        self.assertEqual([peers.state_of(p.output) for p, end in zip(flock, ends) if end == 0], [state] * 2)

    def test_an_audit_names_the_samples_of_a_shard(self):
        self.state("audited", PLAIN, (), ("--workers", "2"))
        where = os.path.join(self.folder, "audited")
        for step, update, training, shard, shards in ((2, 1, True, 4, 6), (4, 3, False, 1, 2)):
            command = [peers.BINARY, "audit", where, "--step", str(step), "--shard", str(shard), "--json"]
            done = subprocess.run(
                command, env=peers.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                timeout=peers.LIMIT_S, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            expected = ShardContext(1, step - 1, update, training, shard, shards).indices(600, 10)
            found = json.loads(done.stdout)
            self.assertEqual([sample["index"] for sample in found["samples"]], expected)

    def test_two_threads_are_another_job_with_one_state(self):
        self.expect_one_state_with_two_threads(PLAIN)

    def test_kmeans_stops_by_itself_with_one_state(self):
        alone = self.alone(KMEANS)
        said = re.search(r"after \d+ updates the mean distance is .*", alone)[0]
        self.assertEqual(self.state("two", KMEANS, (), ("--workers", "2")), peers.state_of(alone))
        self.assertIn(said, self.output)


    def test_logistic_regression_finds_the_weights_with_one_state(self):
        alone = self.alone(LOGISTIC)
        self.assertRegex(alone, r"after [5-9] updates: loss 0\.\d+, 8\d\.\d+% right, weights off by 0\.0\d\d")
        self.assertEqual(self.state("two", LOGISTIC, (), ("--workers", "2")), peers.state_of(alone))


class Probes(peers.Case):
    def test_a_probe_that_comes_out_alike_changes_no_state(self):
        state = peers.state_of(self.alone(PROBED, ["none"]))
        for kind in ("default", "function"):
            self.assertEqual(peers.state_of(self.alone(PROBED, [kind])), state, kind)
            self.assertEqual(self.state(kind, PROBED, [kind], ("--workers", "2")), state, kind)

    def test_a_worker_in_which_it_comes_out_otherwise_ends_the_peer(self):
        said = self.refusal(PROBED, ["used"])
        self.assertIn("the probe comes out otherwise in a worker that has computed shards than when the program began", said)
        self.assertIn("the probe comes out otherwise in a fresh worker than", self.refusal(PROBED, ["fresh"]))
        self.assertIn("probe= returned a value of type object", self.refusal(PROBED, ["object"]))
        self.assertIn("probe= cannot be computed: ValueError: no processor has it", self.refusal(PROBED, ["raises"]))

    def test_a_peer_whose_machine_computes_otherwise_is_turned_away(self):
        # Of two that begin together, either may be turned away.
        flock = self.flock(PROBED, ["function"], peers=2, variables=[{}, {"GODWIT_TEST_MACHINE": "another"}])
        denied = peers.first_to_end(flock)
        self.assertNotEqual(denied.end(), 0, denied.output)
        self.assertIn("the probe of the program's workers differs", denied.output)


class Faults(peers.Case):
    def test_a_faulty_program_is_told_what_and_where(self):
        line = {}
        with open(PLAIN) as file:
            for number, text in enumerate(file, 1):
                line.setdefault(text.strip(), number)
        expected = {
            "raises at import": "ValueError: the file has no header",
            "ends at import": "exit status 3",
            "forgets to run": "makes a job and ends without job.run()",
            "counts": "shard 0 of update 0 gives other bytes when this process computes it again, first in 'g'",
            "no shard": "the job has no shard function",
            "raises": f"plain.py:{line['raise KeyError(' + chr(34) + 'no such sample' + chr(34) + ')']}: KeyError: 'no such sample'",
            "exits": "the program calls exit (enough) in a shard",
            "imports": "late.py is imported after job.run() has begun",
            "writes": f"plain.py:{line['state[' + chr(34) + 'w' + chr(34) + '][0] = 3']}: ValueError: assignment destination is read-only",
            "shape": "the shard's 'g' has type float64 and shape (5,)",
            "infinite": "sum:g",
            "raises in update": "ZeroDivisionError: the rate is 0",
            "vars": "job.vars['thing'] is of type builtins.object",
            "grows": "job.vars has grown to",
        }
        for fault, words in expected.items():
            self.assertIn(words, self.refusal(PLAIN, [fault]), fault)

    def test_a_program_that_fails_behind_the_job_is_told(self):
        peer = self.peer("behind", PLAIN, ["fails behind"], ("--workers", "1"))
        self.assertEqual(peer.end(), 1)
        self.assertIsNotNone(peers.state_of(peer.output))
        self.assertIn("the job is done, but", peer.output)
        self.assertIn("RuntimeError: the disk is full", peer.output)

    def test_a_script_that_runs_alone_ends_with_its_peer(self):
        done = subprocess.run(
            [peers.PYTHON, PLAIN, "raises"], env=peers.environment(), text=True, capture_output=True, timeout=peers.LIMIT_S,
            check=False,
        )  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("KeyError: 'no such sample'", done.stdout + done.stderr)
        self.assertNotIn("finished", done.stdout)
        self.assertRegex(done.stdout + done.stderr, r'most recent call last\):\n.*File "\S+/plain.py"')
        self.assertIn("makes a job and ends without job.run()", self.alone(PLAIN, ["forgets to run"]))


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("numpy"), what="programs")
