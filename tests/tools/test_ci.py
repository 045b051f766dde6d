"""What runs for every change (.ci/run), with a stand-in for build.sh: how it ends, and that nothing outlives it."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lab"), str(HERE.parent.parent / "tools" / "lab")]
import members  # noqa: E402
import processes  # noqa: E402
import tap  # noqa: E402

SOURCE = HERE.parent.parent
PATIENCE_S = 300
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

GOOD = """
case $1 in
test) echo "3 passed, 0 failed, 1 skipped" ;;
lint) echo "lint: clean" ;;
esac
"""

# Both halves go on for ever, as pipelines, and beside each a process in a session of its own that has lost its parent.
ENDLESS = """
echo "$1 begins"
(setsid bash -c 'touch "apart-$1"; sleep 1000 & wait' bash "$1" &)
while [ ! -e "apart-$1" ]; do sleep 0.1; done
touch "began-$1"
sleep 1000 | cat
"""
STUBBORN = f"""
if [ "$1" = test ]; then trap '' TERM; fi
{ENDLESS}"""
# It passes, and leaves a process.
UNTIDY = f"""
if [ "$1" = test ]; then setsid sleep 1000 >/dev/null 2>&1 & fi
{GOOD}"""


def heed():
    """In a child: what a shell's background job or nohup ignores is ignored no longer."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


class Run(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.tree = pathlib.Path(folder) / "tree"
        (self.tree / ".ci").mkdir(parents=True)
        shutil.copy(SOURCE / ".ci" / "run", self.tree / ".ci" / "run")
        for room in ("tests", "tools"):
            (self.tree / room).symlink_to(SOURCE / room)
        self.logs = pathlib.Path(folder) / "logs"
        self.logs.mkdir()
        self.mark = f"GODWIT_TEST_MARK={uuid.uuid4()}"
        self.addCleanup(processes.kill_marked, self.mark)

    def builds(self, script):
        (self.tree / "build.sh").write_text(f"#!/usr/bin/env bash\n{script}")
        (self.tree / "build.sh").chmod(0o700)

    def start(self):
        name, value = self.mark.split("=")
        python = {"GODWIT_TEST_PYTHON": sys.executable}  # so that no packages are installed
        surroundings = {**os.environ, **python, name: value, "TMPDIR": str(self.logs)}
        process = subprocess.Popen([self.tree / ".ci" / "run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env=surroundings, preexec_fn=heed)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def outcome(self):
        """(exit code, the last two lines)"""
        process = self.start()
        said, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said.splitlines()[-2:]

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def under_way(self, script=ENDLESS):
        """A run of which both halves have begun."""
        self.builds(script)
        for name in (*self.tree.glob("began-*"), *self.tree.glob("apart-*")):
            name.unlink()
        process = self.start()
        self.wait_until(lambda: all((self.tree / f"began-{what}").exists() for what in ("test", "lint")))
        return process

    def script_of(self, process):
        """The number of the process of a run that is its script: the first one is who ends all."""
        parents = members.processes()
        [script] = [pid for pid, command in processes.marked(self.mark).items()
                    if command.endswith(".ci/run inside ") and parents[pid] == process.pid]
        return script

    def test_its_last_line_is_the_counts(self):
        self.builds(GOOD)
        self.assertEqual(self.outcome(), (0, ["lint: clean", "3 passed, 0 failed, 1 skipped"]))
        self.assertEqual(list(self.logs.iterdir()), [])

    def test_it_fails_when_one_half_does_or_nothing_is_counted(self):
        for what in ("test", "lint"):
            self.builds(f"{GOOD}[ $1 != {what} ]")
            self.assertEqual(self.outcome(), (1, ["not good: see above", "3 passed, 0 failed, 1 skipped"]))
        self.builds("true")
        self.assertEqual(self.outcome(), (1, []))

    def end(self, process, number):
        process.send_signal(number)
        process.wait(PATIENCE_S)
        self.assertEqual(processes.marked(self.mark), {})
        self.assertEqual(process.returncode, 128 + number)
        self.assertEqual(list(self.logs.iterdir()), [])

    def test_who_ends_it_ends_all_that_it_has_started(self):
        for number in ENDING:
            self.end(self.under_way(), number)

    def test_what_heeds_no_signal_is_killed(self):
        self.end(self.under_way(STUBBORN), signal.SIGTERM)

    def test_what_the_tests_leave_behind_is_ended(self):
        self.builds(UNTIDY)
        self.assertEqual(self.outcome()[0], 0)
        self.assertEqual(processes.marked(self.mark), {})

    def test_it_ends_when_who_ends_all_is_killed(self):
        process = self.under_way()
        script = self.script_of(process)
        process.kill()
        self.wait_until(lambda: script not in members.processes())

    def test_a_second_one_is_refused(self):
        first = self.under_way()
        code, said = self.outcome()
        self.assertEqual((code, len(said)), (1, 1))
        self.assertIn("another one runs in this tree", said[0])
        self.assertIsNone(first.poll())
        self.end(first, signal.SIGTERM)
        self.builds(GOOD)
        self.assertEqual(self.outcome()[0], 0)

    def test_none_begins_beside_the_tests_of_one_that_was_killed(self):
        first = self.under_way()
        script = self.script_of(first)
        first.send_signal(signal.SIGSTOP)  # else it would end what the script leaves
        os.kill(script, signal.SIGKILL)
        first.kill()
        first.wait(PATIENCE_S)
        self.assertEqual(self.outcome()[0], 1)
        processes.kill_marked(self.mark)
        self.assertEqual(processes.left(self.mark, PATIENCE_S), {})
        self.builds(GOOD)
        self.assertEqual(self.outcome()[0], 0)


if __name__ == "__main__":
    tap.main(lambda: None)
