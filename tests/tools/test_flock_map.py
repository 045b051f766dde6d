"""`godwit map` on a flock: what it prints is what it prints on one machine, whoever is killed meanwhile."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_flock import GODWIT, PATIENCE, Case, folder_for, tap  # noqa: E402
from members import send  # noqa: E402


class Map(Case):
    def begin(self, member, *arguments, cwd=None):
        """Starts a map at a member."""
        environment = {"PATH": os.environ["PATH"], "HOME": member.flock.folder, **member.flock.mark}
        process = subprocess.Popen([GODWIT, "map", "--flock", member.directory, "--env", next(iter(member.flock.mark)), *arguments],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=cwd or self.folder, env=environment)
        for end in process.stdout.close, process.stderr.close, process.wait, process.kill:
            self.addCleanup(end)
        return process

    def end(self, process):
        """Waits for a map. Returns its exit code, output and errors."""
        output, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, output, errors

    def map(self, member, *arguments, **more):
        return self.end(self.begin(member, *arguments, **more))

    def map_here(self, *arguments):
        return subprocess.run([GODWIT, "map", "--here", *arguments], capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, cwd=self.folder)

    def setUp(self):
        self.folder = folder_for(self)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def make(self, name, text=""):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)

    def children(self, *members):
        """The processes of maps on nodes, without their keepers."""
        return [pid for member in members for job in member.keepers().values() for pid in member.children(job)]

    def effects(self):
        """How often each task has left a file."""
        count = {}
        for name in os.listdir(self.path("effects")):
            task = name.split(".")[0]
            count[task] = count.get(task, 0) + 1
        return count

    def test_it_prints_what_one_machine_prints(self):
        a, b = self.flock(2, ["--cores", "4"])
        for arguments in (["-k", "echo {2}-{1}; echo {#} >&2", ":::", "x y", "z", ":::", "1", "2"],
                          ["-k", "--tag", "exit {}", ":::", "0", "3", "0", "1"],
                          ["-k", "-n2", "echo", ":::", *map(str, range(7))],
                          ["-k", "--retries", "2", "test $GODWIT_ATTEMPT = 2 && echo {}", ":::", "p", "q"],
                          ["-k", "--timeout", "3s", "sleep {}; echo slept", ":::", "0", "60"],
                          ["echo", ":::"]):
            there, here = self.map(a, *arguments), self.map_here(*arguments)
            self.assertEqual(there[:2], (here.returncode, here.stdout), f"{arguments}: {there[2]}")
        # One that takes too long is told of, and is no other task that a signal has ended.
        arguments = ["-k", "--timeout", "1s", "kill -TERM $$; sleep {}", ":::", "0"], ["--timeout", "1s", "sleep", ":::", "60"]
        ends = []
        for run in (lambda *words: self.map(a, *words)[::2], lambda *words: (
                lambda done: (done.returncode, done.stderr))(self.map_here(*words))):
            ends.append([(*run("--joblog", "ends", *words), [line.split("\t")[6:8] for line in self.lines(self.path("ends"))[1:]])
                         for words in arguments])
        self.assertEqual(ends[0], ends[1])
        self.assertEqual(ends[0][1], (1, "godwit map: task 1 took too long and is ended\n", [["-1", "15"]]))
        self.assertEqual(self.map(a, "-t", "echo {}; :", ":::", "1"), (0, "1\n", "echo 1; :\n"))
        arguments = ["--json", "echo {}; exit {}", ":::", "1", "2"]
        results = [json.loads(text.splitlines()[-1])["result"]
                   for text in (self.map(b, *arguments)[1], self.map_here(*arguments).stdout)]
        self.assertEqual(results[0], results[1])

    def test_outputs_logs_and_results_come_back(self):
        _, b, _ = self.flock(3, ["--cores", "2"])
        code, output, errors = self.map(b, "-k", "--joblog", "log", "--results", "out", "head -c {} /dev/zero | tr '\\0' x",
                                        ":::", "0", "3000000", "5")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(output, "x" * 3000005)
        logged = [line.split("\t") for line in self.lines(self.path("log"))[1:]]
        self.assertEqual(sorted(line[0] for line in logged), ["1", "2", "3"])
        self.assertLessEqual({line[1] for line in logged}, {"n1", "n2", "n3"}, "who ran them")
        self.assertTrue(os.path.isdir(self.path("out")))
        code, output, errors = self.map(b, "-k", "--joblog", "log", "--resume-failed", "echo {}", ":::", "0", "3000000", "5", "6")
        self.assertEqual((code, output), (0, "6\n"), errors)

    def test_inputs_may_have_more_than_what_else_travels(self):
        a, _ = self.flock(2, ["--cores", "2"])
        self.make("inputs", "".join(f"{i} {'x' * 100000}\n" for i in range(180)))
        code, output, errors = self.map(a, "-k", "--colsep", " ", "echo {1}", "::::", "inputs")
        self.assertEqual((code, output), (0, "".join(f"{i}\n" for i in range(180))), errors)

    def test_inputs_that_do_not_end_are_told_of(self):
        a, = self.flock(1)
        process = subprocess.Popen([GODWIT, "map", "--flock", a.directory, "echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.addCleanup(process.kill)
        process.stdin.write("one\n")
        process.stdin.flush()
        self.assertIn("the inputs have not ended", process.stderr.readline())
        output, errors = process.communicate("two\n", timeout=PATIENCE)
        self.assertEqual((process.returncode, sorted(output.split()), errors), (0, ["one", "two"], ""))

    def test_a_program_travels_to_where_its_directory_is_not_and_files_come_back(self):
        a, _ = self.flock(2, ["--cores", "2"])
        project = self.path("project")
        self.make("project/show.py", "import helper, sys\nprint(helper.VALUE, sys.argv[1])")
        self.make("project/helper.py", "VALUE = 'helped'")
        self.make("project/data.txt", "data\n")
        self.make("project/in/x.txt", "first\n")
        self.make("project/in/y.txt", "second\n")
        os.symlink("nowhere", self.path("project/.godwit-token"))  # no node can know this directory
        code, output, errors = self.map(a, "-k", "--files", "data.txt", sys.executable, "show.py", ":::", "1", "2", cwd=project)
        self.assertEqual((code, output), (0, "helped 1\nhelped 2\n"), errors)
        self.assertIn("empty directories", errors)
        code, output, errors = self.map(a, "-k", "--trc", "out/{/.}.up", "--fetch", "{.}.no",
                                        "mkdir -p out; tr a-z A-Z < {} > out/{/.}.up; chmod +x out/{/.}.up",
                                        ":::", "in/x.txt", "in/y.txt", cwd=project)
        self.assertEqual((code, output), (0, ""), errors)
        for name, text in ("x", "FIRST"), ("y", "SECOND"):
            self.assertIn(f"godwit map: --fetch: there is no file in/{name}.no to be brought back\n", errors)
            self.assertEqual(self.lines(project, "out", name + ".up"), [text])
            self.assertTrue(os.access(os.path.join(project, "out", name + ".up"), os.X_OK))
        code, output, errors = self.map(a, "--detach", "--name", "later", "--files", "data.txt", "cat data.txt; : {}", ":::", "1", cwd=project)
        self.assertRegex(output, "^later [0-9a-f]{8}\n$")
        a.wait("later")

    def test_killed_children_members_and_nodes_change_nothing(self):
        flock = self.flock(3, ["--cores", "4"])
        a, b, c = flock
        os.mkdir(self.path("effects"))
        process = self.begin(a, "-k", "sleep 0.05; touch effects/{}.$$; echo {}", ":::", *map(str, range(400)))
        self.until("the map has begun", lambda: len(self.effects()) > 40)
        send([pid for pid in self.children(b) if self.is_map(pid)], signal.SIGKILL)
        self.until("it goes on without a child", lambda: len(self.effects()) > 120)
        c.lose_power()
        self.until("it goes on without a node", lambda: len(self.effects()) > 200)
        a.kill()  # the member that the command in front asks, and whose child goes on
        a.start([b])
        c.start([b])  # what its tasks have written is on its disk
        code, output, errors = self.end(process)
        self.assertEqual((code, output), (0, "".join(f"{i}\n" for i in range(400))), errors)
        effects = self.effects()
        self.assertEqual(len(effects), 400)
        self.assertLess(sum(effects.values()), 400 + 60, "only what ran, or was known to few, is done twice")

    def lose_for_good(self, member):
        """Ends a node whose disk nobody sees again."""
        member.lose_power()
        shutil.rmtree(member.directory)

    def test_outputs_outlive_the_node_that_ran_their_tasks(self):
        a, b, c = self.flock(3, ["--cores", "4"])
        os.mkdir(self.path("effects"))
        process = self.begin(a, "-k", "--tag", "sleep 0.05; touch effects/{}.$$; head -c 20000 /dev/zero | tr '\\0' {}; echo", ":::",
                             *"abcdefghij" * 20)
        self.until("the map has begun", lambda: os.listdir(self.path("effects")))
        os.kill(process.pid, signal.SIGSTOP)  # nothing more is fetched before a node has gone
        self.until("it goes on", lambda: len(os.listdir(self.path("effects"))) > 80)
        self.lose_for_good(c)
        os.kill(process.pid, signal.SIGCONT)
        code, output, errors = self.end(process)
        self.assertEqual(code, 0, errors)
        self.assertTrue(output == "".join(f"{x}\t{x * 20000}\n" for x in "abcdefghij" * 20))

    def test_the_node_on_which_a_map_has_ended_is_waited_for_where_no_other_has_its_rows(self):
        a, b = self.flock(2, ["--cores", "2"])
        a.do("drain", "n1")
        os.mkdir(self.path("effects"))
        process = self.begin(a, "-k", "--name", "there", "touch effects/{}.$$; while [ ! -e go ]; do sleep 0.05; done; echo {}", ":::",
                             *"123456")
        self.until("the map has begun on the other node", lambda: len(self.effects()) == 2)
        os.kill(process.pid, signal.SIGSTOP)
        self.make("go")
        a.wait("there")
        b.lose_power()
        os.kill(process.pid, signal.SIGCONT)
        self.assertIn("is waited for", process.stderr.readline())
        b.start([a])
        self.assertEqual(self.end(process), (0, "1\n2\n3\n4\n5\n6\n", ""))

    def test_results_of_a_detached_map_come_though_nodes_have_gone_for_good(self):
        a, b, c, d = self.flock(4, ["--cores", "2"])
        os.mkdir(self.path("effects"))
        os.mkdir(self.path("project"))
        os.symlink("nowhere", self.path("project/.godwit-token"))  # no node can know this directory
        effects = self.path("effects")
        script = f"sleep 0.05; touch {effects}/{{}}.$$; echo out {{}}; echo err {{}} >&2; echo file {{}} > {{}}.txt; test {{}} != 7"
        code, output, errors = self.map(a, "--detach", "--name", "films", "--fetch", "{}.txt", script, ":::", *map(str, range(300)),
                                        cwd=self.path("project"))
        self.assertEqual(code, 0, errors)
        self.until("the map has begun", lambda: len(self.effects()) > 100)
        self.lose_for_good(d)
        a.wait("films", code=1)
        self.lose_for_good(c)
        text = a.do("results", "--json", "-o", self.path("films"), "films")
        self.assertEqual(json.loads(text), {"folder": self.path("films"), "tasks": 300, "ended": 300, "failed": 1})
        for name in "out", "err":
            self.assertEqual(self.lines(self.path("films"), name), [f"{name} {i}" for i in range(300)])
        told = [json.loads(line) for line in self.lines(self.path("films"), "tasks.jsonl")]
        self.assertEqual([(task["task"], task["inputs"], task["exit"]) for task in told],
                         [(i + 1, [str(i)], int(i == 7)) for i in range(300)])
        self.assertEqual(len({task["node"] for task in told}), 4, "each node has run some")
        self.assertEqual(sorted(os.listdir(self.path("films", "work"))), sorted(f"{i}.txt" for i in range(300) if i != 7))
        self.assertEqual(self.lines(self.path("films"), "work", "299.txt"), ["file 299"])

    def test_a_task_that_kills_what_runs_it_fails_after_two_and_others_go_on(self):
        for count in 1, 3:
            folder = self.path(str(count))
            os.makedirs(os.path.join(folder, "effects"))
            flock = self.flock(count, ["--cores", "4"])
            code, output, errors = self.map(flock[0], "-k", "--json",
                                            "touch effects/{}.$$; sleep 0.1; if [ {} = 9 ]; then kill -9 $PPID; sleep 60; fi; echo {}",
                                            ":::", *map(str, range(60)), cwd=folder)
            lines = [json.loads(line) for line in output.splitlines()]
            self.assertEqual(code, 1, errors)
            self.assertEqual([line["output"] for line in lines[:-1]], ["" if i == 9 else f"{i}\n" for i in range(60)])
            self.assertEqual((lines[9]["exit"], lines[9]["signal"]), (0, 9))
            self.assertIn("two processes of 'godwit map' were killed while they ran this task", lines[9]["errors"])
            ran = [name for name in os.listdir(os.path.join(folder, "effects")) if name.startswith("9.")]
            self.assertEqual(len(ran), 2, f"{count} nodes")

    def is_map(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return file.read().split(b"\0")[1:2] == [b"map"]
        except OSError:
            return False

    def test_the_command_in_front_ends_the_job_or_leaves_it(self):
        a, b = self.flock(2, ["--cores", "2"])
        os.mkdir(self.path("effects"))
        process = self.begin(a, "--name", "ended", "--joblog", "ended", "touch effects/{}.$$; sleep 600", ":::", "1", "2", "3", "4")
        self.until("the map has begun", lambda: len(self.effects()) == 4)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stderr.readline(), "godwit map: no more tasks are started; those that run go on: Ctrl-C ends them at once\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end(process), (130, "", ""))
        self.assertEqual(self.logged("ended"), [("0", "15")] * 4)
        self.until("the tasks have ended", lambda: not self.children(a, b))
        self.assertEqual(b.job("ended")["state"], "cancelled")
        process = self.begin(a, "--name", "left", "touch effects/{}.$$; while [ ! -e go ]; do sleep 0.05; done", ":::", "5", "6")
        self.until("the second map has begun", lambda: len(self.effects()) == 6)
        process.kill()
        process.wait()
        self.make("go")
        b.wait("left")

    def test_that_a_map_is_to_end_is_asked_of_a_member_until_it_takes_that(self):
        a, b = self.flock(2, ["--cores", "2"])
        a.do("drain", "n1")
        os.mkdir(self.path("effects"))
        process = self.begin(a, "--name", "ended", "touch effects/{}.$$; sleep 600", ":::", *"123456")
        self.until("the map has begun", lambda: len(self.effects()) == 2)
        a.kill()
        self.assertIn("does not answer", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        self.assertIn("no more tasks are started", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        a.start([b])
        self.assertEqual(self.end(process), (130, "", ""))
        self.assertEqual(b.job("ended")["state"], "cancelled")
        begun = len(self.effects())
        process = self.begin(a, "--name", "left", "touch effects/{}.$$; sleep 600", ":::", "7")
        self.until("the second map has begun", lambda: len(self.effects()) > begun)
        a.kill()
        self.assertIn("does not answer", process.stderr.readline())
        for each in signal.SIGINT, signal.SIGHUP, signal.SIGTERM:  # two of one kind may come as one
            process.send_signal(each)
        code, _, errors = self.end(process)
        self.assertIn(code, (128 + signal.SIGINT, 128 + signal.SIGHUP))
        self.assertRegex(errors, r"the member has not taken that the job is to end, which may go on: 'godwit cancel \w{8}'\n$")

    def test_what_ends_where_a_map_goes_on_comes_at_once_though_it_has_left_another_node(self):
        a, _, _ = self.flock(3, ["--cores", "1"])
        a.do("drain", "n1", "n3")
        os.mkdir(self.path("effects"))
        process = self.begin(a, "--name", "moves", "--joblog", "log",
                             "touch effects/{}.$$; while [ ! -e go.{} ] && [ ! -e go ]; do sleep 0.05; done", ":::",
                             *map(str, range(1, 150)))

        def told():
            return {line.split()[0] for line in self.lines(self.path("log"))[1:]}
        self.until("the command in front asks n2", lambda: self.let_tasks_end() and told())
        a.do("drain", "--undo", "n3")
        self.until("it runs on both", lambda: [node["state"] for node in a.job("moves")["nodes"]] == ["running"] * 2)
        a.do("drain", "n2")
        self.until("it leaves n2", lambda: self.let_tasks_end() and [node["name"] for node in a.job("moves")["nodes"]] == ["n3"])
        before = set(self.effects())
        self.until("another two tasks have begun", lambda: self.let_tasks_end() and len(set(self.effects()) - before) > 1)
        self.until("one that has ended is told of", lambda: told() & set(self.effects()) - before)
        self.assertEqual(a.job("moves")["state"], "running")
        self.make("go")
        self.assertEqual(self.end(process), (0, "", ""))

    def let_tasks_end(self):
        """Those that have begun."""
        for task in self.effects():
            self.make("go." + task)
        return True

    def logged(self, name):
        """The exit codes and signals of tasks that a job log has."""
        return sorted(tuple(line.split("\t")[6:8]) for line in self.lines(self.path(name))[1:])

    def test_tasks_that_run_end_by_themselves_when_no_more_are_started(self):
        a, b = self.flock(2, ["--cores", "2", "--grace", "0s"])
        os.mkdir(self.path("effects"))
        process = self.begin(a, "--name", "eased", "--joblog", "log", "touch effects/{}; while [ ! -e go ]; do sleep 0.05; done; echo {}",
                             ":::", *map(str, range(50)))
        self.until("the map has begun everywhere", lambda: len(self.effects()) == 4)
        process.send_signal(signal.SIGINT)
        self.assertIn("those that run go on", process.stderr.readline())
        self.until("all nodes know it", lambda: [node["state"] for node in a.job("eased")["nodes"]] == ["leaving"] * 2)
        self.make("go")
        code, output, errors = self.end(process)
        self.assertEqual((code, sorted(output.split()), errors), (130, sorted(self.effects()), ""))
        self.assertEqual((len(self.effects()), self.logged("log")), (4, [("0", "0")] * 4))
        self.assertEqual(b.job("eased")["state"], "cancelled")

    def test_tasks_of_a_node_that_is_drained_end_by_themselves(self):
        a, b = self.flock(2, ["--cores", "2"])
        os.mkdir(self.path("effects"))
        process = self.begin(a, "-k", "--name", "drained", "touch effects/{}.$$; while [ ! -e go ]; do sleep 0.05; done; echo {}", ":::",
                             *map(str, range(6)))
        self.until("the map has begun everywhere", lambda: len(self.effects()) == 4)
        a.do("drain", "n2")
        self.until("the node leaves", lambda: "leaving" in [node["state"] for node in a.job("drained")["nodes"]])
        self.make("go")
        self.assertEqual(self.end(process), (0, "".join(f"{i}\n" for i in range(6)), ""))
        self.assertEqual(set(self.effects().values()), {1}, "no task was ended and run once more")

    def test_it_halts_everywhere(self):
        a, b = self.flock(2, ["--cores", "4"])
        code, _, errors = self.map(a, "--joblog", "log", "--halt", "now,fail=1", "sleep {}; exit 7", ":::", "0.1", *["600"] * 7)
        self.assertEqual(code, 7, errors)
        self.assertEqual(set(self.logged("log")), {("7", "0"), ("0", "15")})
        self.assertNotIn("not all nodes have said", errors, "nothing more comes from a job that is over everywhere")
        self.until("the tasks have ended", lambda: not self.children(a, b))

    def test_what_a_cancelled_map_has_left_is_fetched_at_once(self):
        a, b = self.flock(2, ["--cores", "2"])
        os.mkdir(self.path("effects"))
        self.assertEqual(self.map(a, "--detach", "--name", "ended", "touch effects/{}; [ {} -lt 3 ] || sleep 600; echo {}", ":::",
                                  *map(str, range(1, 20)))[0], 0)
        self.until("those that take long run everywhere", lambda: len(self.effects()) == 6)
        self.until("the others are known to have ended", lambda: a.job("ended").get("tasks_done") == 2)
        a.do("cancel", "ended")
        text = b.do("results", "-o", self.path("ended"), "ended")
        self.assertRegex(text, ": what [2-6] of 19 tasks have left", "of those that were ended, what is known by now")
        self.assertEqual(self.lines(self.path("ended"), "out"), ["1", "2"])

    def test_a_map_goes_on_elsewhere_where_a_disk_is_full_and_says_why(self):
        flock, _ = self.on_a_small_disk(1 << 20)
        task = "head -c 200000 /dev/zero | tr '\\0' x; echo {}"
        code, output, errors = self.map(flock[0], "--name", "large", "-j1", task, ":::", *(str(i) for i in range(40)))
        self.assertEqual((code, errors, len(output)), (0, "", sum(200001 + len(str(i)) for i in range(40))))
        self.assertRegex(" ".join(flock[0].do("why", "large").split()),
                         "on n2: has ended, and is not tried on this node again: exit code 255: .*: No space left on device")

    def test_wrong_use_is_told(self):
        a, = self.flock(1)
        self.make("two\nlines")
        for arguments, words in ((["--transfer", "cat", ":::", "two\nlines"], "map: --transfer: the name of a file that travels "
                                  "consists of printable characters: two?lines\n"),
                                 (["--name", "../x", "echo", ":::", "1"], "--name"),
                                 (["--files", "/etc/passwd", "echo", ":::", "1"], "/etc/passwd is outside")):
            code, _, errors = self.map(a, *arguments)
            self.assertEqual(code, 255)
            self.assertIn(words, errors)
        done = subprocess.run([GODWIT, "map", "--flock", self.path("nowhere"), "echo", ":::", "1"], capture_output=True, text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 255)
        self.assertIn("nowhere", done.stderr)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
