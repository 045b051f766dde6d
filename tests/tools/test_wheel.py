"""The Python package of ./build.sh wheel: what is in it, that its bytes depend on the tree alone, and what a user gets who
installs it where there is no compiler and no RDMA. It builds the program twice, so it runs before a release.

GODWIT_TEST_WHEEL names a folder with a wheel and an sdist that are tested instead of new ones.
"""

import functools
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lab"))
sys.path.insert(0, str(HERE.parent / "python"))
import peers  # noqa: E402
import tap  # noqa: E402

LIMIT_S = 1700
NO_RDMA = {"GODWIT_IBVERBS": "/nowhere/libibverbs.so.1", "GODWIT_RDMACM": "/nowhere/librdmacm.so.1"}
# What every system with the wheel's tag has (PEP 600).
SYSTEM = {"libc.so.6", "libm.so.6", "libz.so.1", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}


def build(tree):
    """Runs ./build.sh wheel in a tree. Returns the paths of the wheel and the sdist."""
    done = subprocess.run(["./build.sh", "wheel"], cwd=tree, text=True, capture_output=True, timeout=LIMIT_S, check=False)
    if "cannot be installed from PyPI" in done.stderr:
        raise unittest.SkipTest("the packages that make wheels cannot be had here")
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return found_in(os.path.join(tree, "dist"))


@functools.cache
def packages():
    """The wheel and the sdist of this tree."""
    given = os.environ.get("GODWIT_TEST_WHEEL")
    return found_in(given) if given else build(TREE)


def found_in(folder):
    (wheel,) = glob.glob(os.path.join(folder, "*.whl"))
    (sdist,) = glob.glob(os.path.join(folder, "*.tar.gz"))
    return wheel, sdist


def files_of(folder):
    """The files below a folder, without those that Python makes when it runs."""
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*")
                  if not path.is_dir() and "__pycache__" not in path.parts)  # fmt: skip


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel, cls.sdist = packages()
        cls.root = cls.enterClassContext(tempfile.TemporaryDirectory())

    def test_the_wheel_has_everything_and_its_name_says_where_it_runs(self):
        self.assertRegex(os.path.basename(self.wheel), r"^godwit-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl$")
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            metadata = wheel.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        for name in ("godwit/bin/godwit", "godwit/_build.py", "godwit/py.typed", "godwit_command.py",
                     "godwit/include/godwit/core/godwit.h", "godwit/licenses/libopenblas0-serial.txt"):  # fmt: skip
            self.assertIn(name, names)
        for page in (TREE / "tools" / "man").glob("*.[17]"):
            self.assertTrue(any(n.endswith(f".data/data/share/man/man{page.suffix[1:]}/{page.name}") for n in names), page)
        for name in ("bash-completion/completions/godwit", "zsh/site-functions/_godwit",
                     "fish/vendor_completions.d/godwit.fish"):  # fmt: skip
            self.assertTrue(any(n.endswith(f".data/data/share/{name}") for n in names), name)
        self.assertFalse([n for n in names if re.search(r"ibverbs|rdmacm|cuda|nccl|cublas|nvidia|__pycache__", n)])
        libraries = [n for n in names if n.startswith("godwit.libs/") and not n.endswith("/")]
        self.assertTrue(any("openblas" in n for n in libraries), libraries)
        for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.9", "Description-Content-Type: text/markdown"):
            self.assertIn(line, metadata.splitlines())
        self.assertNotIn("Project-URL", metadata)

    def test_the_sdist_builds_the_same_bytes_in_another_folder(self):
        if os.environ.get("GODWIT_TEST_WHEEL"):
            self.skipTest("GODWIT_TEST_WHEEL names a wheel that is there")
        with tarfile.open(self.sdist) as sdist:
            sdist.extractall(self.root, filter="data")
        (top,) = glob.glob(os.path.join(self.root, "godwit-*"))
        self.assertIn("./build.sh", pathlib.Path(top, "PKG-INFO").read_text())
        for first, second in zip((self.wheel, self.sdist), build(top), strict=True):
            self.assertEqual(os.path.basename(first), os.path.basename(second))
            self.assertTrue(pathlib.Path(first).read_bytes() == pathlib.Path(second).read_bytes(), first)
        with zipfile.ZipFile(self.wheel) as wheel:
            for name in wheel.namelist():
                content = wheel.read(name)
                for place in (str(TREE), top, os.path.expanduser("~"), "godwit-wheel-", "build-via-sdist"):
                    self.assertFalse(place.encode() in content, f"{name} names {place}")


