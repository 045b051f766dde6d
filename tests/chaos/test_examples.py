"""Examples of programs whose processes are killed at random, which come to the same bytes: tools/chaos/examples.py, in small."""

import os
import subprocess
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(SOURCE, "tools", "chaos")]
import examples  # noqa: E402
import tap  # noqa: E402

BINARY = os.environ.get("GODWIT_BINARY", os.path.join(SOURCE, "build", "godwit"))
PYTHON = os.environ.get("GODWIT_TEST_PYTHON") or sys.executable
KILLS, UPDATES = 8, 30


def run(*arguments):
    command = [sys.executable, examples.__file__, "--binary", BINARY, "--python", PYTHON, *arguments]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900, check=False)


class Examples(unittest.TestCase):
    def test_examples_under_kills_have_one_state_and_one_model(self):
        names = [name for name in ("logistic.c", "kmeans.py") if examples.can_run(name, examples.options_of(["--python", PYTHON]))]
        done = run("--kills", str(KILLS), "--updates", str(UPDATES), *names)
        self.assertEqual(done.returncode, 0, done.stdout)
        for name in names:
            self.assertRegex(done.stdout, rf"{name}: .* killed in .* the same bytes in [34] ways")

    def test_an_example_that_there_is_not_is_named(self):
        done = run("bits.py")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no example bits.py", done.stdout)

    def test_a_job_that_ends_before_it_was_disturbed_is_begun_anew_with_more_updates(self):
        tried = []

        def judge_once(_name, _options, doubled):
            tried.append(doubled)
            if doubled < 2:
                raise examples.TooShort
            return False

        with mock.patch.object(examples, "judge_once", judge_once):
            self.assertFalse(examples.judge("logistic.c", examples.options_of([])))
        self.assertEqual(tried, [0, 1, 2])


if __name__ == "__main__":
    tap.main(missing=lambda: "", what="flocks")
