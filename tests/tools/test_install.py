"""What `cmake --install` puts below a prefix is enough to compile a job of one's own and to run it."""

import os
import pathlib
import re
import shlex
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
                     "share/doc/godwit/README.md", "share/godwit/prometheus/rules.yml",
                     "share/godwit/grafana/godwit.json", "include/godwit/core/godwit.h", "lib/systemd/system/godwit@.service",
                     "lib/systemd/system/godwit-up.service",
                     "lib/sysusers.d/godwit.conf", "lib/tmpfiles.d/godwit.conf", "share/doc/godwit/example.conf"):
            self.assertTrue((self.prefix / path).is_file(), path)
        for page in (TREE / "tools" / "man").glob("*.1"):
            self.assertTrue((self.prefix / "share" / "man" / "man1" / page.name).is_file(), page.name)

    def test_systemd_finds_no_fault_in_the_units(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze here")
        units = self.root / "units"
        shutil.copytree(self.prefix / "lib" / "systemd" / "system", units)
        for unit in units.glob("*.service"):  # systemd looks in /usr/local/bin and /usr/bin alone
            unit.write_text(unit.read_text().replace("ExecStart=godwit ", f"ExecStart={self.prefix}/bin/godwit "))
        verify = ["systemd-analyze", "verify", "--man=no", units / "godwit@a.service", units / "godwit-scrub@a.timer",
                  units / "godwit-up.service"]
        done = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        unit = units / "godwit@.service"
        unit.write_text(unit.read_text().replace("Type=notify", "Type=notified"))
        done = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
        self.assertIn("notified", done.stderr)

    def test_the_unit_runs_what_the_example_says(self):
        """The example's settings, without their marks, with the words of the unit's command."""
        example = (self.prefix / "share" / "doc" / "godwit" / "example.conf").read_text()
        settings = dict(re.findall(r"^#([A-Z]+)=(\"(?:[^\"]|\n)*\"|\S+)", example, re.MULTILINE))
        options = shlex.split(settings["OPTIONS"].replace("\\\n#", " "))[0]
        unit = (self.prefix / "lib" / "systemd" / "system" / "godwit@.service").read_text()
        command = re.search("^ExecStart=godwit (.*)$", unit, re.MULTILINE)[1].replace("%S/godwit/%i", "state")
        words = shlex.split(command.replace("${JOB}", settings["JOB"]).replace("$OPTIONS", options))
        self.assertIn("--metrics", words)
        done = subprocess.run([self.prefix / "bin" / "godwit", *words], cwd=self.root, capture_output=True, text=True,
                              check=False, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 2)  # the data are missing, or the key; every option is known
        self.assertRegex(done.stderr, "/srv/mnist|NAME.key")

    def test_a_job_compiles_against_the_installed_headers_and_runs(self):
        headers = self.root / "all.c"
        headers.write_text("".join(f'#include "{name}"\n' for name in
                                   ("core/godwit.h", "core/gpu.h", "core/rng.h", "kernels/job.h")))
        include = f"-I{self.prefix}/include/godwit"
        self.run_command("cc", "-fsyntax-only", include, headers)
        self.run_command("cc", "-O2", "-shared", "-fPIC", include, "-o", "pi.so", TREE / "tests" / "jobs" / "pi.c")
        shown = self.run_command(self.prefix / "bin" / "godwit", "run", "./pi.so", "--darts", "1000", "--steps", "3",
                                 "--dir", "a", "--listen", "127.0.0.1:0", "--quiet")
        self.assertIn("godwit: done job=pi steps=3", shown)

    def test_a_job_may_call_every_helper(self):
        self.run_command("cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{self.prefix}/include/godwit", "-o",
                         "helpers.so", TREE / "tests" / "jobs" / "helpers.c")
        shown = self.run_command(self.prefix / "bin" / "godwit", "run", "./helpers.so", "--dir", "a", "--listen",
                                 "127.0.0.1:0", "--quiet")
        self.assertIn("godwit: done job=helpers steps=2", shown)
        self.assertIn("weight=-0.2", shown)

    def new_job(self, program, folder):
        folder.mkdir()
        return subprocess.run([program, "new-job", "my_job-2"], cwd=folder, capture_output=True, text=True, check=False,
                              timeout=60)

    def test_a_new_job_compiles_runs_and_survives_a_kill(self):
        folder = self.root / "it's new"
        self.assertEqual(self.new_job(self.prefix / "bin" / "godwit", folder).returncode, 0)
        self.assertIn(f"-I{(self.prefix / 'include' / 'godwit').resolve()}", (folder / "my_job-2.c").read_text())
        shown = self.run_command("sh", folder / "my_job-2-test.sh")
        self.assertIn("slope=3.0", shown)
        self.assertIn("my_job-2-test: the same bytes as on one undisturbed peer", shown)

    def test_a_new_job_overwrites_nothing(self):
        for name in ("my_job-2.c", "my_job-2-test.sh"):
            folder = self.root / name
            folder.mkdir()
            (folder / name).write_text("mine")
            done = subprocess.run([BUILD / "godwit", "new-job", "my_job-2"], cwd=folder, capture_output=True, text=True,
                                  check=False, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"{name} exists", done.stderr)
            self.assertEqual([path.name for path in folder.iterdir()], [name])
            self.assertEqual((folder / name).read_text(), "mine")


if __name__ == "__main__":
    tap.main(missing, "godwit")
