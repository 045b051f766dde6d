"""./build.sh fuzz (fuzz.py) with a stand-in for the fuzzers."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))
import tap  # noqa: E402

# As libFuzzer does: it begins with what the folders hold, and ends at the first that breaks the target.
STAND_IN = """#!/usr/bin/env python3
import pathlib, sys
options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
if sys.argv[1] == "--list":
    print("one 10\\ntwo 10")
elif "--examples" in options:
    (pathlib.Path(options["--examples"]) / "000").write_text("example")
else:
    for folder in sys.argv[1:]:
        for path in pathlib.Path(folder).iterdir() if not folder.startswith("-") else []:
            if path.read_text() == "bad":
                found = options["-artifact_prefix"] + "crash-bad"
                pathlib.Path(found).write_text("bad")
                print(f"artifact_prefix=''; Test unit written to {found}", file=sys.stderr)
                sys.exit(77)
"""


class Search(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.fuzzers = self.folder / "fuzzers"
        self.fuzzers.write_text(STAND_IN)
        self.fuzzers.chmod(0o700)

    def search(self):
        command = [sys.executable, HERE / "fuzz.py", self.fuzzers, self.folder / "corpus", "--jobs", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    def test_nothing_is_found(self):
        code, said = self.search()
        self.assertEqual((code, said.count("nothing found")), (0, 2), said)

    def test_a_finding_that_is_not_mended_is_one_again(self):
        (self.folder / "corpus" / "two").mkdir(parents=True)
        (self.folder / "corpus" / "two" / "new").write_text("bad")
        for _ in range(2):
            code, said = self.search()
            self.assertEqual((code, said.count("nothing found"), said.count("A FINDING")), (1, 1, 1), said)
            self.assertIn(f"found: {os.path.realpath(self.folder)}/corpus/two-found/crash-bad\n\"bad\"\n", said)
            (self.folder / "corpus" / "two" / "new").unlink(missing_ok=True)  # libFuzzer has not kept it


if __name__ == "__main__":
    tap.main(lambda: None)
