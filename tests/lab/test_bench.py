"""./build.sh bench reports what went wrong, also by its exit code."""

import contextlib
import io
import sys
import types
import unittest
from unittest import mock

import tap  # it adds tools/lab to the path
import bench
import rdma_bench
import tables
from flock import Trouble

FAILS = "/bin/false"


class Killed:
    """A flock whose peers, when they are started again, report that they have resumed from a given step."""

    def __init__(self, step):
        self.peers = [types.SimpleNamespace(done={"state": "one"}, signal=lambda number: None) for _ in range(4)]
        self.job = ["--peers", "4"]
        self.step = step
        self.told = [(self.peers[0], {"event": "checkpoint", "step": 40})]

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        pass

    def living(self):
        return []

    def start(self, peer):
        self.told.append((peer, {"event": "resumed", "step": self.step}))

    def events_after(self, moment, kind):
        return [(peer, event) for peer, event in self.told if event["event"] == kind]

    def wait(self, condition, *ignored):
        assert condition()

    def wait_step(self, *ignored):
        pass

    wait_ends = wait_step


class Churned:
    """A flock and its clock: it commits ten steps a second, and a peer takes one to start."""

    def __init__(self, count):
        self.now = 0
        self.peers = [types.SimpleNamespace(number=i + 1, kill=lambda: self.now) for i in range(count)]

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def living(self):
        return self.peers

    def start(self, peer):
        self.sleep(1)

    def events_after(self, moment, kind):
        return [(None, {"time": step / 10, "step": step}) for step in range(1, int(10 * self.now) + 1)]


class Churn(unittest.TestCase):
    def test_a_peer_is_live_from_its_launch_on(self):
        flock = Churned(6)
        with mock.patch.object(bench, "time", flock):
            kills, commits, allowed = bench.kill_and_restart(flock, 30)
        self.assertEqual(kills, 5)
        self.assertAlmostEqual(allowed, 6 * commits[-1][0] - 2 * kills, delta=0.2)


