"""A short search of every target by libFuzzer, under sanitizers: what ./build.sh fuzz does for longer (fuzz.py).

./build.sh test builds the fuzzers where there is a clang for it, and names them in GODWIT_FUZZERS. It does so beside the
tests: the file `lock` beside the fuzzers is locked until they are built.
"""

import fcntl
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lab"), str(HERE)]
import fuzz  # noqa: E402
import tap  # noqa: E402

FUZZERS = os.environ.get("GODWIT_FUZZERS")
MINUTES = 1  # of all processors
FOUND = {b"oh": "heap-buffer-overflow", b"up": "signed integer overflow"}


def setUpModule():
    with open(pathlib.Path(FUZZERS).parent / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


class Libfuzzer(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_short_search_of_every_target_finds_nothing(self):
        command = [sys.executable, HERE / "fuzz.py", FUZZERS, self.folder, "--minutes", str(MINUTES)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        runs = re.findall(r"^(\w+) +(\d+) runs .* nothing found$", done.stdout, re.MULTILINE)
        listed = subprocess.run([FUZZERS, "--list"], check=True, capture_output=True, text=True).stdout.split()[::2]
        self.assertEqual([name for name, _ in runs], listed, done.stdout)
        self.assertTrue(all(int(count) > 0 for _, count in runs), done.stdout)

    def test_what_is_broken_is_found(self):
        for octets, why in FOUND.items():
            corpus = self.folder / octets.decode() / "broken"
            corpus.mkdir(parents=True)
            (corpus / "new").write_bytes(octets)
            _, broken, findings, said = fuzz.search(FUZZERS, corpus.parent, "broken", 8, 1)
            self.assertTrue(broken, said)
            self.assertIn(why, said)
            self.assertEqual([pathlib.Path(path).read_bytes() for path in findings], [octets], said)

    def test_a_search_comes_to_what_is_broken_by_itself(self):
        _, broken, findings, said = fuzz.search(FUZZERS, self.folder, "broken", 8, 60)
        self.assertTrue(broken and findings, said)


if __name__ == "__main__":
    os.nice(10)  # others' tests have to keep to times
    tap.main(lambda: None if FUZZERS else "it takes a clang that comes with it", "libFuzzer")
