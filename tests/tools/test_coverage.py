"""What tests/coverage.py counts: branches of core/, but for those of GW_ASSERT."""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

spec = importlib.util.spec_from_file_location("godwit_coverage", os.path.join(HERE, "..", "coverage.py"))
coverage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage)

SOURCE = """int f(int a, int b) {
    GW_ASSERT(a > 0 && /* ) */
             b > 0);
    if (a && b) return 1; /* GW_ASSERT(a) */
    return 0;
}
"""


class Counted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        patch = mock.patch.object(coverage, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)
        os.mkdir(os.path.join(self.root, "core"))

    def write(self, text):
        with open(os.path.join(self.root, "core", "f.c"), "w") as file:
            file.write(text)

    def found(self, branches, name=os.path.join("core", "f.c")):
        """As gcov tells of a file: of each line how often its branches were taken."""
        lines = [
            {"line_number": number, "function_name": "f", "branches": [{"count": one} for one in counts]}
            for number, counts in branches.items()
        ]
        return {"file": os.path.join(self.root, name), "lines": lines}

    def run_main(self, files, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(coverage, "gcov", lambda build, folder: files),
            mock.patch.object(sys, "argv", ["coverage.py", "build", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            return coverage.main(), out.getvalue(), err.getvalue()

    def test_checks_are_left_out_and_nothing_else(self):
        self.write(SOURCE)
        code, out, _ = self.run_main([self.found({2: [1, 0, 1, 0], 3: [1, 0], 4: [1, 0, 1, 0]})], "--list")
        self.assertEqual(code, 0)
        self.assertIn("core/f.c:4: 2 of 4 taken: if (a && b) return 1;", out)
        self.assertNotIn("core/f.c:2", out)
        self.assertRegex(out, r"all of core/ +2 +4 +2 +50\.0 %")

    def test_what_one_object_takes_of_a_header_counts_for_all(self):
        self.write(SOURCE)
        code, out, _ = self.run_main([self.found({4: [1, 0, 0, 0]}), self.found({4: [0, 2, 0, 1]})], "--list")
        self.assertEqual(code, 0)
        self.assertIn("core/f.c:4: 3 of 4 taken", out)

    def test_other_rooms_are_not_counted(self):
        self.write(SOURCE)
        _, out, _ = self.run_main([self.found({4: [1, 1]}), self.found({4: [0, 0]}, os.path.join("net", "f.c"))])
        self.assertRegex(out, r"all of core/ +2 +2 +0 +100\.0 %")

    def test_too_few_fail(self):
        self.write(SOURCE)
        files = [self.found({4: [1, 1, 1, 0]})]
        self.assertEqual(self.run_main(files, "--least", "75")[0], 0)
        code, _, err = self.run_main(files, "--least", "75.1")
        self.assertEqual(code, 1)
        self.assertIn("fewer than 75.1 % of the branches were taken", err)

    def test_a_check_that_would_hide_other_code_is_refused(self):
        for line in ("if (a) GW_ASSERT(b);", "GW_ASSERT(a); if (b) return 1;", "GW_ASSERT(a), b++;"):
            self.write(f"int f(int a, int b) {{\n    {line}\n}}\n")
            with self.assertRaises(SystemExit) as end:
                self.run_main([self.found({2: [1, 0]})])
            self.assertIn("f.c:2: GW_ASSERT shares its line with other code", str(end.exception))

    def test_a_build_that_has_run_nothing_is_told(self):
        objects = os.path.join(self.root, "CMakeFiles", "gw_core.dir", "core")
        os.makedirs(objects)
        open(os.path.join(objects, "f.c.gcno"), "w").close()
        with self.assertRaises(SystemExit) as end:
            list(coverage.gcov(self.root, self.root))
        self.assertIn("has no counts: nothing was run", str(end.exception))


if __name__ == "__main__":
    tap.main(lambda: None, "coverage")