class Installed(unittest.TestCase):
    """In a new environment, whose PATH has nothing but its own programs."""

    @classmethod
    def setUpClass(cls):
        cls.wheel, _ = packages()
        cls.root = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.env = os.path.join(cls.root, "my env")
        cls.bin = os.path.join(cls.env, "bin")
        cls.python = os.path.join(cls.bin, "python")
        subprocess.run([peers.PYTHON, "-m", "venv", cls.env], check=True)
        cls.before = files_of(cls.env)
        cls.pip("install", cls.wheel)
        (cls.site,) = glob.glob(os.path.join(cls.env, "lib", "python*", "site-packages"))
        cls.program = os.path.join(cls.site, "godwit", "bin", "godwit")

    @classmethod
    def pip(cls, *words):
        command = [cls.python, "-m", "pip", "--disable-pip-version-check", *words]
        subprocess.run(command, env=cls.variables(), check=True, capture_output=True)

    @classmethod
    def variables(cls, **more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GODWIT", "PYTHON", "LD_"))}
        return {**clean, **NO_RDMA, "PATH": cls.bin, **more}

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def call(self, *command, **more):
        """(exit status, stdout, stderr)"""
        done = subprocess.run(list(map(str, command)), env=self.variables(**more), cwd=self.folder, text=True,
                              capture_output=True, timeout=300, check=False)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def with_numpy(self):
        """Makes the environment see the NumPy of the tests' Python."""
        lacks = peers.lacks("numpy")
        if lacks:
            self.skipTest(lacks)
        code = "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))"
        place = subprocess.run([peers.PYTHON, "-c", code], check=True, capture_output=True, text=True).stdout
        link = pathlib.Path(self.site, "tests_numpy.pth")
        link.write_text(place)
        self.addCleanup(link.unlink)

    def test_the_command_the_module_and_the_program_are_one(self):
        plain = self.call(self.program, "--version")
        self.assertEqual((plain[0], plain[2]), (0, ""))
        self.assertEqual(self.call("godwit", "--version"), plain)
        self.assertEqual(self.call(self.python, "-m", "godwit", "--version"), plain)
        self.assertEqual(self.call("godwit", "no-such-command")[0], 2)
        self.assertEqual(self.call("godwit", "inspect", "missing")[0], self.call(self.program, "inspect", "missing")[0])
        _, out, err = self.call(self.python, "-c", "import godwit; from godwit._build import BUILD; print(BUILD)")
        self.assertRegex(out, "^[0-9a-f]{16}$", err)
        self.assertIn(f", build {out.strip()})", plain[1])

    def test_every_library_is_of_the_package_or_of_every_system(self):
        libraries = subprocess.run(["ldd", self.program], check=True, capture_output=True, text=True).stdout
        for line in libraries.splitlines():
            name, _, path = line.strip().partition(" => ")
            if os.path.normpath(path).startswith(os.path.join(self.site, "godwit.libs")) or "linux-vdso" in line:
                continue
            self.assertIn(os.path.basename(name.split()[0]), SYSTEM, line)

    def test_the_kernels_are_those_that_every_build_has(self):
        environment = {**self.variables(PATH=os.environ["PATH"]), "GODWIT_BUILD": os.path.dirname(self.program)}
        done = subprocess.run([sys.executable, HERE / "test_golden.py"], env=environment, text=True, capture_output=True,
                              timeout=LIMIT_S, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ok - ")

    def test_a_signal_reaches_the_program_and_its_exit_status_is_handed_on(self):
        command = ["godwit", "run", "digits", "--epochs", "100000", "--dir", "a", "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, env=self.variables(), cwd=self.folder, stdout=subprocess.PIPE, text=True) as peer:
            self.addCleanup(lambda: peer.poll() is None and peer.kill())
            for line in peer.stdout:
                if "listening on" in line:
                    break
            self.assertEqual(os.readlink(f"/proc/{peer.pid}/exe"), os.path.realpath(self.program))
            peer.send_signal(signal.SIGTERM)
            peer.stdout.read()
            by_command = peer.wait(timeout=60)
        command[0], command[6] = self.program, "b"
        with subprocess.Popen(command, env=self.variables(), cwd=self.folder, stdout=subprocess.PIPE, text=True) as peer:
            for line in peer.stdout:
                if "listening on" in line:
                    break
            peer.send_signal(signal.SIGTERM)
            peer.stdout.read()
            self.assertEqual(by_command, peer.wait(timeout=60))

    def test_without_rdma_a_program_runs_alone_and_on_two_peers(self):
        self.with_numpy()
        script = shutil.copy(os.path.join(peers.EXAMPLES, "kmeans.py"), self.folder)
        code, out, err = self.call(self.python, script, "20")
        self.assertEqual(code, 0, out + err)
        alone = peers.state_of(out + err)
        self.assertIsNotNone(alone, out + err)
        flock, output = [], ["", ""]
        common = ["godwit", "run", script, "--listen", "127.0.0.1:0", "--peers", "2"]
        for number in range(2):
            more = [] if number == 0 else ["--join", address]
            flock.append(subprocess.Popen([*common, "--dir", f"p{number}", *more, "--", "20"], env=self.variables(),
                                          cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))  # fmt: skip
            self.addCleanup(lambda peer=flock[-1]: peer.poll() is None and peer.kill())
            for line in flock[0].stdout if number == 0 else ():
                output[0] += line
                found = re.search(r"listening on (\S+)", line)
                if found:
                    address = found[1]
                    break
        for number, peer in enumerate(flock):
            output[number] += peer.communicate(timeout=300)[0]
            self.assertEqual((peer.returncode, peers.state_of(output[number])), (0, alone), output[number])
        code, out, err = self.call("godwit", "check", script)
        self.assertEqual(code, 0, out + err)
        code, _, err = self.call("godwit", "run", "digits", "--transport", "rdma", "--dir", "r", "--listen", "127.0.0.1:0")
        self.assertNotEqual(code, 0)
        self.assertIn("install the package libibverbs1", err)

    def test_scripts_run_with_the_python_that_it_was_installed_with(self):
        other = os.path.join(self.folder, "other")
        subprocess.run([peers.PYTHON, "-m", "venv", "--without-pip", other], check=True)
        script = pathlib.Path(self.folder, "job.py")
        script.write_text("import sys\nprint('python:', sys.executable, flush=True)\nimport godwit\n")
        options = ("--dir", "a", "--listen", "127.0.0.1:0")
        path = f"{other}/bin:{self.bin}"
        command = os.path.join(self.bin, "godwit")
        _, out, err = self.call(command, "run", script, *options, PATH=path)
        self.assertIn(f"python: {self.python}", out + err)
        code, _, err = self.call(command, "run", script, "--python", f"{other}/bin/python", *options, PATH=path)
        self.assertEqual(code, 1)
        self.assertIn(f"the Python is '{other}/bin/python', which --python names: install the module there", err)

    def test_a_program_of_another_build_is_refused(self):
        tree = os.path.join(os.environ.get("GODWIT_BUILD", str(TREE / "build")), "godwit")
        if not os.path.exists(tree):
            self.skipTest("there is no other build here")
        script = pathlib.Path(self.folder, "job.py")
        script.write_text("import godwit\n")
        code, _, err = self.call(tree, "run", script, "--python", self.python, "--dir", "a", "--listen", "127.0.0.1:0")
        self.assertEqual(code, 2)
        self.assertIn(f"the program {os.path.realpath(tree)} is of build", err)
        self.assertIn(f"run the module's own program ({self.program})", err)

    def test_a_new_job_in_c_finds_the_headers(self):
        self.assertEqual(self.call("godwit", "new-job", "mine")[0], 0)
        done = subprocess.run(["cc", "-std=c11", "-fsyntax-only", f"-I{self.site}/godwit/include/godwit", "mine.c"],
                              cwd=self.folder, text=True, capture_output=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_uninstalling_leaves_nothing(self):
        self.addCleanup(self.pip, "install", self.wheel)
        self.pip("uninstall", "--yes", "godwit")
        self.assertEqual(files_of(self.env), self.before)
        self.assertFalse(os.path.exists(os.path.join(self.site, "godwit")))


def missing():
    return None if shutil.which("cmake") and shutil.which("cc") else "no cmake or no compiler here"


if __name__ == "__main__":
    tap.main(missing, "wheel")
