"""godwit map on real processes: outputs and their order, ends of all kinds, halts, retries, the job log, signals."""

import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

BUILD = os.environ.get("GODWIT_BUILD", os.path.realpath(os.path.join(HERE, "..", "..", "build")))
GODWIT = os.path.join(BUILD, "godwit")
PATIENCE = 300


class Map(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_fifo(self, name):
        os.mkfifo(self.path(name))
        return self.path(name)

    def map(self, *arguments, code=0, inputs="", errors=None, **more):
        """Runs a map to its end. Returns its output; what it says on standard error must match `errors`."""
        done = subprocess.run([GODWIT, "map", *arguments], input=inputs.encode() if isinstance(inputs, str) else inputs,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, cwd=self.folder, **more)
        said = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, said)
        if errors is None:
            self.assertEqual(said, "")
        else:
            self.assertRegex(said, errors)
        return done.stdout.decode(errors="surrogateescape")

    def start(self, *arguments, **more):
        process = subprocess.Popen([GODWIT, "map", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, cwd=self.folder, **more)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def wait_until(self, true):
        end = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), end, "it takes too long")
            time.sleep(0.005)

    def numbers(self, name):
        """The numbers that tasks have added to a file."""
        try:
            with open(self.path(name)) as file:
                return [int(word) for word in file.read().split()]
        except FileNotFoundError:
            return []

    def gone(self, pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    # Commands and outputs.

    def test_each_input_is_a_task(self):
        self.assertEqual(sorted(self.map("echo", "+{}+", ":::", "a", "b c", "it's").splitlines()), ["+a+", "+b c+", "+it's+"])
        self.assertEqual(self.map("-k", "echo", inputs="x\n\ny"), "x\n\ny\n")
        self.assertEqual(self.map("-k", "-j2", "echo {1}-{2}; true", ":::", "a", "b", ":::", "1", "2"), "a-1\na-2\nb-1\nb-2\n")
        self.assertEqual(self.map("echo", inputs=""), "")
        self.assertEqual(self.map("echo", ":::"), "")
        self.assertEqual(self.map("-k", ":::", "echo a | tr a b", "echo c"), "b\nc\n")

    def test_odd_bytes_reach_the_task_and_its_output_is_unchanged(self):
        odd = bytes(byte for byte in range(1, 256) if byte != 10)
        for command in (["printf", "%s"], ["printf %s {};"]):
            got = self.map(*command, inputs=odd + b"\n").encode(errors="surrogateescape")
            self.assertEqual(got, odd)
        self.assertEqual(self.map("-0", "printf", "%s", inputs=b"a\nb\0"), "a\nb")
        self.assertEqual(self.map("printf 'a\\0b\\n'; true", ":::", "x"), "a\0b\n")

    def test_tasks_know_who_they_are(self):
        out = self.map("-k", "-j1", "--env", "MINE=yes", "echo $GODWIT_TASK $GODWIT_ATTEMPT $MINE {#} {%} ${#GODWIT_JOB}; true",
                       ":::", "a", "b", env={**os.environ, "GODWIT_TASK": "old", "MINE": "no"})
        self.assertEqual(out, "1 1 yes 1 1 16\n2 1 yes 2 1 16\n")
        os.mkdir(self.path("there"))
        self.assertEqual(self.map("--workdir", "there", "pwd; true", ":::", "a").strip(),
                         os.path.realpath(self.path("there")))
        self.assertEqual(self.map("--nice", "3", "nice; true", ":::", "a").strip(), str(os.nice(0) + 3))
        self.assertEqual(self.map("cat; echo {}", ":::", "a"), "a\n", "tasks read nothing")

    def test_outputs_do_not_mix_and_keep_their_order(self):
        """The first task ends last: it waits for the others' marks."""
        self.make_fifo("go")
        command = ("printf 'begin {} '; if [ {} = 1 ]; then cat GO; else echo; [ {} = 4 ] && echo went > GO; fi; "
                   "echo end {}; echo error {} >&2")
        process = self.start("-k", "-j4", command.replace("GO", "go"), ":::", "1", "2", "3", "4")
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(out.decode(), "begin 1 went\nend 1\nbegin 2 \nend 2\nbegin 3 \nend 3\nbegin 4 \nend 4\n")
        self.assertEqual(errors.decode(), "error 1\nerror 2\nerror 3\nerror 4\n")
        self.make_fifo("go2")
        out = self.map("-j4", command.replace("GO", "go2"), ":::", "1", "2", "3", "4", errors="error")
        self.assertEqual(sorted(re.findall(r"begin (\d) (?:went)?\nend \1\n", out)), ["1", "2", "3", "4"])

    def test_lines_come_as_they_are_written(self):
        self.make_fifo("go")
        process = self.start("--line-buffer", "--tag", "-j2", "echo first; printf par; read x < go; echo tial $x; true {}",
                             ":::", "a b")
        self.assertEqual(process.stdout.readline(), b"a b\tfirst\n")
        with open(self.path("go"), "w") as go:
            go.write("end\n")
        self.assertEqual(process.communicate(timeout=PATIENCE)[0], b"a b\tpartial end\n")
        out = self.map("-k", "--line-buffer", "-j3", "echo a{}; echo b{}", ":::", "1", "2", "3")
        self.assertEqual(out, "a1\nb1\na2\nb2\na3\nb3\n")
        self.assertEqual(self.map("-k", "--tagstring", "<{}>", "printf 'x\\ny'; true", ":::", "1", "2"),
                         "<1>\tx\n<1>\ty<2>\tx\n<2>\ty")
        self.assertEqual(self.map("-u", "-j1", "echo", ":::", "1", "2"), "1\n2\n")

    def test_large_outputs_take_little_memory(self):
        size = 40_000_000
        command = f"head -c {size} /dev/zero | tr '\\0' {{}}; echo"
        script = 'import os, resource, subprocess, sys; subprocess.run(sys.argv[1:]); ' \
                 'print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)'
        done = subprocess.run([sys.executable, "-c", script, GODWIT, "map", "-k", "-j4", "--tmpdir", self.folder, command, ":::",
                               *"abcd"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
        wanted = hashlib.blake2b(b"".join(letter * size + b"\n" for letter in (b"a", b"b", b"c", b"d"))).digest()
        self.assertEqual(hashlib.blake2b(done.stdout).digest(), wanted)
        if "UBSAN_OPTIONS" not in os.environ:  # a sanitizer has memory of its own
            self.assertLess(int(done.stderr), 120_000, "KiB")
        self.assertEqual(os.listdir(self.folder), [], "nothing is left behind")

    def test_many_inputs_stream(self):
        count = 200_000
        out = self.map("--dry-run", "x", inputs="".join(f"{i}\n" for i in range(count)))
        self.assertEqual(out, "".join(f"x {i}\n" for i in range(count)))

    def test_inputs_are_read_as_they_come(self):
        process = subprocess.Popen([GODWIT, "map", "--line-buffer", "echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        for word in (b"one\n", b"two\n"):
            process.stdin.write(word)
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), word)
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_what_a_task_leaves_behind_holds_nobody_up(self):
        """The child that a task leaves holds its pipe, and lives on, even where it writes."""
        self.make_fifo("go")
        process = self.start("-j1", "echo task {}; (cat go; echo late; echo alive > mark) & echo $! > pid", ":::", "a")
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(out, b"task a\n")
        child = self.numbers("pid")[0]
        self.assertFalse(self.gone(child))
        os.killpg(os.getpgid(child), signal.SIGKILL)
        self.make_fifo("on")
        second = self.make_fifo("second")
        process = self.start("-j1", "if [ {} = 1 ]; then (cat on; echo late; echo alive > mark) & else touch begun; cat second; fi",
                             ":::", "1", "2")
        self.wait_until(lambda: os.path.exists(self.path("begun")))  # the first task has ended
        with open(self.path("on"), "w") as go:
            go.write("on\n")
        self.wait_until(lambda: os.path.exists(self.path("mark")))
        with open(second, "w") as go:
            go.write("end\n")
        self.assertEqual(process.communicate(timeout=PATIENCE)[0], b"end\n", "what came late is dropped")

    # Ends.

    def test_the_exit_code_counts_failures(self):
        self.map("exit {}", ":::", "0", "1", "2", code=2)
        self.map("-j8", "false", ":::", *map(str, range(120)), code=101)
        self.map("kill -9 $$; true", ":::", "a", code=1)
        self.map("no-such-program", ":::", "a", code=1, errors="no-such-program.*not found")
        self.map("--no-such-option", ":::", "a", code=255, errors="no-such-option")
        self.map("echo", "::::", "no-such-file", code=255, errors="no-such-file")
        self.map("true", inputs="x" * 200_000, code=1, errors="task 1: .*Argument list too long")

    def test_halts(self):
        def tasks(halt, code, *results):
            return self.map("-k", "-j1", "--halt", halt, "echo {}; exit {}", ":::", *results, code=code, errors="^").split()
        self.assertEqual(tasks("now,fail=1", 3, "0", "3", "0"), ["0", "3"])
        self.assertEqual(tasks("soon,fail=2", 2, "3", "0", "4", "0"), ["3", "0", "4"])
        self.assertEqual(tasks("soon,success=1", 0, "3", "0", "4"), ["3", "0"])
        self.assertEqual(tasks("now,done=2", 1, "0", "3", "4"), ["0", "3"])
        self.assertEqual(tasks("soon,fail=50%", 50, "1", "0", "1", "0"), ["1", "0", "1"])
        self.assertEqual(tasks("soon,fail=90%", 50, "1", "0"), ["1", "0"])
        self.assertEqual(tasks("never", 2, "1", "0", "1"), ["1", "0", "1"])

    def test_a_halt_ends_the_others(self):
        self.make_fifo("go")
        out = self.map("-k", "-j2", "--halt", "now,fail=1", "--joblog", "log",
                       "if [ {} = 1 ]; then echo $$ > pid; echo on > go; exec sleep 1000; else cat go; exit 7; fi",
                       ":::", "1", "2", "3", code=7, errors="--halt")
        self.assertEqual(out, "on\n")
        self.assertTrue(self.gone(self.numbers("pid")[0]))
        with open(self.path("log")) as log:
            self.assertRegex(log.read(), r"(?s)\n2\t.*\t7\t0\t.*\n1\t.*\t0\t15\t")

    def test_a_failure_is_tried_again(self):
        self.map("-j1", "--retries", "3", "echo $GODWIT_ATTEMPT >> tried; false", ":::", "a", code=1)
        self.assertEqual(self.numbers("tried"), [1, 2, 3])
        out = self.map("-j2", "-k", "--retries", "5", "echo attempt $GODWIT_ATTEMPT; [ $GODWIT_ATTEMPT -ge {} ]", ":::", "3", "1")
        self.assertEqual(out, "attempt 3\nattempt 1\n", "what failed attempts wrote is dropped")

    def test_a_task_that_takes_too_long_is_ended(self):
        begun = time.monotonic()
        self.map("--timeout", "50ms", "--joblog", "log", "sleep 1000 & echo $! >> pids; wait # {}", ":::", "a", "b", code=2,
                 errors="task 1 took too long and is ended")
        self.map("--timeout", "50ms", "--grace", "50ms", "trap '' TERM; echo $$ >> pids; while :; do sleep 1000; done # {}", ":::",
                 "a", code=1, errors="took too long")
        self.assertLess(time.monotonic() - begun, PATIENCE / 2)
        for pid in self.numbers("pids"):
            self.wait_until(lambda: self.gone(pid))
        with open(self.path("log")) as log:
            self.assertEqual(len(re.findall(r"\t-1\t15\t", log.read())), 2)
        self.map("-j1", "--timeout", "1000%", "if [ {} = 5 ]; then exec sleep 1000; fi", ":::", *"123456", code=1,
                 errors="task 5 took too long")

    # The job log.

    def log_tasks(self, name="log"):
        with open(self.path(name)) as log:
            lines = log.read().splitlines()
        self.assertEqual(lines[0].split("\t")[::8], ["Seq", "Command"])
        return [(line.split("\t")[0], line.split("\t")[6]) for line in lines[1:]]

    def test_a_map_goes_on_by_its_job_log(self):
        def tasks(*arguments, code, **more):
            return self.map("-k", "-j1", "--joblog", "log", *arguments, code=code, **more).split()
        command = ["echo {}; [ -e good ] || exit {}", ":::", "0", "1", "0", "2"]
        self.assertEqual(tasks("--halt", "soon,fail=1", *command, code=1, errors="--halt"), ["0", "1"])
        self.assertEqual(self.log_tasks(), [("1", "0"), ("2", "1")])
        self.assertEqual(tasks("--resume", *command, code=1), ["0", "2"])
        open(self.path("good"), "w").close()
        self.assertEqual(tasks("--resume-failed", *command, code=0), ["1", "2"])
        self.assertEqual(tasks("--resume-failed", *command, code=0), [])
        self.assertEqual(self.log_tasks()[-2:], [("2", "0"), ("4", "0")])
        self.assertEqual(tasks(*command, code=0), ["0", "1", "0", "2"])
        self.assertEqual(len(self.log_tasks()), 4, "a new map begins a new log")
        os.remove(self.path("good"))
        self.assertEqual(tasks("--resume-failed", *command, "5", code=1), ["5"])
        open(self.path("good"), "w").close()
        self.assertEqual(tasks("--retry-failed", code=0), ["5"])
        self.assertEqual(self.log_tasks()[-1], ("5", "0"))
        self.map("--resume", "echo", ":::", "a", code=255, errors="give --joblog")

    def test_results_are_files(self):
        self.map("--results", "out", "echo {1}{2}; echo {2} >&2", ":::", "a/b", "..", ":::", "x", errors="x")
        with open(self.path("out/1/a\\_b/2/x/stdout")) as file:
            self.assertEqual(file.read(), "a/bx\n")
        with open(self.path("out/1/\\../2/x/stderr")) as file:
            self.assertEqual(file.read(), "x\n")
        self.assertEqual(os.listdir(self.folder), ["out"])

    def test_json(self):
        def run(*arguments):
            lines = self.map("--json", *arguments, "printf '%s\\0' {}; echo e >&2; exit {}", ":::", "0", "3", code=1)
            return [json.loads(line) for line in lines.splitlines()]
        first, second, result = run("-k", "-j2")
        self.assertEqual((first["task"], first["inputs"], first["exit"], first["bytes"]), (1, ["0"], 0, 2))
        self.assertEqual((second["task"], second["exit"], second["errors"]), (2, 3, "e\n"))
        self.assertEqual(first["hash"], hashlib.blake2b(b"0\0", digest_size=32).hexdigest())
        self.assertEqual((result["tasks"], result["failed"]), (2, 1))
        self.assertEqual(run("-j1", "--retries", "2")[-1]["result"], result["result"], "the result depends on outputs alone")

    # Signals, and what goes wrong around a map.

    def test_ctrl_c_once_lets_tasks_end_and_twice_ends_them(self):
        self.make_fifo("go")
        for times in (1, 2):
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(self.folder)
                os.execv(GODWIT, [GODWIT, "map", "-j1", "--joblog", "log",
                                  f"echo $$ >> pids{times}; echo begun; read x < go; echo got $x; true {{}}", ":::", "a", "b"])
            said = b""
            self.wait_until(lambda: self.numbers(f"pids{times}"))
            os.write(terminal, b"\x03")
            while b"goes on" not in said:
                said += os.read(terminal, 1000)
            if times == 1:
                with open(self.path("go"), "w") as go:
                    go.write("it\n")
            else:
                os.write(terminal, b"\x03")
            while True:
                try:
                    said += os.read(terminal, 1000)
                except OSError:
                    break
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 130)
            os.close(terminal)
            self.assertEqual(b"got it" in said, times == 1, said)
            tasks = self.numbers(f"pids{times}")
            self.assertEqual(len(tasks), 1, "no task begins after Ctrl-C")
            self.assertTrue(self.gone(tasks[0]))
            self.assertEqual(self.log_tasks(), [("1", "0")])

    def test_sigterm_twice_ends_tasks_and_a_killed_map_takes_them_along(self):
        for kill in (False, True):
            name = f"pids{kill}"
            process = self.start("-j2", "--grace", "50ms", f"trap '' HUP; echo $$ >> {name}; exec sleep 1000; {{}}", ":::", "a", "b")
            self.wait_until(lambda: len(self.numbers(name)) == 2)
            if kill:
                process.kill()
            else:
                process.send_signal(signal.SIGTERM)
                self.assertIn(b"2 go on", process.stderr.readline())
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, -9 if kill else 128 + 15)
            for pid in self.numbers(name):
                self.wait_until(lambda: self.gone(pid))

    def test_a_reader_that_leaves_ends_the_map(self):
        process = self.start("-j2", "echo {}; echo {} >> ran", ":::", *map(str, range(20000)))
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        self.assertEqual(process.wait(PATIENCE), 128 + 13)
        self.assertLess(len(self.numbers("ran")), 20000)

    def test_a_reader_that_waits_holds_up_tasks_and_not_signals(self):
        process = self.start("-j2", "head -c 300000 /dev/zero; echo {} >> ran", ":::", *map(str, range(1000)))
        self.wait_until(lambda: len(self.numbers("ran")) >= 4)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        self.assertIn(process.wait(PATIENCE), (128 + 1, 128 + 15), "the two may come in either order")
        self.assertLess(len(self.numbers("ran")), 100, "outputs do not heap up")

    def test_full_disks_are_told(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([GODWIT, "map", "echo", ":::", "a", "b"], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
        self.assertEqual(done.returncode, 255)
        self.assertIn(b"cannot write to standard output: No space left", done.stderr)
        self.map("--joblog", "/dev/full", "true", ":::", "a", code=255, errors="--joblog: cannot write '/dev/full'")
        self.map("--tmpdir", "none", "true", ":::", "a", code=255, errors="--tmpdir: 'none'")

    def test_many_tasks_at_a_time(self):
        """Each of 300 tasks waits until all of them run."""
        go = os.open(self.make_fifo("go"), os.O_RDWR)
        self.addCleanup(os.close, go)
        process = self.start("-j0", "echo {} >> here; read line < go", ":::", *map(str, range(300)))
        self.wait_until(lambda: len(self.numbers("here")) == 300)
        os.write(go, b"\n" * 300)
        self.assertEqual(process.wait(PATIENCE), 0)
        out = self.map("-k", "-j100", "ulimit -n; true {}", ":::", "1", "2",
                       preexec_fn=lambda: __import__("resource").setrlimit(7, (64, 256)), errors="no more descriptors")
        self.assertEqual(out, "64\n64\n", "tasks have the limit that the map was given")

    def test_progress_is_shown_on_a_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(GODWIT, [GODWIT, "map", "--bar", "-j1", "echo out{}; true", ":::", "1", "2"])
        said = b""
        while True:
            try:
                said += os.read(terminal, 1000)
            except OSError:
                break
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIn(b"0 of 2", said)
        self.assertRegex(said, rb"\r\x1b\[Kout1", "the line goes before anything else is printed")


if __name__ == "__main__":
    tap.main()