class Wrongs(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch.object(tables, "WRONGS", []))

    def run_bench(self, *words):
        """Returns (exit code, the lines printed at the end)."""
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["bench.py", *words]), contextlib.redirect_stdout(said):
            code = bench.main()
        _, _, end = said.getvalue().partition("\nwrong:\n")
        return code, end

    def put(self, **stand_ins):
        for name, stand_in in stand_ins.items():
            self.enterContext(mock.patch.object(bench, name, stand_in))

    def put_states(self, disturbed):
        self.put(run_alone=lambda *ignored: {"state": "one", "steps": 5}, together=lambda *ignored: {"one"},
                 resumed=lambda *ignored: {"one"}, disturbed=disturbed)

    def test_nothing(self):
        self.put_states(lambda *ignored: {"one"})
        self.assertEqual(self.run_bench("godwit", "hashes"), (0, ""))

    def test_bytes_that_differ(self):
        self.put_states(lambda *ignored: {"two"})
        code, end = self.run_bench("godwit", "hashes")
        self.assertEqual(code, 1)
        self.assertEqual(end.splitlines(), [f"  1. one state hash: {job}: {what}: two: DIFFERS"
                                            for job in ("digits", "synthetic")
                                            for what in ("4 peers, kills and joins", "the same, majority")])

    def test_a_way_to_the_same_bytes_that_fails(self):
        self.put_states(mock.Mock(side_effect=Trouble("no step\nand more")))
        code, end = self.run_bench("godwit", "hashes")
        self.assertEqual(code, 1)
        self.assertIn("4 peers, kills and joins: failed: no step", end)

    def test_a_table_that_fails(self):
        self.put(TABLES={"memory": mock.Mock(side_effect=Trouble("no flock"))})
        self.assertEqual(self.run_bench("godwit", "memory"), (1, "  memory: no flock\n"))

    def test_a_part_that_fails(self):
        code, end = self.run_bench(FAILS, "micro")
        self.assertEqual(code, 1)
        self.assertIn("godwit bench steal --transport shm: exit code 1\n", end)

    def test_a_resumption_that_begins_anew(self):
        self.put(flock_of=lambda *ignored: Killed(0))
        with self.assertRaisesRegex(Trouble, "nobody resumed"):
            bench.resumed("godwit", ["synthetic"], 100)
        self.put(flock_of=lambda *ignored: Killed(40))
        self.assertEqual(bench.resumed("godwit", ["synthetic"], 100), {"one"})

    def run_mnist(self, accuracy):
        done = {"summary": {"accuracy": accuracy}, "seconds": 1}
        self.put(mnist_folder=lambda: "mnist", run_alone=lambda *ignored: done, bench_part=lambda *ignored: None)
        return self.run_bench("godwit", "mnist")

    def test_a_model_that_learns_too_little(self):
        self.assertEqual(self.run_mnist(0.975), (0, ""))
        code, end = self.run_mnist(0.9749)
        self.assertEqual((code, end.count("accuracy: 0.9749: >= 0.975")), (1, 1))

    def run_checkpoint(self, shares):
        self.put(checkpoint_run=lambda *ignored: 300, checkpoint_bytes=lambda binary: shares)
        return self.run_bench("godwit", "quick", "checkpoint")

    def test_a_checkpoint_that_is_not_written_twice(self):
        self.assertEqual(self.run_checkpoint([0.5, 0.3125, 0.875, 0.3125]), (0, ""))
        for shares in ([0.5, 0.3125, 0.875, 0], [1, 1, 1, 1]):
            code, end = self.run_checkpoint(shares)
            self.assertEqual((code, end.count("50 % of it")), (1, 1), shares)
            tables.WRONGS.clear()

    def test_hashing_is_compared_with_the_interval_that_was_used(self):
        told = [(None, {"time": at}) for at in (10, 10.1, 12, 12.1, 14, 14.1)]
        flock = types.SimpleNamespace(peers=[None], events_after=lambda *ignored: told, wait=lambda found, *_: found())
        self.put(thread_seconds=mock.Mock(side_effect=[1, 1.5]))
        each, interval = bench.hashing_run(flock, 2)
        self.assertEqual((each, round(interval, 3)), (0.25, 2))

    def test_off_and_on_take_turns(self):
        shares = []
        self.put(verified_run=lambda binary, job, share, steps: shares.append(share) or (1, 1))
        bench.off_and_on("godwit", [], "1%", 2, 9)
        self.assertEqual(shares, ["off", "1%", "off", "1%"])

    def test_the_cost_of_verifying_is_measured_with_large_states_too(self):
        jobs = []
        self.put(verified_run=lambda binary, job, share, steps: jobs.append(job) or (1, 1), hashing=lambda *_: None)
        self.assertEqual(self.run_bench("godwit", "corruption"), (0, ""))
        states = {job[job.index("--state-bytes") + 1] for job in jobs if "--state-bytes" in job}
        self.assertEqual(states, {"4m", f"{bench.LARGE_MIB}m"})
        self.assertIn("gpt", {job[0] for job in jobs})

    def test_the_step_of_the_largest_state_is_that_of_a_model_of_its_size(self):
        of_nano = 300 / 10.0  # ms of a core, MB of state: both go with the parameters
        of_large = bench.LARGE_SHARDS * bench.LARGE_SHARD_MS / (bench.LARGE_MIB * 1.048576)
        self.assertAlmostEqual(of_large, of_nano, delta=of_nano / 10)

    def test_the_cost_of_a_trace_is_that_of_neighbours(self):
        """A machine that becomes slower by half from stretch to stretch makes no trace expensive."""
        costs, rows = [1], []

        def stretch(*ignored):
            costs.append(1.5 * costs[-1])
            return costs[-1], costs[-1]

        self.put(flock_of=mock.MagicMock(), bench_part=lambda *ignored: None, stretch=stretch,
                 traced=lambda *ignored: (1.02 * costs[-1], 1.02 * costs[-1]), row=lambda *words: rows.append(words))
        self.assertEqual(self.run_bench("godwit", "tracing"), (0, ""))
        self.assertEqual([words[1] for words in rows[1:]], ["+2.00 %", "+2.00 %"])

    def test_a_trace_that_fails_is_no_measurement(self):
        flock = types.SimpleNamespace(peers=[types.SimpleNamespace(directory="a")])
        with self.assertRaisesRegex(Trouble, "godwit trace has ended"):
            bench.traced(FAILS, flock, 10)

    def test_what_this_machine_cannot_measure(self):
        self.put(mnist_folder=lambda: None, bench_part=lambda *ignored: None)
        self.enterContext(mock.patch.object(rdma_bench, "missing", lambda: "no QEMU"))
        code, end = self.run_bench("godwit", "mnist", "rdma")
        self.assertEqual(code, 1)
        self.assertEqual(end, "  mnist: accuracy not measured: GODWIT_TEST_DATA names no folder with mnist/ in it\n"
                              "  rdma: not measured: no QEMU\n")

    def test_a_state_that_is_not_that_of_one_peer(self):
        self.put(same_as_alone=lambda *ignored: (False, None))

        def churn(binary, quick):
            tables.table("4")
            bench.check_against_alone(binary, bench.SLEEPING, {(5, "two")})

        self.put(TABLES={"churn": churn})
        self.assertEqual(self.run_bench("godwit", "churn"),
                         (1, "  4: state hash against one undisturbed peer: DIFFERS\n"))


if __name__ == "__main__":
    tap.main(lambda: None)
