"""`godwit.Loader`: the same bytes with and without processes that read ahead, whatever dies, and what a faulty data set
is told."""

import os
import select
import subprocess
import sys
import unittest

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

LOADING = os.path.join(peers.PROGRAMS, "loading.py")


def has_ended(pid):
    """Waits for the end of a process, for 30 seconds at most."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(30000))
    finally:
        os.close(fd)


class SameBytes(peers.Case):
    def test_a_job_has_one_state_with_and_without_processes_whatever_dies(self):
        state = peers.state_of(self.alone(LOADING, [0]))
        for processes in (1, 3):
            said = self.alone(LOADING, [processes])
            self.assertEqual(peers.state_of(said), state, processes)
            self.assertIn("load samples for process", said)
        marks = os.path.join(self.folder, "marks")
        places = ["shard 0 1", "shard 2 4"]
        dying = {**peers.kills(marks, *places), "GODWIT_TEST_MARKS": marks}
        self.assertEqual(self.state("dying", LOADING, [2, "dies once"], ("--workers", "2"), **dying), state)
        self.assertIn("has ended: signal 9; another one takes its place", self.output)
        found = os.listdir(marks)
        self.assertEqual(sorted(name for name in found if name.startswith("shard")), places)
        readers = [int(name[4:]) for name in found if name.startswith("pid ")]
        self.assertGreater(len(readers), 4)
        for pid in readers:
            self.assertTrue(has_ended(pid), f"process {pid} loads samples behind the end of its worker")
        killed = peers.kills(os.path.join(self.folder, "killed"), "peer shard 2 1")
        flock = self.flock(LOADING, [1], variables=[killed] * 3)
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0, 0], [p.output for p in flock])
        self.assertEqual([peers.state_of(p.output) for p, end in zip(flock, ends) if end == 0], [state] * 2)

    def test_a_check_finds_no_impurity(self):
        done = subprocess.run(
            [peers.PYTHON, "-m", "godwit", "check", LOADING, "2"], env=peers.environment(), text=True, capture_output=True,
            timeout=peers.LIMIT_S, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Faults(peers.Case):
    def line(self, text):
        with open(LOADING) as file:
            return next(number for number, line in enumerate(file, 1) if text in line)

    def test_a_data_set_that_raises_is_told_with_the_sample_and_the_place(self):
        for processes in (0, 2):
            said = self.refusal(LOADING, [processes, "raises"])
            where = self.line('raise KeyError("no such picture")')
            self.assertIn(f"loading.py:{where}: SampleError: sample 17 of the data set cannot be loaded: KeyError: "
                          "'no such picture'", said, processes)  # fmt: skip
            self.assertIn(f'loading.py", line {where}, in __getitem__', said, processes)

    def test_samples_that_end_their_process_or_cannot_be_sent_are_named(self):
        said = self.alone_that_fails([2, "exits"])
        self.assertIn("sample 17 of the data set cannot be loaded: SystemExit: enough", said)
        said = self.alone_that_fails([2, "cannot be sent"])
        self.assertRegex(said, r"samples? [\d, .]*17[\d, .]* of the data set cannot be loaded: .*[Pp]ickle")
        said = self.alone_that_fails([1, "dies"])
        self.assertRegex(said, r"the process that loads samples? [\d, ]*17[\d, ]* has ended: signal 11, and so have 2 others")

    def alone_that_fails(self, arguments):
        done = subprocess.run(
            [peers.PYTHON, LOADING, *map(str, arguments)], env=peers.environment(), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=peers.LIMIT_S, check=False,
        )  # fmt: skip
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_wrong_arguments_are_named(self):
        code = "import godwit\ntry: godwit.Loader({})\nexcept godwit.Error as error: print(error)"
        for arguments, words in (
            ("[1], 0", "batch_size=0"), ("[1], 8, processes=-1", "processes=-1"), ("iter([1]), 8", "must be indexable"),
        ):  # fmt: skip
            done = subprocess.run(
                [peers.PYTHON, "-c", code.format(arguments)], env=peers.environment(), text=True, capture_output=True, check=False
            )
            self.assertIn(words, done.stdout, done.stderr)


@unittest.skipIf(peers.lacks("torch", "numpy"), peers.lacks("torch", "numpy"))
class Tensors(unittest.TestCase):
    def test_samples_come_back_as_they_were(self):
        code = """if True:
            import godwit, numpy, os, torch
            from godwit import readers
            samples = [
                (torch.randn(3, 4), 7), {"x": torch.randn(2, 2).bfloat16(), "b": torch.tensor([True, False])},
                torch.zeros(0), torch.tensor(3), numpy.arange(12).reshape(3, 4), numpy.float32(2), "text", None,
                torch.randn(4, 5).t(), torch.randn(200000),
            ]
            found = readers._unpacked(readers._packed(samples))
            for a, b in zip(samples, found):
                if isinstance(a, torch.Tensor):
                    assert torch.equal(a, b) and a.dtype == b.dtype, (a, b)
            assert torch.equal(found[0][0], samples[0][0]) and found[0][1] == 7
            assert found[1]["x"].dtype == torch.bfloat16 and torch.equal(found[1]["b"], samples[1]["b"])
            assert (found[4] == samples[4]).all() and found[5:8] == samples[5:8]
            found[0][0].add_(1); found[4][0] = 5
            print("same")
        """
        done = subprocess.run([peers.PYTHON, "-c", code], env=peers.environment(), text=True, capture_output=True, check=False)
        self.assertEqual(done.stdout, "same\n", done.stderr)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("numpy"), what="programs")
