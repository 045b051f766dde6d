"""Programs that do what no job should: what ends a worker costs no byte, what ends a job is told with its place, and
peers that differ are told in what."""

import concurrent.futures
import contextlib
import os
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import processes  # noqa: E402
import tap  # noqa: E402

BAD = os.path.join(peers.PROGRAMS, "bad.py")
AT_ONCE = 3
GONE_S = 60  # what was killed has ended by then
GROUPS = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
GROUP_BYTES = 256 << 20

# What a worker does once, and what the log says of it. None of it changes the result.
DEEDS = {
    "null@shard 1": "signal 11 (Segmentation fault), at {null}",
    "end@shard 2": "has ended: exit status 7",
    "end well@shard 3": "has ended: exit status 0",
    "abort@shard 4": "signal 6 (Aborted), at {abort}",
    "write@shard 5": "signal 11 (Segmentation fault), at {write}{any} (as by a write to the state, which can only be read",
    "term@shard 6": "has ended: signal 15 (Terminated)",
    "print@shard 7": "xxxxxxxx",
    "binary@shard 8": "more lines within a second were dropped",
    "close tie@shard 9": "Bad file descriptor",
    "close output@shard 10": "",
    "elsewhere@shard 11": "",
    "unable@shard 12": "No such file or directory: '/nowhere/at/all'; another worker computes it again",
    "limited@shard 13": ": MemoryError; another worker computes it again",
    "children@shard 14": "",
    "interrupt@shard 15": "has ended: signal 2 (Interrupt)",
    "daemons@shard 16": "",
    "pool@shard 17": "",
    "group@shard 18": "has ended: signal 9 (Killed)",
    "close@shard 19": "has ended: exit status 1",
    "no stderr@shard 20": "",
    "handlers@shard 21": "",  # it ignores all signals; the worker dies at the next deed
    "kill parent@shard 22": "with the process that it was forked from",
    "spin@shard 24": "has been busy with it for too long (--hang-timeout), at {any} (spin); another worker computes it again",
    "hang@once 25": "has been busy with it for too long (--hang-timeout), at {hang} (hang); it is computed again",
    "end@once 26": "the end of step",
    "fault@after 27": "AFTER: worker",
    "end@after 28": "AFTER: worker",
}

# What ends the job, and the last that people are told.
ENDS = {
    "raise@import": "does not describe a job: worker 1 (process {any}) has ended: exit status 1, at {raise} (raises); it last printed: "
    "KeyError: 'no such sample'",
    "exit@import": "it last printed: enough",
    "end@import": "has ended: exit status 7",
    "end well@import": "exit status 0 before it came to a job (in Python, job.run())",
    "null@import": "signal 11 (Segmentation fault), at {null}",
    "recurse@import": "at {recurse} (recurse); it last printed: RecursionError: maximum recursion depth exceeded",
    "close tie@import": "does not describe a job",
    "!raise@shard 2": "{raise}: KeyError: 'no such sample'",
    "!raise@once 2": "{raise}: KeyError: 'no such sample'",
    "!raise@after 2": "{raise}: KeyError: 'no such sample'",
    "!exit@shard 2": "the program calls exit (enough) in a shard",
    "!recurse@once 1": "{recurse}: RecursionError: maximum recursion depth exceeded",
    "!end@once 3": "has ended: exit status 7",
    "!null@after 1": "signal 11 (Segmentation fault), at {null}",
    "raise@behind": "the job is done, but",
}

# Files that are no programs, and pythons that are none.
FILES = {
    "broken.py": (b"import godwit\nx = (\n", "broken.py:2; it last printed: SyntaxError: '(' was never closed"),
    "latin.py": (b"import godwit\nx = '\xff'\n", "latin.py"),
    "empty.py": (b"", "exit status 0 before it came to a job (in Python, job.run())"),
    "misses.py": (b"import no_such_module\n", "misses.py:1 (<module>); it last printed: ModuleNotFoundError: No module named"),
    "torch.py": (b"import sys\nsys.modules['torch'] = None\nimport godwit\ngodwit.Job\n", "godwit.Job needs PyTorch"),
    "old.py": (b"import sys\nsys.version_info = (3, 7, 3)\nimport godwit\n", "godwit needs Python 3.9 or later, and "),
}

