"""The Python that runs programs, and the commands that become one another: `godwit check`, `python -m godwit`, and the
command of the Python package. The program of a wheel is tested by tests/tools/test_wheel.py."""

import os
import re
import shutil
import subprocess
import sys
import venv

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

PURE = """import os, sys
import godwit
import numpy
from godwit import arrays
os.write(2, f"arguments: {sys.argv[1:]}\\n".encode())
zero = numpy.zeros(2)
job = arrays.Job({"w": zero}, {"total": zero}, shards=3, updates=2)
calls = []
@job.shard
def shard(s, state):
    calls.append(s.shard)
    return {"total": state["w"] + s.shard + IMPURE}, 1
@job.update
def update(u, state, totals):
    state["w"] += totals["total"]
job.run()
"""


class Command(peers.Case):
    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def call(self, *command, **variables):
        """(exit status, stdout, stderr)"""
        done = subprocess.run(list(map(str, command)), env=peers.environment(**variables), text=True, cwd=self.folder,
                              capture_output=True, timeout=peers.LIMIT_S, check=False)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def without_module(self):
        """A Python that has no module godwit."""
        folder = os.path.join(self.folder, "other env")
        venv.create(folder, with_pip=False)
        return os.path.join(folder, "bin", "python")


class Check(Command):
    def test_nothing_or_what_is_not_pure_is_found_and_the_exit_status_says_which(self):
        if peers.lacks("numpy"):
            self.skipTest(peers.lacks("numpy"))
        python = ("--python", peers.PYTHON)
        pure = self.write("pure.py", PURE.replace("IMPURE", "0"))
        code, out, err = self.call(peers.BINARY, "check", *python, "--steps", "1", pure, "plain", "--", "--own", "3 4")
        self.assertEqual(code, 0, err)
        self.assertIn("nothing was found", out)
        self.assertIn("at the first state", out)
        self.assertIn("arguments: ['plain', '--own', '3 4']", err)
        impure = self.write("impure.py", PURE.replace("IMPURE", "len(calls)"))
        code, out, err = self.call(peers.BINARY, "check", impure, GODWIT_PYTHON=peers.PYTHON)
        self.assertEqual(code, 1, err)
        self.assertIn("is not pure", out)
        by_module = self.call(peers.PYTHON, "-m", "godwit", "check", impure)
        self.assertEqual(by_module[:2], (1, out))

    def test_what_cannot_be_checked_is_told(self):
        script = self.write("job.py", "import godwit\n")
        for arguments, text in (
            ([], "give the FILE.py to check"),
            (["job.so"], "'job.so' is no Python program"),
            (["--seed", "-1", script], "--seed"),
            (["--seed", "x", script], "--seed"),
            (["--pyton", "x", script], "did you mean '--python'?"),
            (["--python", "", script], "the name is empty"),
            (["--python", "/nowhere/python", script], "there is no Python '/nowhere/python', which --python names"),
            (["--python", self.folder, script], "Permission denied"),
            (["--python", peers.PYTHON, "missing.py"], "missing.py cannot be read"),
        ):
            code, out, err = self.call(peers.BINARY, "check", *arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertIn(text, err)
            self.assertNotIn("Traceback", err)
        code, _, err = self.call(peers.BINARY, "check", "--python", self.without_module(), script, PYTHONPATH="")
        self.assertEqual(code, 2)
        self.assertIn("has no module godwit: install it there", err)
        code, _, err = self.call(peers.BINARY, "check", script, GODWIT_PYTHON="/gone/bin/python")
        self.assertEqual(code, 2)
        self.assertIn("which godwit was installed with (GODWIT_PYTHON)", err)
        code, _, err = self.call(peers.BINARY, "check", script, PATH=self.folder)
        self.assertEqual(code, 2)
        self.assertIn("the first on the PATH", err)

    def test_the_options_and_bounds_are_those_of_the_check(self):
        """The command's complaint about a number out of bounds says the bounds, and so does the check's own."""
        code, out, _ = self.call(peers.PYTHON, "-m", "godwit", "check", "--help")
        self.assertEqual(code, 0)
        own = set(re.findall(r"(?m)^  (--[a-z]+) ", out))
        _, out, _ = self.call(peers.BINARY, "check", "--help")
        self.assertEqual(own, set(re.findall(r"(?m)^.{6}(--[a-z]+)=", out)) - {"--python"})
        for option in own:
            bounds = None
            for command in ((peers.BINARY, "check"), (peers.PYTHON, "-m", "godwit", "check")):
                code, _, err = self.call(*command, option, "99999999999999999999", "job.py")
                self.assertEqual(code, 2)
                found = re.findall(r"(?:from|between) (\d+) (?:to|and) (\d+)", err)
                self.assertEqual(len(found), 1, err)
                bounds = bounds or found
                self.assertEqual(found, bounds, option)

    def test_a_folder_of_the_modules_name_is_not_taken_for_it(self):
        os.mkdir(os.path.join(self.folder, "godwit"))
        open(os.path.join(self.folder, "job.py"), "w").close()
        code, _, err = self.call(peers.BINARY, "check", "--python", self.without_module(), "job.py", PYTHONPATH="")
        self.assertEqual(code, 2)
        self.assertIn("has no module godwit", err)


class Run(Command):
    def run_script(self, text, *options, **variables):
        script = self.write("job.py", text)
        return self.call(peers.BINARY, "run", script, *options, "--dir", "a", "--listen", "127.0.0.1:0", "--quiet", **variables)

    def test_a_python_that_is_missing_or_lacks_a_module_is_named(self):
        other = self.without_module()
        code, _, err = self.run_script("import godwit\n", "--python", "/nowhere/python")
        self.assertEqual(code, 2)
        self.assertIn("there is no program '/nowhere/python': it is the Python that runs the script, which --python names", err)
        code, _, err = self.run_script("import godwit\n", GODWIT_PYTHON="/gone/bin/python")
        self.assertEqual(code, 2)
        self.assertIn("which godwit was installed with", err)
        code, _, err = self.run_script("import godwit\n", "--python", other, PYTHONPATH="")
        self.assertEqual(code, 1)
        self.assertIn("No module named 'godwit'", err)
        self.assertIn(f"the Python is '{other}', which --python names: install the module there", err)
        code, _, err = self.run_script("import godwit, no_such_module\n", "--python", other)
        self.assertIn("No module named 'no_such_module'", err)
        self.assertIn(f"the Python is '{other}'", err)

    def test_a_module_of_another_build_is_refused_with_both(self):
        place = os.path.join(self.folder, "module")
        shutil.copytree(os.path.join(peers.MODULE, "godwit"), os.path.join(place, "godwit"))
        with open(os.path.join(place, "godwit", "_build.py"), "w") as file:
            file.write('BUILD = "0123456789abcdef"\n')
        code, _, err = self.run_script("import godwit\n", "--python", peers.PYTHON, PYTHONPATH=place)
        self.assertNotEqual(code, 0)
        for text in (f"the program {os.path.realpath(peers.BINARY)} is of build ", f"the module {place}/godwit of build 0123456789abcdef",
                     "run the module's own program", "--python"):
            self.assertIn(text, err)
        script = self.write("alone.py", PURE.replace("IMPURE", "0"))
        if not peers.lacks("numpy"):
            done = subprocess.run([peers.PYTHON, script], env=peers.environment(PYTHONPATH=place), text=True,
                                  capture_output=True, timeout=peers.LIMIT_S, check=False)  # fmt: skip
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"the program {peers.BINARY} is of build ", done.stderr)


