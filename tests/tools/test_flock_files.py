"""Files that travel with the jobs of a flock: what goes by itself, what --files names, what is refused, and jobs that run
where the directory in which they were submitted is not."""

import hashlib
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import flock_members  # noqa: E402
import tap  # noqa: E402

SCRIPT = """
import helper, pack.inner as inner
from other import *
print(helper.VALUE, inner.VALUE, open("data/table.txt").read())
"""


class Files(flock_members.Flock):
    def make_project(self):
        self.make("project/main.py", SCRIPT)
        self.make("project/helper.py", "from deep import VALUE")
        self.make("project/deep.py", "VALUE = 'helped'")
        self.make("project/other.py", "pass")
        self.make("project/pack/__init__.py", "from . import sibling")
        self.make("project/pack/inner.py", "VALUE = 'inner'")
        self.make("project/pack/sibling.py", "pass")
        self.make("project/unused.py", "pass")
        self.make("project/.secret", "do not take")
        self.make("project/data/table.txt", "table")
        self.make("project/data/.hidden", "do not take")
        return self.path("project")

    def output(self, name, id):
        return self.ask("logs", name, id).stdout

    def test_a_job_takes_its_files_to_where_its_directory_is_not(self):
        self.start("a", "b", "c")
        project = self.make_project()
        id = self.submit("a", "--hold", "--files", "data", "--", sys.executable.rpartition("/")[2], "main.py", cwd=project)
        os.rename(project, self.path("gone"))
        self.kill("a")  # who has submitted it is gone as well
        self.ask("release", "b", id)
        job = self.wait_for("b", id)
        self.assertEqual(job["state"], "done", self.logs())
        self.assertEqual(self.output("b", id), "helped inner table\n")
        node = next(node["name"] for node in self.nodes("b") if node["id"] == job["ends"][0]["node"])
        work = self.path(node, "jobs", id, "work")
        found = sorted(os.path.relpath(os.path.join(folder, name), work)
                       for folder, _, names in os.walk(work) for name in names if "__pycache__" not in folder)
        self.assertEqual(found, ["data/table.txt", "deep.py", "helper.py", "main.py", "other.py", "pack/__init__.py",
                                 "pack/inner.py", "pack/sibling.py"])

    def test_a_job_runs_in_its_directory_where_that_is(self):
        self.start("a", "b")
        project = self.make_project()
        id = self.submit("a", "--", "sh", "-c", "cat .secret; touch was-here", cwd=project)
        self.assertEqual(self.wait_for("a", id)["state"], "done", self.logs())
        self.assertEqual(self.output("a", id), "do not take")
        self.assertTrue(os.path.exists(os.path.join(project, "was-here")))
        self.assertRegex(open(os.path.join(project, ".godwit-token")).read(), "^[0-9a-f]{32}\n$")
        # Another directory of that name is none: the job runs in one of its own.
        id = self.submit("a", "--hold", "--", "sh", "-c", "ls -A", cwd=project)
        os.rename(project, self.path("gone"))
        self.make("project/.godwit-token", "0" * 32)
        self.ask("release", "b", id)
        self.assertEqual(self.wait_for("a", id)["state"], "done", self.logs())
        self.assertEqual(self.output("a", id), "")

    def test_modes_and_large_files_come_as_they_are(self):
        self.start("a", "b")
        large = os.urandom(9 << 20)
        project = os.path.dirname(self.make("project/large", large))
        self.make("project/empty")
        self.make("project/run.sh", "#!/bin/sh\ntest -x run.sh && test ! -x large && test ! -s empty && cat large\n")
        os.chmod(self.path("project/run.sh"), 0o755)
        id = self.submit("a", "--hold", "--files", "large", "--files", "./empty", "--", "./run.sh", cwd=project)
        os.rename(project, self.path("gone"))
        self.ask("drain", "a", "a")  # so that b runs it
        self.ask("release", "a", id)
        job = self.wait_for("a", id)
        self.assertEqual(job["state"], "done", self.logs())
        with open(self.path("b", "jobs", id, "out"), "rb") as file:
            self.assertEqual(hashlib.blake2b(file.read()).digest(), hashlib.blake2b(large).digest())

    def test_what_may_not_travel_is_refused(self):
        self.start("a")
        project = self.make_project()
        self.make("outside", "x")
        os.symlink("../outside", os.path.join(project, "link"))
        os.symlink("..", os.path.join(project, "up"))
        os.mkfifo(os.path.join(project, "data", "pipe"))
        for path, said in [("../outside", "'..'"), ("data/../../outside", "'..'"), ("/etc/passwd", "outside of the directory"),
                           ("link", "is a link"), ("up/outside", "leads through one"), ("data", "neither a file nor a folder"),
                           ("missing", "No such file")]:
            done = self.ask("submit", "a", "--files", path, "--", "true", check=False, cwd=project)
            self.assertEqual(done.returncode, 2, (path, done.stderr))
            self.assertIn(said, done.stderr, path)
        os.remove(os.path.join(project, "data", "pipe"))
        for i in range(4097):
            self.make(f"project/many/{i}")
        self.make("project/large", bytes(17 << 20))
        for path, said in [("many", "more than 4096 files"), ("large", "more than 16 MiB")]:
            done = self.ask("submit", "a", "--files", path, "--", "true", check=False, cwd=project)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr, path)
        self.assertEqual(self.jobs("a"), [])

    def put(self, name, *parts):
        chunks = [{"name": hashlib.blake2b(part, digest_size=32).hexdigest(), "bytes": len(part)} for part in parts]
        answer = self.door(name, {"do": "put", "chunks": chunks, "bytes": sum(map(len, parts))}, b"".join(parts))
        self.assertEqual(answer, {})
        return [chunk["name"] for chunk in chunks]

    def test_a_member_takes_no_hostile_files(self):
        self.start("a")
        spec = {"nonce": "1" * 32, "key": "1" * 64, "kind": "command", "name": "evil", "command": ["true"]}
        text = b"evil"

        def files(*paths, bytes=len(text), chunk=hashlib.blake2b(text, digest_size=32).digest()):
            return b"GJF\1" + b"".join(len(path).to_bytes(2, "little") + path + b"\0" + bytes.to_bytes(8, "little") + chunk
                                       for path in paths)

        for list, said in [(files(b"../evil"), "malformed"), (files(b"/tmp/evil"), "malformed"),
                           (files(b"a", b"a/b"), "malformed"), (files(b"b", b"a"), "malformed"),
                           (files(*(b"%06d" % i for i in range(5000))), "malformed"),
                           (files(b"a", bytes=1 << 40), "malformed"), (b"GJF\1", "malformed"), (b"nonsense", "malformed"),
                           (files(b"a", chunk=bytes(32)), "no other node")]:
            [name] = self.put("a", list)
            self.put("a", text)
            answer = self.door("a", {"do": "submit", "spec": {**spec, "files": name}})
            self.assertIn(said, answer["error"], list[:40])
        self.assertIn("no other node", self.door("a", {"do": "submit", "spec": {**spec, "files": "0" * 63 + "1"}})["error"])
        wrong = {"do": "put", "chunks": [{"name": "0" * 64, "bytes": 4}], "bytes": 4}
        self.assertIn("do not have the hash", self.door("a", wrong, b"evil")["error"])
        wrong["chunks"] *= 9
        self.assertIn("error", self.door("a", {**wrong, "bytes": 36}, b"evil" * 9))
        self.assertIsNone(self.door("a", {**wrong, "bytes": 5 << 20}))
        self.assertIsNone(self.door("a", {**wrong, "bytes": -1}))
        self.assertEqual(self.jobs("a"), [])
        [name] = self.put("a", files(b"a/b"))
        self.assertIn("id", self.door("a", {"do": "submit", "spec": {**spec, "files": name}}))


if __name__ == "__main__":
    tap.main(missing=lambda: None)
