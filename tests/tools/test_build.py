"""What build.sh says, and how it ends, with stand-ins for the programs that it calls."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))
import tap  # noqa: E402

SOURCE = HERE.parent.parent
STAND_INS = {
    "dpkg-query": "echo install ok installed",
    "cmake": 'mkdir -p "$4"; [ "$4" != "$BROKEN" ]',
    "ninja": "exit",
    # Of two suites the thread sanitizer has one. What runs here passes, if Python may keep what it has compiled.
    "ctest": """
[ "${PWD##*/}" != "$BROKEN" ] || exit 0
[[ $1 = -N || ! -v PYTHONDONTWRITEBYTECODE ]] || exit 0
suites="core/sums lab/steal"
case $PWD in *tsan) suites=core/sums ;; esac
for suite in $suites; do
    if [[ $1 = -N && $suite =~ $3 ]]; then
        echo "  Test #1: $suite"
    elif [[ $suite =~ $2 ]]; then
        printf '1..1\\nok - it\\n' >"tap/${suite/\\//_}.tap"
    fi
done
""",
}


class Sanitize(unittest.TestCase):
    def setUp(self):
        self.tree = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.tree / "tests").mkdir()
        for name in ("build.sh", "tests/count.awk"):
            shutil.copy(SOURCE / name, self.tree / name)
        (self.tree / "bin").mkdir()
        for name, script in STAND_INS.items():
            (self.tree / "bin" / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
            (self.tree / "bin" / name).chmod(0o700)

    def sanitize(self, *words, broken=""):
        """(exit code, stdout, stderr)"""
        surroundings = {**os.environ, "PATH": f"{self.tree}/bin:{os.environ['PATH']}", "BROKEN": broken,
                        "PYTHONDONTWRITEBYTECODE": "1"}  # as images of containers have it
        command = [self.tree / "build.sh", "sanitize", *words]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_all_suites_run_under_both(self):
        code, said, _ = self.sanitize()
        self.assertEqual((code, said.count("2 passed, 0 failed"), said.count("1 passed, 0 failed")), (0, 1, 1), said)

    def test_one_sanitizer_may_have_none_of_them(self):
        code, said, _ = self.sanitize("lab/")
        self.assertEqual((code, said.count("1 passed"), said.count("no suites with 'lab/'")), (0, 1, 1), said)

    def test_a_name_that_no_suite_has_is_a_mistake(self):
        code, said, warned = self.sanitize("lba/")
        self.assertEqual((code, said.count("passed")), (1, 0), said)
        self.assertIn("nothing was tested: no suite has 'lba/' in its name", warned)

    def test_a_build_that_cannot_be_configured_is_no_lack_of_suites(self):
        code, _, warned = self.sanitize("core/", broken="build-tsan")
        self.assertEqual(code, 1)
        self.assertIn("build-tsan cannot be configured", warned)

    def test_what_is_no_argument_of_wheel_or_package_is_a_mistake(self):
        for command in ("wheel", "package"):
            for words, named in ((["--gpus"], "--gpus"), (["--gpu", "x"], "--gpu x")):
                done = subprocess.run([self.tree / "build.sh", command, *words], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"'{command}' takes no argument but '--gpu'; what is '{named}'?", done.stderr)
            self.assertFalse((self.tree / f"build-{command}").exists())


class TarBall(unittest.TestCase):
    def test_it_has_every_library_that_the_build_needs(self):
        """A library that is new in the build has to be in the sysroot of the tar ball, too, which is built less often."""
        needed = re.search(r"^build_packages=\(([^)]*)\)", (SOURCE / "build.sh").read_text(), re.MULTILINE)[1].split()
        libraries = {name for name in needed if re.fullmatch("(lib|zlib).*-dev", name)} - {"libc6-dev", "libcriterion-dev"}
        self.assertIn("libsodium-dev", libraries)
        script = (SOURCE / "tools" / "package" / "tarball.sh").read_text()
        there = {name for words in re.findall(r"^(?:old|own)=\(([^)]*)\)", script, re.MULTILINE) for name in words.split()}
        self.assertEqual(libraries - there, set())


if __name__ == "__main__":
    tap.main(lambda: None)
