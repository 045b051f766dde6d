"""The standing flock on real processes (godwit up, submit, queue, ...): what commands are told, and what happens when members,
keepers, children and whole nodes are killed."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "lab")]
import tap  # noqa: E402
from members import PATIENCE_S as PATIENCE, Members, below, read, send, until  # noqa: E402

BUILD = os.environ.get("GODWIT_BUILD", os.path.realpath(os.path.join(HERE, "..", "..", "build")))
GODWIT = os.path.join(BUILD, "godwit")
STEPS = ["synthetic", "--state-bytes", "16k", "--sum-elements", "64", "--workers", "1"]


def folder_for(test):
    # The path of a socket is short, and flushes of a disk would take most of the time.
    folder = tempfile.mkdtemp(prefix="flock", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    add = test.addClassCleanup if isinstance(test, type) else test.addCleanup
    add(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Case(unittest.TestCase):
    def flock(self, count, options=(), each=()):
        """A flock whose members all take jobs; each: further options of each member."""
        flock = Members(folder_for(self), count, GODWIT, options)
        for member, own in zip(flock, each):
            member.options += own
        self.addCleanup(flock.close)
        self.addCleanup(self.expect_no_findings, flock)
        flock.start()
        return flock

    def expect_no_findings(self, flock):
        """Nothing that the members, and the children of jobs, have written tells of what a sanitizer has found."""
        for folder, _, names in os.walk(flock.folder):
            for name in names:
                if name == "err" or name.endswith(".err"):
                    with open(os.path.join(folder, name), errors="replace") as file:
                        text = file.read()
                    found = re.search("^.*Sanitizer: |: runtime error: ", text, re.MULTILINE)
                    self.assertIsNone(found, name + ": " + text[found.start():][:6000] if found else "")

    def until(self, what, look):
        return until(what, look, PATIENCE)

    def runs_on(self, flock, job):
        """Waits until a job of one node runs, and returns the member where it does."""
        asked = flock.running()[0]

        def look():
            nodes = [node["name"] for node in asked.job(job)["nodes"] if node["state"] == "running"]
            return [member for member in flock if member.name in nodes]
        return self.until(f"{job} runs", look)[0]

    def lines(self, *path):
        """The lines that jobs have written to a file."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(*path)) as file:
            return file.read().splitlines()
        return []

    def on_a_small_disk(self, left, before=lambda flock: None):
        """Two members. All but `left` bytes of the second one's disk are taken by a file there, `fill`, after `before`."""
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small disk")
        disk = folder_for(self)
        size = (32 << 20) + os.path.getsize(GODWIT)  # a member keeps a copy of its program
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "flock", disk], capture_output=True).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk])
        flock = Members(folder_for(self), 2, GODWIT)
        self.addCleanup(flock.close)
        flock[1].directory = os.path.join(disk, "n2")
        flock.start()
        before(flock)
        with open(os.path.join(disk, "fill"), "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while file.write(b"x" * (1 << 20)) == 1 << 20:
                    pass
            file.truncate(file.tell() - left)
        return flock, disk


class Together(Case):
    """Three members that nobody hurts."""

    @classmethod
    def setUpClass(cls):
        cls.members = Members(folder_for(cls), 3, GODWIT, ["--cores", "2"])
        cls.addClassCleanup(cls.members.close)
        cls.members.start()

    def setUp(self):
        self.a, self.b, self.c = self.members
        self.folder = tempfile.mkdtemp(dir=self.members.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def trust(self):
        """Forgets that jobs have failed: three that do make a node doubtful."""
        self.a.do("drain", "--undo", *(member.name for member in self.members))

    def test_submit_tells_how_a_command_ended_and_logs_what_it_wrote(self):
        done = self.a.run("submit", "--wait", "--name", "good", "--", "sh", "-c", "echo out; echo bad >&2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^good [0-9a-f]{8}\n$")
        for member in self.members:
            self.assertEqual((member.logs("good"), member.logs("good", "--stderr")), ("out\n", "bad\n"))
        done = self.b.run("submit", "--wait", "--name", "evil", "--", "sh", "-c", "exit 7")
        self.assertEqual((done.returncode, done.stderr), (1, "evil: failed: exit code 7\n"))
        self.c.wait("evil", code=1)
        self.assertEqual([round["code"] for round in self.c.job("evil")["rounds"]], [7])
        self.trust()

    def test_jobs_that_fail_soon_make_a_node_doubtful_and_those_of_one_sweep_count_once(self):
        self.trust()
        self.addCleanup(self.trust)
        self.a.do("drain", "n2", "n3")
        self.a.run("submit", "--wait", "--name", "wrong", "--sweep", "x=1,2,3,4,5", "--", "sh", "-c", "exit {x}")
        self.assertEqual(self.a.nodes()["n1"], "ready")
        for name in "one", "two":
            self.a.run("submit", "--wait", "--name", name, "--", "false")
        self.until("n1 is doubtful", lambda: self.b.nodes()["n1"] == "doubtful")
        self.a.do("submit", "--wait", "--", "true")  # the others are drained
        self.assertRegex(self.b.do("why", "two"), r"on n1: starts\n\d\d:\d\d:\d\d  on n1: has failed: exit code 1\n$")
        self.trust()
        for member in self.members:
            self.until(f"{member.name} is ready", lambda: member.nodes()[member.name] == "ready")

    def test_a_program_that_is_not_there_fails_its_job(self):
        job = self.a.submit("--", "/nonexistent/program")
        self.b.wait(job, code=1)
        self.assertEqual([round["code"] for round in self.b.job(job)["rounds"]], [127])
        self.assertIn("/nonexistent/program", self.c.logs(job, "--stderr"))
        self.assertRegex(self.c.do("info", job), r"\nfailed +round 0, exit code 127, on n[123]\n")
        done = self.a.run("submit", "--", "")
        self.assertEqual((done.returncode, done.stderr), (2, "godwit submit: the first word of the command is empty\n"))
        done = self.a.run("submit", "true")  # which was meant to be a command
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "^godwit submit: there is no job 'true': .* A command stands behind --\n$")
        self.trust()

    def test_a_command_that_may_not_be_executed_fails_its_job(self):
        with open(self.path("run.sh"), "w") as file:
            file.write("#!/bin/sh\n")
        done = self.a.run("submit", "--wait", "--name", "refused", "--", "./run.sh", cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (1, "refused: failed: exit code 126\n"))
        for member in self.members:
            self.assertIn("./run.sh", member.logs("refused", "--stderr"))
        self.trust()

    def test_the_name_of_a_sweep_means_all_its_jobs(self):
        self.a.do("submit", "--name", "both", "--sweep", "x=1,2", "--", "sh", "-c", "echo {x}; sleep 600")
        self.runs_on(self.members, "both-1")
        self.runs_on(self.members, "both-2")
        self.a.do("submit", "--name", "behind", "--after", "both", "--", "true")
        self.assertEqual(len(self.a.job("behind")["after"]), 2)
        waits = self.b.launch("wait", "--dir", self.b.directory, "behind", stderr=subprocess.PIPE, text=True)
        self.addCleanup(waits.kill)
        self.a.do("priority", "both", "-3")
        self.assertEqual([self.a.job(f"both-{i}")["priority"] for i in (1, 2)], [-3, -3])
        self.a.do("cancel", "both")
        while "was not done" not in (line := waits.stderr.readline()):
            self.assertRegex(line, "^behind: waiting: comes after both-[12]$")
        self.assertIn("godwit cancel behind", line)
        self.a.do("cancel", "behind")
        self.assertEqual(waits.wait(PATIENCE), 1)
        self.assertEqual(waits.stderr.read(), "behind: cancelled\n")
        waits.stderr.close()
        self.b.wait("both", code=1)
        self.assertEqual(self.c.logs("both-2"), "2\n")  # it was cancelled where it ran
        self.trust()

    def test_a_job_is_known_at_all_members_when_it_is_acknowledged_and_waits_while_it_is_held(self):
        held = json.loads(self.a.do("submit", "--json", "--hold", "--name", "held", "--", "true"))
        self.assertGreaterEqual(held["disks"], 2)
        for member in self.members:
            self.until(f"{member.name} knows it", lambda: held["id"] in member.jobs())
            self.assertRegex(member.do("queue"), f"{held['id'][:8]}  held +held ")
        self.b.do("release", "held")
        self.c.wait("held")
        self.assertRegex(self.a.do("why", "held"), r"is submitted\n.* on n[123]: starts; it had waited, as it was held\n"
                         r".* on n[123]: is done: exit code 0\n$")
        os.mkdir(self.path("held"))  # as 'godwit results' leaves it
        self.assertEqual(self.a.do("why", "held", cwd=self.folder), self.a.do("why", "held"))
        done = self.a.run("cancel", "held")
        self.assertEqual((done.returncode, done.stderr), (1, "godwit cancel: held is over already: done\n"))

    def test_many_commands_wait_for_jobs_at_one_member(self):
        job = self.a.submit("--hold", "--", "true")
        with contextlib.ExitStack() as doors:
            waiting = []
            for _ in range(100):
                door = doors.enter_context(self.a.knock())
                answers = door.makefile()
                door.sendall(b'{"do": "nodes"}\n')
                answers.readline()  # it is a client of the member now
                door.sendall(json.dumps({"do": "wait", "jobs": [job], "seconds": 600}).encode() + b"\n")
                waiting.append(answers)
            self.b.do("release", job)
            self.a.wait(job)
            self.assertEqual([json.loads(answers.readline()) for answers in waiting], [{"over": True}] * 100)

    def test_a_job_comes_after_another_and_not_after_one_that_failed(self):
        first = self.a.submit("--hold", "--name", "first", "--", "sh", "-c", f"echo first >> {self.path('order')}")
        second = self.b.submit("--after", first, "--", "sh", "-c", f"echo second >> {self.path('order')}")
        self.assertRegex(self.b.do("queue"), rf"{second[:8]} .* comes after first")
        self.b.do("release", first)
        self.a.wait(second)
        self.assertEqual(self.lines(self.path("order")), ["first", "second"])
        bad = self.c.submit("--name", "bad", "--", "false")
        never = self.c.submit("--after", "bad", "--", "true")
        self.c.wait(bad, code=1)
        self.assertIn("comes after bad, which was not done", self.c.do("info", never))
        self.a.do("cancel", never)
        self.c.wait(never, code=1)
        self.assertEqual(self.c.job(never)["state"], "cancelled")
        self.trust()

    def test_a_job_comes_after_one_that_was_tried_again_with_success(self):
        bad = self.a.submit("--name", "mended", "--", "test", "-e", self.path("mended"))
        then = self.b.submit("--after", bad, "--", "touch", self.path("then"))
        self.a.wait(bad, code=1)
        self.a.do("retry", "--wait", bad, code=1)
        self.until("it waits for ever", lambda: self.c.job(then).get("reason") == "broken")
        self.assertIn(f"comes after mended, which was not done: 'godwit retry {bad[:8]}', or", self.c.do("info", then))
        self.b.do("hold", then)
        with open(self.path("mended"), "w"):
            pass
        self.c.do("retry", "--wait", "mended")  # the newest of this name
        self.b.do("release", then)
        self.a.wait(then)
        self.assertTrue(os.path.exists(self.path("then")))
        self.assertEqual(self.a.job(bad)["state"], "failed")
        self.trust()

    def test_cancel_ends_a_child_and_all_that_it_has_started(self):
        # The first process heeds SIGTERM, and leaves one behind in a session of its own that does not.
        job = self.a.submit("--", "sh", "-c", f"setsid sh -c 'trap \"\" TERM; echo >> {self.path('up')}; sleep 1000' & wait")
        node = self.runs_on(self.members, job)
        self.until("it has started another", lambda: self.lines(self.path("up")))
        self.assertGreaterEqual(len(node.children(job)), 2)
        mark = f"GODWIT_JOB_ID={job}".encode()
        other = next(member for member in self.members if member is not node)
        other.do("cancel", job)
        self.until("all are gone", lambda: not any(mark in read(pid, "environ") for pid in self.members.marked()))
        node.until_state(job, "cancelled")
        told = self.until("its end is told", lambda: re.search("is asked to end: (.*)\n.* has left this", other.do("why", job)))
        self.assertEqual(told.group(1), "the job was cancelled")

    def test_the_environment_is_that_which_was_named(self):
        with open(self.path("secrets"), "w") as file:
            file.write("# comment\n\nSECRET=a b=c\n")
        job = self.a.submit("--env", "NAMED", "--env", "GIVEN=x=y", "--env-file", self.path("secrets"), "--", "env",
                            NAMED="here", OTHER="not", LANG="C.UTF-8")
        self.b.wait(job)
        variables = set(self.b.logs(job).splitlines())
        self.assertLessEqual({"SECRET=a b=c", "NAMED=here", "GIVEN=x=y", f"GODWIT_JOB_ID={job}", "LANG=C.UTF-8"},
                             variables)
        self.assertFalse([line for line in variables if line.startswith("OTHER=")])
        self.assertNotIn("a b=c", self.a.do("info", "--json", job))

    def test_a_sweep_is_a_job_for_each_combination(self):
        text = self.a.do("submit", "--wait", "--name", "s", "--sweep", "x=1,2", "--sweep", "y=a,b", "--", "echo", "{x}{y}")
        names = re.findall(r"^(s-\d) ", text, re.MULTILINE)
        self.assertEqual([self.b.logs(name) for name in names], ["1a\n", "1b\n", "2a\n", "2b\n"])

    def test_drain_moves_a_command_to_another_node(self):
        script = f"echo $$ >> {self.path('pids')}; while [ ! -e {self.path('go')} ]; do sleep 0.1; done"
        job = self.a.submit("--", "sh", "-c", script)
        first = self.runs_on(self.members, job)
        self.until("it has begun", lambda: len(self.lines(self.path("pids"))) == 1)
        other = next(member for member in self.members if member is not first)
        other.do("drain", first.name)
        self.until("it begins again", lambda: len(self.lines(self.path("pids"))) == 2)
        self.assertEqual(other.nodes()[first.name], "drained")
        self.assertLessEqual(max(map(len, other.do("nodes").splitlines())), 80)  # the width of a terminal
        self.assertIsNot(self.runs_on(self.members, job), first)
        open(self.path("go"), "w").close()
        self.c.wait(job)
        events = json.loads(other.do("why", "--json", job))["events"]
        self.assertEqual([(event["event"], event.get("cause"), event.get("node") == first.name) for event in events],
                         [("submit", None, False), ("start", None, True), ("stop", "drained", True), ("end", None, True),
                          ("start", None, False), ("end", None, False)])
        first.do("drain", "--undo", first.name)
        self.until("it is back", lambda: other.nodes()[first.name] == "ready")

    def test_a_job_that_no_node_can_have_says_why_it_waits(self):
        job = self.a.submit("--cores", "64", "--", "true")
        self.assertIn("no node that takes jobs has 64 cores\n", self.b.do("info", job))
        self.a.do("cancel", job)

    def test_a_build_that_cannot_meet_this_one_is_told_of_once(self):
        cluster = hashlib.blake2b(b"godwit cluster\nflock:default", digest_size=32).digest()
        host, port = self.a.address.rsplit(":", 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for counter in range(3):  # net/secure/packet.h; what is in it is of version 99 of gossip
                packet = struct.pack("<BB8s16sQQQBB8s", 1, 0, cluster, b"a later build...", 1, 1, counter, 99, 1, cluster)
                other.sendto(packet + hashlib.blake2b(packet, key=cluster, digest_size=16).digest(), (host, int(port)))
        self.until("it says so", lambda: "speaks version 99 of Godwit's gossip" in self.a.last_words())
        self.a.do("submit", "--wait", "--", "true")
        self.assertRegex(self.a.last_words(), "version 99 .* Run a newer build of Godwit here\n")
        self.assertEqual(self.a.last_words().count("version 99"), 1)

    def test_the_door_refuses_what_is_no_request(self):
        """Each with an answer, but for a line without an end; and the member goes on."""
        def ask(*lines):
            with self.b.knock() as door, door.makefile("rb") as answers:
                door.sendall(b"".join(line + b"\n" for line in lines))
                return [json.loads(answers.readline()) for _ in lines]
        spec = {"kind": "command", "name": "x", "command": ["true"], "nonce": "0" * 32, "key": "0" * 64}
        bad = [b"", b"not json", b"[]", b"17", b"\0\xff", b"{}", b'{"do": 1}', b'{"do": "dance"}', b'{"do": "submit"}',
               b'{"do": "log"}', b'{"do": "log", "job": "zz"}', b'{"do": "drain", "node": []}', b'{"do": "change"}',
               b'{"do": "submit", "spec": []}', b"[" * 100000,
               *(json.dumps({"do": "submit", "spec": {**spec, **change}}).encode() for change in (
                   {"name": "../x"}, {"nonce": "short"}, {"key": 5}, {"command": []}, {"command": [1]}, {"cores": 0},
                   {"least": 2, "most": 1}, {"retries": 10**6}, {"priority": 10**12}, {"after": ["x"]},
                   {"after": ["0" * 32] * 5000}, {"command": ["true"] * 100000}, {"environment": ["a" * 200000]},
                   {"files": [{"path": "../x"}]}, {"directory": "relative"}))]
        for line, answer in zip(bad, ask(*bad)):
            self.assertTrue(answer.get("error"), line[:200])
        with self.b.knock() as door:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(64):
                    door.sendall(b"x" * 65536)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(door.recv(1), b"")
        with self.b.knock() as door:
            door.sendall(b'{"do": "wait", "jobs": ["' + b"0" * 32 + b'"]}')  # no end, and it goes
        self.assertEqual(ask(b'{"do": "hello"}')[0]["name"], "n2")
        self.b.do("submit", "--wait", "--", "true")

    def test_another_user_cannot_read_what_is_in_the_directory(self):
        job = self.a.submit("--", "true")
        self.a.wait(job)
        for member in self.members:
            for root, _, names in os.walk(member.directory):
                for name in names:
                    mode = os.lstat(os.path.join(root, name)).st_mode
                    closed = mode & 0o077 == 0 or os.lstat(root).st_mode & 0o077 == 0
                    self.assertTrue(closed, os.path.join(root, name))

    def test_a_second_member_in_a_directory_is_refused(self):
        done = self.a.run("up", "--as-root", "--listen", "127.0.0.1:0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is in use by process", done.stderr)

    def test_queue_and_info_tell_how_far_a_map_is(self):
        task = f"test {{}} = 1 || while ! test -e {self.path('go')}; do sleep 0.05; done"
        self.assertEqual(self.a.launch("map", "--flock", self.a.directory, "--detach", "--name", "far", task, ":::", "1", "2", "3",
                                       stdout=subprocess.DEVNULL).wait(PATIENCE), 0)
        self.until("a task has ended", lambda: re.search(r"far +running +\d+ s  1/3 tasks on n", self.a.do("queue")))
        self.assertIn("\ntasks       1 of 3 have ended, 0 of them failed\n", self.a.do("info", "far"))
        self.assertIn("'godwit results far'", self.a.run("logs", "far").stderr)
        open(self.path("go"), "w").close()
        self.b.wait("far")
        told = self.a.do("info", self.a.submit("--wait", "--memory", "1G", "--", "sh", "-c", "true; true"))
        self.assertIn("\ncommand     sh -c 'true; true'\n", told)
        self.assertIn("\nnodes       1, of 1 core, 1 GiB\n", told)
        self.assertNotIn("hash", told)

    def test_logs_follow_a_job_to_its_end(self):
        os.mkfifo(self.path("go"))
        job = self.a.submit("--", "sh", "-c", f"echo one; cat {self.path('go')}; echo three")
        words = [GODWIT, "logs", "--dir", self.c.directory, "-f", job]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as logs:
            self.assertEqual(logs.stdout.readline(), "one\n")
            with open(self.path("go"), "w") as go:
                go.write("two\n")
            self.assertEqual(logs.stdout.read(), "two\nthree\n")


class Between:
    """Stands between commands and a member. It hangs up on the next two that wait for jobs, and is gone with the second."""

    def __init__(self, member, folder):
        self.member, self.path, self.left = member, os.path.join(folder, "flock.sock"), 2
        self.open()

    def open(self):
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen()
        threading.Thread(target=self.serve, args=(self.listening,), daemon=True).start()

    def serve(self, listening):
        with listening, contextlib.suppress(OSError):  # it is shut
            while True:
                self.answer(listening.accept()[0])

    def answer(self, client):
        with client, client.makefile() as requests, self.member.knock() as door, door.makefile() as answers:
            for request in requests:
                if self.left > 0 and json.loads(request)["do"] == "wait":
                    self.left -= 1
                    if self.left == 0:
                        os.unlink(self.path)
                        self.listening.shutdown(socket.SHUT_RDWR)
                    return
                door.sendall(request.encode())
                client.sendall(answers.readline().encode())


class Lives(Case):
    def test_who_waits_is_told_that_a_member_is_gone_which_has_taken_the_question_once_more(self):
        [member] = self.flock(1)
        job = member.submit("--", "sh", "-c", "while ! test -e go; do sleep 0.05; done")
        between = Between(member, folder_for(self))
        waits = member.launch("wait", "--dir", os.path.dirname(between.path), job, stderr=subprocess.PIPE, text=True)
        self.addCleanup(waits.kill)
        self.assertIn("it is asked again", waits.stderr.readline())
        between.open()
        open(os.path.join(os.path.dirname(member.directory), "go"), "w").close()
        waits.communicate(timeout=PATIENCE)
        self.assertEqual(waits.returncode, 0)

    """What is killed, and comes back or does not."""

    def counted(self, flock, job="count", before=":;"):
        """Submits a command that notes each of its lives and ends when the file `go` is there; returns its id."""
        script = f"{before} echo $GODWIT_ATTEMPT >> lives; while [ ! -e go ]; do sleep 0.1; done; echo end >> ends"
        return flock[0].submit("--name", job, "--", "sh", "-c", script)

    def let_go(self, flock):
        open(os.path.join(flock.folder, "go"), "w").close()

    def test_a_member_that_comes_back_takes_over_its_child(self):
        flock = self.flock(1)
        job = self.counted(flock)
        self.runs_on(flock, job)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        for _ in range(2):
            flock[0].kill()
            self.assertEqual(len(flock[0].keepers()), 1)
            flock[0].start()
        self.assertEqual(flock[0].job(job)["state"], "running")
        self.let_go(flock)
        flock[0].wait(job)
        self.assertEqual((self.lines(flock.folder, "lives"), self.lines(flock.folder, "ends")), (["0"], ["end"]))
        self.assertEqual(len(flock[0].job(job)["ends"]), 1)

    def test_a_member_that_is_lost_twice_is_doubtful_for_a_while(self):
        flock = self.flock(2)
        ids = {node["name"]: node["id"] for node in json.loads(flock[0].do("nodes", "--json"))["nodes"]}
        lost, other = sorted(flock, key=lambda member: ids[member.name])  # without `lost`, `other` is the lesser half
        for state in ("ready", "doubtful"):
            lost.kill()
            self.until("it is gone", lambda: other.nodes().get(lost.name) == "gone")
            lost.start([other])
            self.until(f"it is {state}", lambda: other.nodes().get(lost.name) == state)  # noqa: B023
        self.assertRegex(lost.last_words(), "was lost to the others 2 times within an hour: .* takes none for 40 s")
        self.assertEqual(other.nodes()[other.name], "ready")  # it was lost to nobody
        job = self.counted(flock)
        self.assertIs(self.runs_on(flock, job), other)
        other.do("drain", other.name)
        self.assertIs(self.runs_on(flock, job), lost)  # nobody else is there
        other.do("drain", "--undo", lost.name)
        self.until("it is trusted", lambda: other.nodes()[lost.name] == "ready")
        lost.do("down")
        lost.end()
        lost.start([other])
        self.until("it left in order", lambda: other.nodes()[lost.name] == "ready")

    def test_a_member_that_comes_back_accounts_for_what_has_ended_meanwhile(self):
        flock = self.flock(1)
        job = self.counted(flock)
        failed = flock[0].submit("--name", "failed", "--", "sh", "-c", "while [ ! -e go ]; do sleep 0.1; done; exit 9")
        for each in (job, failed):
            self.runs_on(flock, each)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        flock[0].kill()
        self.let_go(flock)
        self.until("the children end", lambda: not flock.marked())
        flock[0].start()
        flock[0].wait(job)
        flock[0].wait(failed, code=1)
        self.assertEqual([round["code"] for round in flock[0].job(failed)["rounds"]], [9])
        flock[0].kill()
        flock[0].start()
        self.assertEqual(flock[0].job(job)["state"], "done")
        self.assertEqual(self.lines(flock.folder, "lives"), ["0"])

    def test_an_end_outlives_the_loss_of_the_records(self):
        flock = self.flock(2)
        job = self.counted(flock)
        first = self.runs_on(flock, job)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        other = next(member for member in flock if member is not first)
        other.do("drain", other.name)  # else it would begin the job once more while the first one is away
        first.kill()
        self.let_go(flock)
        self.until("the child ends", lambda: not first.keepers())
        os.unlink(os.path.join(first.directory, "records"))
        first.start([other])
        other.wait(job)
        self.assertEqual(self.lines(flock.folder, "lives"), ["0"])

    def test_a_command_waits_where_most_nodes_or_of_two_that_of_the_lower_id_are_away(self):
        flock = self.flock(2, ["--takeover", "5s"])
        ids = {node["name"]: node["id"] for node in json.loads(flock[0].do("nodes", "--json"))["nodes"]}
        low, high = sorted(flock, key=lambda member: ids[member.name])
        high.do("drain", high.name)
        job = self.counted(flock)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        high.do("drain", "--undo", high.name)
        low.lose_power()
        self.until("it waits", lambda: high.job(job).get("reason") == "away")
        self.assertIn(high.job(job)["starts_in_s"], range(1, 6))
        self.assertRegex(high.do("queue"), r"count +waiting .* may run on nodes that are away: starts in \d s if they stay away")
        self.let_go(flock)
        high.wait(job)
        self.assertEqual(self.lines(flock.folder, "lives"), ["0", "0"])

    def test_a_member_that_starts_again_finds_its_command_alone(self):
        flock = self.flock(3)
        job = self.counted(flock)
        first = self.runs_on(flock, job)
        other = next(member for member in flock if member is not first)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        first.kill()
        self.until("it waits for the member", lambda: other.job(job).get("reason") == "away")
        self.assertIn(other.job(job)["starts_in_s"], range(1, 6))
        first.start([other])
        self.until("it runs there", lambda: [node["name"] for node in other.job(job)["nodes"]] == [first.name])
        self.let_go(flock)
        other.wait(job)
        self.assertEqual(self.lines(flock.folder, "lives"), ["0"])

    def test_what_is_cancelled_stays_so_though_it_is_done_where_nobody_could_be_asked(self):
        flock = self.flock(3)
        job = self.counted(flock)
        first = self.runs_on(flock, job)
        other = next(member for member in flock if member is not first)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        after = other.submit("--name", "after", "--after", job, "--", "touch", "came-after")
        first.kill()
        self.until("it is gone", lambda: other.nodes()[first.name] == "gone")
        other.do("cancel", job)
        self.let_go(flock)
        self.until("it has ended", lambda: not first.keepers())
        first.start([other])
        self.until("its end is known", lambda: other.job(job)["ends"])
        self.assertEqual(other.job(job)["state"], "cancelled")
        self.assertEqual(other.job(after)["reason"], "broken")
        other.do("cancel", after)

    def test_a_node_that_was_set_up_anew_is_there_once(self):
        flock = self.flock(2)
        a, b = flock
        listed = lambda *options: [(node["name"], node["id"]) for node in  # noqa: E731
                                   json.loads(a.do("nodes", "--json", *options))["nodes"]]
        before = dict(listed())[b.name]
        job = a.submit("--", "true")
        a.wait(job)
        b.kill()
        shutil.rmtree(b.directory)
        b.start([a])
        self.until("both are known", lambda: len(listed("--all")) == 3)
        self.until("it is gone", lambda: len(listed()) == 2)
        now = dict(listed())[b.name]
        self.assertNotEqual(now, before)
        [old] = [node for node in json.loads(a.do("nodes", "--json", "--all"))["nodes"] if node["id"] == before]
        self.assertEqual((old["state"], old["namesake"]), ("gone", now))
        self.assertIn("\n1 node is gone whose name others have now: --all lists it too\n", a.do("nodes"))
        self.assertNotIn(before[:8], a.do("nodes"))
        self.assertIn(before[:8], a.do("nodes", "--all"))
        a.do("drain", b.name)
        self.until("it is drained", lambda: a.nodes()[b.name] == "drained")
        self.assertIn(f"n2 ({before[:8]}, gone)", a.do("why", job))
        # Jobs that are over are listed with --all, in JSON as in text.
        told = json.loads(a.do("queue", "--json"))
        self.assertEqual((told["jobs"], told["over"]), ([], 1))
        self.assertEqual([one["id"] for one in json.loads(a.do("queue", "--json", "--all"))["jobs"]], [job])
        self.assertIn("1 job is over: --all lists it too", a.do("queue"))

    def test_a_submission_that_is_on_one_disk_as_the_others_are_away_says_so(self):
        flock = self.flock(2)
        flock[1].kill()
        self.until("it is gone", lambda: flock[0].nodes()["n2"] == "gone")
        self.assertIn("(on 1 disk so far: other nodes have not confirmed it)", flock[0].do("submit", "--hold", "--name", "alone", "--", "true"))
        self.assertIn("on 1 disk so far", flock[0].run("cancel", "alone").stderr)

    def test_a_command_whose_node_dies_starts_anew_on_another(self):
        flock = self.flock(3)
        job = self.counted(flock)
        first = self.runs_on(flock, job)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        first.lose_power()
        other = flock.running()[0]
        self.until("it lives again", lambda: len(self.lines(flock.folder, "lives")) == 2)
        self.let_go(flock)
        other.wait(job)
        self.assertEqual((self.lines(flock.folder, "lives"), self.lines(flock.folder, "ends")), (["0", "0"], ["end"]))
        told = other.do("why", job)
        self.assertIn(f": starts, as {first.name} is gone, where it ran\n", told)
        self.assertIn(f"\nNot there, with what they know of it: {first.name}\n", told)

    def test_a_command_that_another_node_has_begun_meanwhile_goes_on_on_one_of_the_two(self):
        flock = self.flock(3)
        job = self.counted(flock)
        first = self.runs_on(flock, job)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        first.kill()  # its child goes on
        self.until("it lives again", lambda: len(self.lines(flock.folder, "lives")) == 2)
        first.start(member for member in flock if member is not first)
        self.until("one of the two is asked to end", lambda: "is asked to end: it goes on on another node" in
                   " ".join(first.do("why", job).split()))
        self.until("it runs once", lambda: [node["state"] for node in first.job(job)["nodes"]] == ["running"])
        self.let_go(flock)
        first.wait(job)
        self.assertEqual((self.lines(flock.folder, "lives"), self.lines(flock.folder, "ends")), (["0", "0"], ["end"]))
        self.assertEqual(first.do("why", job).count("is asked to end"), 1)

    def test_logs_of_a_command_that_is_over_are_those_of_the_child_that_ended_it(self):
        flock = self.flock(3)
        script = "trap '' TERM; echo begins; echo $$ >> lives; while [ ! -e $$.go ]; do sleep 0.1; done; echo ends"
        job = flock[0].submit("--", "sh", "-c", script)
        first = self.runs_on(flock, job)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        first.kill()  # its child goes on
        self.until("it lives again", lambda: len(self.lines(flock.folder, "lives")) == 2)
        first.start(member for member in flock if member is not first)

        def states():
            return {node["state"]: node["name"] for node in flock[0].job(job)["nodes"]}
        self.until("one of the two is asked to end", lambda: flock[0].is_running() and set(states()) == {"running", "leaving"})
        children = next(member for member in flock if member.name == states()["running"]).children(job)
        [child] = children & set(map(int, self.lines(flock.folder, "lives")))
        open(os.path.join(flock.folder, f"{child}.go"), "w").close()
        flock[0].wait(job)
        self.assertEqual([member.logs(job) for member in flock], ["begins\nends\n"] * 3)

    def test_a_member_that_has_lost_its_records_takes_no_job_for_over(self):
        flock = self.flock(2)
        asked, other = flock
        asked.do("drain", asked.name)
        job = asked.submit("--", "sh", "-c", "echo begins; while ! test -e go; do sleep 0.05; done; echo ends")
        shown = asked.launch("logs", "--dir", asked.directory, "-f", job, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(shown.kill)
        self.assertEqual(shown.stdout.readline(), "begins\n")
        asked.kill()
        self.assertIn("it is asked again", shown.stderr.readline())
        os.unlink(os.path.join(asked.directory, "records"))
        other.process.send_signal(signal.SIGSTOP)
        asked.start([other])
        self.assertEqual(asked.jobs(), {})
        self.assertIn("there is no such job", shown.stderr.readline())
        with asked.knock() as door:
            door.sendall(json.dumps({"do": "wait", "jobs": [job], "seconds": 0}).encode() + b"\n")
            self.assertEqual(json.loads(door.makefile().readline()), {"over": False})
        other.process.send_signal(signal.SIGCONT)
        self.until("it knows the job again", lambda: job in asked.jobs())
        open(os.path.join(flock.folder, "go"), "w").close()
        said, errors = shown.communicate(timeout=PATIENCE)
        self.assertEqual((said, shown.returncode), ("ends\n", 0), errors)

    def test_logs_follow_a_command_that_starts_anew_elsewhere(self):
        flock = self.flock(3)
        go = os.path.join(flock.folder, "go")
        flock[0].submit("--name", "moves", "--", "sh", "-c", f"echo begins; while ! test -e {go}; do sleep 0.05; done; echo ends")
        first = self.runs_on(flock, "moves")
        asked = next(member for member in flock if member is not first)
        shown = asked.launch("logs", "--dir", asked.directory, "-f", "moves", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.addCleanup(shown.kill)
        self.assertEqual(shown.stdout.readline(), "begins\n")
        asked.kill()
        asked.start([member for member in flock if member.is_running()])
        flock.until_ready_or_trusted()
        first.lose_power()
        self.assertEqual(shown.stdout.readline(), "begins\n")
        open(go, "w").close()
        said, errors = shown.communicate(timeout=PATIENCE)
        self.assertEqual((said, shown.returncode), ("ends\n", 0), errors)
        self.assertIn("it goes on on n", errors)

    def test_a_job_of_steps_goes_on_when_a_node_dies_and_ends_with_the_same_bytes(self):
        job = [*STEPS, "--shards", "12", "--steps", "30", "--seed", "5"]
        alone = subprocess.run([GODWIT, "run", *job, "--shard-ms", "0", "--dir", os.path.join(folder_for(self), "alone"),
                                "--listen", "127.0.0.1:0", "--quiet"], capture_output=True, text=True, timeout=PATIENCE)
        expected = re.search(r"state=([0-9a-f]{64})", alone.stdout + alone.stderr).group(1)
        flock = self.flock(3)
        steps = flock[0].submit("--nodes", "2..3", *job, "--shard-ms", "25", "--probe-interval-ms", "100",
                                "--checkpoint-every", "5")
        self.until("all have it",
                   lambda: [node["state"] for node in flock[0].job(steps)["nodes"]] == ["running"] * 3)
        out = os.path.join(flock[2].directory, "jobs", steps, "out")
        self.until("it makes steps", lambda: any(re.search("step +[3-9]", line) for line in self.lines(out)))
        flock[2].lose_power()
        flock[0].wait(steps)
        [end] = flock[1].job(steps)["ends"]
        self.assertEqual((end["kind"], end["hash"]), ("done", expected))

    def test_what_failed_or_was_lost_is_tried_again(self):
        flock = self.flock(1, ["--cores", "4"])
        failing = flock[0].submit("--retries", "1", "--", "sh", "-c", "echo $GODWIT_ATTEMPT >> failing; exit 3")
        script = "echo $GODWIT_ATTEMPT >> mended; [ $GODWIT_ATTEMPT = 1 ]"
        mended = flock[0].submit("--retries", "3", "--", "sh", "-c", script)
        # A keeper takes its command with it, and its member what that has started; that it was killed is no failure of the job.
        lost = self.counted(flock, before="setsid sleep 1000 &")
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        children = flock[0].children(lost)
        self.assertGreaterEqual(len(children), 2)
        send([pid for pid, job in flock[0].keepers().items() if job == lost], signal.SIGKILL)
        self.until("all have gone", lambda: not below(children))
        self.let_go(flock)
        flock[0].wait(failing, code=1)
        flock[0].wait(mended, lost)
        codes = {job: [round["code"] for round in flock[0].job(job)["rounds"]] for job in (failing, mended, lost)}
        self.assertEqual(codes, {failing: [3, 3], mended: [1], lost: []})
        for name, expected in {"failing": ["0", "1"], "mended": ["0", "1"], "lives": ["0", "0"], "ends": ["end"]}.items():
            self.assertEqual(self.lines(flock.folder, name), expected)

    def test_down_hands_a_command_to_another_node(self):
        flock = self.flock(2)
        job = self.counted(flock)
        first = self.runs_on(flock, job)
        self.until("it lives", lambda: self.lines(flock.folder, "lives"))
        first.do("down")
        self.assertEqual(first.end(), 0)
        self.assertFalse(first.keepers())
        self.until("it lives again", lambda: len(self.lines(flock.folder, "lives")) == 2)
        self.let_go(flock)
        flock.running()[0].wait(job)

    def test_damaged_records_come_back_from_another_member(self):
        flock = self.flock(2)
        jobs = [flock[0].submit("--name", f"j{i}", "--hold", "--", "true") for i in range(5)]
        for job in jobs:
            self.until("the other knows it", lambda: job in flock[1].jobs())
        flock[1].do("cancel", "j3")
        flock[0].until_state(jobs[3], "cancelled")
        flock[0].kill()
        records = os.path.join(flock[0].directory, "records")
        with open(records, "r+b") as file:
            whole = file.read()
            for at in range(len(whole) // 4, len(whole) * 3 // 4, 97):
                file.seek(at)
                file.write(bytes([whole[at] ^ 0xff]))
        flock[0].start([flock[1]])
        flock.until_ready()
        self.assertRegex(flock[0].last_words(), r"the records in .* were damaged at \d+ places")
        self.until("all are there", lambda: set(flock[0].jobs()) == set(jobs))
        self.until("and as they were", lambda: flock[0].jobs()[jobs[3]]["state"] == "cancelled")

    def test_what_is_forgotten_everywhere_stays_so(self):
        flock = self.flock(2)
        job, held = flock[0].submit("--", "true"), flock[0].submit("--hold", "--", "true")
        flock[1].wait(job)
        flock[0].wait(job)
        forget = lambda member: member.do("forget", "--before", "2100-01-01")  # noqa: E731
        self.assertEqual(forget(flock[0]), "forgot 1 job\n")
        # The other one may tell it of the job again before it has forgotten it as well.
        self.until("both have forgotten it", lambda: [forget(member) for member in flock] and
                   all(set(member.jobs()) == {held} for member in flock))
        flock[0].kill()
        flock[0].start([flock[1]])
        flock.until_ready()
        for member in flock:
            self.assertEqual(set(member.jobs()), {held})

    def test_a_member_with_another_key_is_no_member(self):
        folder = folder_for(self)
        keys = [os.path.join(folder, name) for name in ("good", "bad")]
        for key in keys:
            subprocess.run([GODWIT, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        flock = self.flock(2, each=[["--key", keys[0]]] * 2)
        stranger = Members(folder_for(self), 1, GODWIT, ["--key", keys[1], "--gate", "1s"])[0]
        self.addCleanup(stranger.flock.close)
        stranger.start([flock[0]])
        job = flock[0].submit("--hold", "--", "true")
        self.until("it is past its gate", lambda: stranger.nodes() == {"n1": "ready"})
        self.assertEqual(stranger.jobs(), {})
        self.assertEqual(set(flock[1].jobs()), {job})
        self.assertEqual(set(flock[0].nodes()), {"n1", "n2"})
        self.assertIn("sealed with a key that this peer does not have", flock[0].last_words())

    def test_a_full_disk_is_told_and_nothing_is_acknowledged_there(self):
        running = []

        def run_there(flock):
            flock.until_ready()
            flock[0].do("drain", "n1")
            running.append(self.counted(flock))
            self.until("it lives there", lambda: self.lines(flock.folder, "lives"))
            flock[0].do("drain", "--undo", "n1")

        flock, disk = self.on_a_small_disk(0, run_there)
        large = "LARGE=" + "x" * 8192  # more than what is left of the last page
        job = json.loads(flock[0].do("submit", "--json", "--hold", "--env", large, "--", "true"))
        self.assertEqual(job["disks"], 1)
        done = flock[0].run("cancel", job["id"])
        self.assertEqual(done.returncode, 0)
        self.assertIn("on 1 disk so far: other nodes have not confirmed it", done.stderr)
        self.until("the other says so", lambda: flock[0].nodes()["n2"] == "disk full")
        self.assertIn("the disk takes no writes", flock[1].last_words())
        done = flock[1].run("submit", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("takes no writes: submit at another one", done.stderr)
        self.assertIs(self.runs_on(flock, running[0]), flock[0])  # though nothing can be written of its end there
        self.until("it lives again", lambda: len(self.lines(flock.folder, "lives")) == 2)
        self.let_go(flock)
        flock[0].wait(running[0])
        os.truncate(os.path.join(disk, "fill"), 0)
        self.until("it takes writes again", lambda: flock[0].nodes()["n2"] == "ready")
        self.assertEqual(set(flock[1].jobs()), {job["id"], running[0]})


if __name__ == "__main__":
    tap.main(lambda: None, "flock")
