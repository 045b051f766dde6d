"""The results of suites in Python (tests/lab/tap.py), as ./build.sh test counts them (tests/count.awk)."""

import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LAB = HERE.parent / "lab"
sys.path.insert(0, str(LAB))
import tap  # noqa: E402

CLASS = """
class {name}(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        {before}

    def test_one(self):
        {one}

    def test_two(self):
        pass
"""


class Counts(unittest.TestCase):
    def counts(self, *parts):
        """(exit code, lines of the counts) of a suite that has these parts."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "tap").mkdir()
        suite = "".join(map(textwrap.dedent, parts))
        (folder / "suite.py").write_text(f"import os, sys, unittest\nsys.path.insert(0, {str(LAB)!r})\nimport tap\n{suite}\n"
                                         "tap.main(lambda: None)\n")
        command = [sys.executable, folder / "suite.py", f"--tap={folder}/tap/a_suite.tap"]
        code = subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode
        (folder / "failed").write_text("1:a/suite\n" if code else "")
        words = ["awk", "-v", f"folder={folder}", "-v", f"failed_suites={folder}/failed", "-f", HERE.parent / "count.awk"]
        counted = subprocess.run(words, input="a/suite\n", capture_output=True, text=True, check=False)
        self.assertEqual(counted.returncode != 0, code != 0)
        return code, counted.stdout.splitlines()

    def part(self, name, before="pass", one="pass"):
        return CLASS.format(name=name, before=before, one=one)

    def test_each_test_of_a_class_that_is_skipped_is_skipped(self):
        skipped = self.part("B", 'raise unittest.SkipTest("not here")')
        self.assertEqual(self.counts(self.part("A"), skipped), (0, [
            "skipped: a/suite: test_one: not here", "skipped: a/suite: test_two: not here",
            "2 passed, 0 failed, 2 skipped"]))

    def test_each_test_of_a_class_that_cannot_be_set_up_fails(self):
        self.assertEqual(self.counts(self.part("A"), self.part("B", "1 / 0")), (1, [
            "failed: a/suite: test_one", "failed: a/suite: test_two", "2 passed, 2 failed, 0 skipped"]))

    def test_each_test_of_a_module_that_is_skipped_or_cannot_be_set_up_has_that_result(self):
        for what, code, counts in (('raise unittest.SkipTest("not here")', 0, "0 passed, 0 failed, 4 skipped"),
                                   ("1 / 0", 1, "0 passed, 4 failed, 0 skipped")):
            done = self.counts(f"def setUpModule(): {what}\n", self.part("A"), self.part("B"))
            self.assertEqual((done[0], done[1][-1]), (code, counts))

    def test_a_test_of_which_parts_fail_fails_once(self):
        parts = "for i in range(3):\n            with self.subTest(i): self.assertEqual(i, 1)"
        cleaned = "self.addCleanup(lambda: 1 / 0)\n        self.fail()"
        self.assertEqual(self.counts(self.part("A", one=parts), self.part("B", one=cleaned)), (1, [
            "failed: a/suite: test_one", "failed: a/suite: test_one", "2 passed, 2 failed, 0 skipped"]))

    def test_a_suite_that_dies_has_failed_in_all_that_it_did_not_come_to(self):
        self.assertEqual(self.counts(self.part("A", one="os._exit(3)")), (3, [
            "failed: a/suite: 2 of 2 tests gave no result", "0 passed, 2 failed, 0 skipped"]))

    def test_a_class_that_cannot_be_left_fails_too(self):
        left = "cls.addClassCleanup(lambda: 1 / 0)"
        code, said = self.counts(self.part("A", left))
        self.assertEqual((code, said[-1]), (1, "2 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    tap.main(lambda: None)