DIFFERING = """
import sys
import godwit, numpy, beside, packed
from godwit import arrays
job = arrays.Job({"w": numpy.zeros(2)}, {"g": numpy.zeros(2)}, shards=1, updates=2, data=[sys.argv[1]])
job.shard(lambda s, state: ({"g": numpy.zeros(2)}, 1))
job.update(lambda u, state, totals: None)
job.run()
"""


def places():
    """Where bad.py does what it marks as a place."""
    with open(BAD) as file:
        lines = [line.rstrip().rpartition("# place: ") for line in file]
    return {deed: f"{BAD}:{number}" for number, (_, mark, deed) in enumerate(lines, 1) if mark}


def fits(words, line):
    """Whether the line has the words in their order; `{deed}` stands for a place, `{any}` for anything."""
    at = 0
    for part in words.replace("{any}", "\0").split("\0"):
        for deed, place in places().items():
            part = part.replace("{%s}" % deed, place)
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


class Bad(peers.Case):
    def marks(self, name):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        return {"GODWIT_TEST_MARKS": folder}

    def expect_ends(self, marks):
        """What was started with these marks ends soon, and so nothing is left behind."""
        mark = "GODWIT_TEST_MARKS=" + marks["GODWIT_TEST_MARKS"]
        self.addCleanup(processes.kill_marked, mark)
        self.assertEqual(processes.left(mark, GONE_S), {})

    def expect(self, words, output, what):
        self.assertTrue(any(fits(words, line) for line in output.splitlines()), f"{what}: no '{words}' in\n{output}")


