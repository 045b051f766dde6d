"""What `cmake --install` puts below a prefix is enough to compile a job of one's own and to run it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lab"))
import tap  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build"))


def missing():
    if not (BUILD / "godwit").exists():
        return "it is not built"
    return None if shutil.which("cmake") and shutil.which("cc") else "no cmake or no compiler here"


class Installed(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.prefix = self.root / "usr"
        self.run_command("cmake", "--install", BUILD, "--prefix", self.prefix)

    def run_command(self, *command):
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_everything_is_there(self):
        for path in ("bin/godwit", "share/man/man7/godwit-job.7", "share/bash-completion/completions/godwit",
                     "share/zsh/site-functions/_godwit", "share/fish/vendor_completions.d/godwit.fish",
                     "share/doc/godwit/README.md", "include/godwit/core/godwit.h"):
            self.assertTrue((self.prefix / path).is_file(), path)
        for page in (TREE / "tools" / "man").glob("*.1"):
            self.assertTrue((self.prefix / "share" / "man" / "man1" / page.name).is_file(), page.name)

    def test_a_job_compiles_against_the_installed_headers_and_runs(self):
        headers = self.root / "all.c"
        headers.write_text('#include "core/godwit.h"\n#include "core/gpu.h"\n#include "core/rng.h"\n')
        include = f"-I{self.prefix}/include/godwit"
        self.run_command("cc", "-fsyntax-only", include, headers)
        self.run_command("cc", "-O2", "-shared", "-fPIC", include, "-o", "pi.so", TREE / "tests" / "jobs" / "pi.c")
        shown = self.run_command(self.prefix / "bin" / "godwit", "run", "./pi.so", "--darts", "1000", "--steps", "3",
                                 "--dir", "a", "--listen", "127.0.0.1:0", "--quiet")
        self.assertIn("godwit: done job=pi steps=3", shown)


if __name__ == "__main__":
    tap.main(missing, "godwit")