class Become(Command):
    """What the command of the package, and `python -m godwit`, hand on to the program."""

    PROGRAM = "#!/bin/sh\n" 'echo "python=$GODWIT_PYTHON threads=$OMP_NUM_THREADS $*"\ngrep SigIgn /proc/$$/status\nexit 7\n'

    def test_arguments_environment_signals_and_exit_status(self):
        program = self.write("program", self.PROGRAM)
        os.chmod(program, 0o755)
        ignored = f"SigIgn:\t{0:016x}\n"
        code, out, err = self.call(peers.PYTHON, "-m", "godwit", "run", "a b", GODWIT=program, OMP_NUM_THREADS="5")
        self.assertEqual((code, out), (7, f"python={peers.PYTHON} threads=5 run a b\n{ignored}"), err)
        code, out, err = self.call(peers.PYTHON, "-m", "godwit", "run", GODWIT=program, GODWIT_PYTHON="/my/python",
                                   OMP_NUM_THREADS="")  # fmt: skip
        self.assertEqual((code, out), (7, f"python=/my/python threads= run\n{ignored}"), err)
        code, out, err = self.call(peers.PYTHON, "-m", "godwit", "run", GODWIT="/nowhere")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("GODWIT: /nowhere is no program", err)

    def test_the_command_of_a_package_without_its_program_says_what_to_do(self):
        code, out, err = self.call(peers.PYTHON, "-c", "import godwit_command; godwit_command.main()")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("godwit/bin/godwit cannot be started: No such file or directory; install the wheel of godwit again", err)


def missing():
    return None if os.path.exists(peers.BINARY) else "it is not built"


if __name__ == "__main__":
    tap.main(missing, "godwit")