class Deeds(Bad):
    def test_what_a_program_does_to_its_workers_changes_no_byte(self):
        state = self.state("plain", BAD, (), ("--workers", "2"), **self.marks("none"))
        marks = self.marks("marks")
        self.assertEqual(self.state("bad", BAD, DEEDS, ("--workers", "2", "--hang-timeout", "4s"), **marks), state)
        self.assertEqual(set(os.listdir(marks["GODWIT_TEST_MARKS"])), set(DEEDS))
        for deed, words in DEEDS.items():
            self.expect(words, self.output, deed)
        self.expect_ends(marks)

    def test_what_workers_have_started_ends_with_them_though_their_parent_was_killed(self):
        marks = self.marks("marks")
        deeds = ["children@shard 3", "kill parent@shard 4", "children@shard 6", "end well@shard 7", "end@shard 8"]
        self.state("bad", BAD, deeds, ("--workers", "1"), **marks)
        self.assertEqual(set(os.listdir(marks["GODWIT_TEST_MARKS"])), set(deeds))
        self.expect_ends(marks)

    def test_what_ends_the_job_is_told_with_its_place(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            ends = {deed: pool.submit(self.end_of, number, deed) for number, deed in enumerate(ENDS)}
        for deed, words in ENDS.items():
            status, output = ends[deed].result()
            self.assertNotEqual(status, 0, (deed, output))
            self.expect(words, output, deed)

    def end_of(self, number, deed):
        peer = self.peer(f"end{number}", BAD, [deed], ("--workers", "2"), **self.marks(f"marks{number}"))
        return peer.end(), peer.output

    def test_a_worker_that_the_kernel_ends_for_lack_of_memory_is_told_as_such(self):
        with self.group() as group:
            deeds = ["starve@shard 3", "starve@once 5"]
            options = ("--workers", "2")
            state = self.state("plain", BAD, (), options, **self.marks("none"))
            found = self.state("bad", BAD, deeds, options, GODWIT_TEST_GROUP=group, **self.marks("marks"))
            self.assertEqual(found, state)
            self.assertEqual(self.output.count("as the kernel ended it for lack of memory"), 2, self.output)

    @contextlib.contextmanager
    def group(self):
        """A control group with little memory."""
        for parent in GROUPS:
            path = os.path.join(parent, f"godwit-test-{os.getpid()}")
            with contextlib.suppress(OSError):
                os.mkdir(path)
            for limit in ("memory.limit_in_bytes", "memory.max"):
                if not os.access(os.path.join(path, limit), os.W_OK):
                    continue
                with open(os.path.join(path, limit), "w") as file:
                    file.write(str(GROUP_BYTES))
                try:
                    yield path
                finally:
                    os.rmdir(path)
                return
            with contextlib.suppress(OSError):
                os.rmdir(path)
        self.skipTest("no control group that limits memory can be made here")


class Files(Bad):
    def test_files_that_are_no_programs_are_refused(self):
        for name, (content, words) in FILES.items():
            path = os.path.join(self.folder, name)
            with open(path, "wb") as file:
                file.write(content)
            peer = self.peer(name + " peer", path, (), ("--workers", "1"))
            self.assertEqual(peer.end(), 1, peer.output)
            self.expect(f"{path} does not describe a job: ", peer.output, name)
            self.expect(words, peer.output, name)
        folder = os.path.join(self.folder, "folder.py")
        os.mkdir(folder)
        self.assertIn("folder.py is no file", self.refusal(folder))
        self.assertIn("cannot be read: No such file", self.refusal(os.path.join(self.folder, "gone.py")))

    def test_a_python_that_is_none_is_named(self):
        for python, words in (("/nowhere/python", "--python: there is no program '/nowhere/python'"),
                              (self.folder, "Permission denied"), ("/bin/false", "exit status 1")):  # fmt: skip
            peer = self.peer("none", BAD, (), (), python)
            self.assertNotEqual(peer.end(), 0)
            self.assertIn(words, peer.output)

    def test_a_script_has_one_job(self):
        path = os.path.join(self.folder, "two.py")
        data = os.path.join(self.folder, "data")
        open(data, "w").close()
        with open(path, "w") as file:
            file.write(DIFFERING.replace(", beside, packed", "") + "job.run()\n")
        peer = self.peer("two", path, [data], ("--workers", "1"))
        self.assertEqual(peer.end(), 1)
        self.expect("the job is done, but", peer.output, "two")
        self.expect("job.run() is called twice: a script has one job", peer.output, "two")


class Differing(Bad):
    def folder_of(self, name, script="", beside="1"):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        for file, text in (("job.py", DIFFERING + script), ("beside.py", f"x = {beside}\n"), ("data", name)):
            with open(os.path.join(folder, file), "w") as out:
                out.write(text)
        return folder

    def package(self, version):
        """The module path with a package of that version."""
        folder = os.path.join(self.folder, f"packages{version}")
        os.makedirs(os.path.join(folder, f"packed-{version}.dist-info"))
        open(os.path.join(folder, "packed.py"), "w").close()
        with open(os.path.join(folder, f"packed-{version}.dist-info", "METADATA"), "w") as file:
            file.write(f"Metadata-Version: 2.1\nName: packed\nVersion: {version}\n")
        return {"PYTHONPATH": f"{peers.MODULE}:{folder}"}

    def test_peers_that_differ_are_told_in_what(self):
        plain, script, beside = self.folder_of("plain"), self.folder_of("script", "# more\n"), self.folder_of("beside", "", "2")
        first, second = self.package("1.0"), self.package("2.0")
        data, other = os.path.join(plain, "data"), os.path.join(script, "data")
        together = ("--workers", "1", "--peers", "2")
        one = self.peer("one", os.path.join(plain, "job.py"), [data], together, **first)
        together = (*together, "--join", one.address())
        cases = [
            (script, [data], (), first, r"the file of the program differs.*file:job\.py="),
            (beside, [data], (), first, r"theirs: file:beside\.py=\w+, here: file:beside\.py="),
            (plain, [data], (), second, "theirs: package:packed=1.0, here: package:packed=2.0"),
            (plain, [data], ("--threads", "2"), first, "theirs: threads=1, here: threads=2"),
            (plain, [data, "more"], (), first, r"theirs: args=\S+, here: args=\S+ more"),
            (plain, [other], (), first, r"theirs: data:0:data=\w+, here: data:0:data="),
        ]
        started = [
            self.peer(f"other{i}", os.path.join(folder, "job.py"), arguments, (*together, *options), **path)
            for i, (folder, arguments, options, path, _) in enumerate(cases)
        ]
        for peer, case in zip(started, cases):
            peer.says(case[4])


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("numpy"), what="programs")
