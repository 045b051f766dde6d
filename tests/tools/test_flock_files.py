"""Files that travel with the jobs of a flock: what goes by itself, what --files names, what is refused, and jobs that run
where the directory in which they were submitted is not."""

import glob
import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_flock import PATIENCE, Case, tap  # noqa: E402

SCRIPT = """
import helper, pack.inner as inner
from other import *
print(helper.VALUE, inner.VALUE, open("data/table.txt").read())
"""


def make(folder, name, content=""):
    """Makes a file, and the folders above it."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def files_in(folder):
    return sorted(os.path.relpath(os.path.join(inner, name), folder)
                  for inner, _, names in os.walk(folder) for name in names if "__pycache__" not in inner)


def hand(member, request, more=b""):
    """Sends a line and bytes to a member as they are. Returns the answer, None where it hangs up."""
    with member.knock() as door:
        door.settimeout(PATIENCE)
        door.sendall(json.dumps(request).encode() + b"\n" + more)
        with door.makefile("rb") as answers:
            try:
                line = answers.readline()
            except ConnectionResetError:
                line = b""
    return json.loads(line) if line else None


class Files(Case):
    def project(self, flock):
        folder = os.path.join(flock.folder, "project")
        for name, content in [("main.py", SCRIPT), ("helper.py", "from deep import VALUE"), ("deep.py", "VALUE = 'helped'"),
                              ("other.py", "pass"), ("pack/__init__.py", "from . import sibling"), ("unused.py", "pass"),
                              ("pack/inner.py", "VALUE = 'inner'"), ("pack/sibling.py", "pass"), (".secret", "do not take"),
                              ("data/table.txt", "table"), ("data/.hidden", "do not take")]:
            make(folder, name, content)
        return folder

    def away(self, folder):
        """Takes a folder away from all nodes."""
        os.rename(folder, folder + "-gone")

    def test_a_job_takes_its_files_to_where_its_directory_is_not(self):
        flock = self.flock(3)
        project = self.project(flock)
        told = json.loads(flock[0].do("submit", "--json", "--hold", "--files", "data", "--", "python3", "main.py", cwd=project))
        self.assertGreaterEqual(told["disks"], 2)
        self.assertEqual(told["file_disks"], 2)
        self.away(project)
        flock[0].lose_power()  # who has submitted it is gone as well
        flock[1].do("release", told["id"])
        flock[1].wait(told["id"])
        self.assertEqual(flock[1].logs(told["id"]), "helped inner table\n")
        [work] = [os.path.join(member.directory, "jobs", told["id"], "work") for member in flock
                  if os.path.isdir(os.path.join(member.directory, "jobs", told["id"]))]
        self.assertEqual(files_in(work), ["data/table.txt", "deep.py", "helper.py", "main.py", "other.py",
                                          "pack/__init__.py", "pack/inner.py", "pack/sibling.py"])

    def test_files_stay_on_two_nodes(self):
        flock = self.flock(4, ["--takeover", "0"])  # two that are left run commands, whoever they are
        project = self.project(flock)
        job = flock[0].submit("--hold", "--files", "data", "--", "cat", "data/table.txt", cwd=project)
        self.away(project)
        has = lambda member: len(glob.glob(os.path.join(member.directory, "chunks", "*", "*"))) >= 2  # noqa: E731
        for lost in range(3):  # two would be enough to lose them all, if nobody made a new copy
            here = flock.running()
            self.until("two nodes have the files", lambda: sum(map(has, here)) >= min(2, len(here)))
            if lost < 2:
                next(filter(has, here)).lose_power()
        [member, _] = flock.running()
        member.do("release", job)
        member.wait(job)
        self.assertEqual(member.logs(job), "table")

    def test_a_job_runs_in_its_directory_where_that_is(self):
        flock = self.flock(2)
        project = self.project(flock)
        job = flock[0].submit("--", "sh", "-c", "cat .secret; touch was-here", cwd=project)
        flock[0].wait(job)
        self.assertEqual(flock[0].logs(job), "do not take")
        self.assertIn("was-here", os.listdir(project))
        with open(os.path.join(project, ".godwit-token")) as token:
            self.assertRegex(token.read(), "^[0-9a-f]{32}\n$")
        # Another directory of that name is none: the job runs in one of its own.
        job = flock[0].submit("--hold", "--", "sh", "-c", "ls -A", cwd=project)
        self.away(project)
        make(project, ".godwit-token", "0" * 32)
        flock[1].do("release", job)
        flock[1].wait(job)
        self.assertEqual(flock[1].logs(job), "")

    def test_modes_and_large_files_come_as_they_are(self):
        flock = self.flock(2)
        large = os.urandom(9 << 20)
        project = os.path.join(flock.folder, "project")
        make(project, "large", large)
        make(project, "empty")
        make(project, "run.sh", "#!/bin/sh\ntest -x run.sh && test ! -x large && test ! -s empty && cat large\n")
        os.chmod(os.path.join(project, "run.sh"), 0o755)
        job = flock[0].submit("--hold", "--files", "large", "--files", "./empty", "--", "./run.sh", cwd=project)
        self.away(project)
        flock[0].do("drain", flock[0].name)
        flock[0].do("release", job)
        flock[0].wait(job)
        with open(os.path.join(flock[1].directory, "jobs", job, "out"), "rb") as file:
            self.assertEqual(hashlib.blake2b(file.read()).digest(), hashlib.blake2b(large).digest())

    def test_what_may_not_travel_is_refused(self):
        flock = self.flock(1)
        project = self.project(flock)
        make(flock.folder, "outside", "x")
        os.symlink("../outside", os.path.join(project, "link"))
        os.symlink("..", os.path.join(project, "up"))
        os.mkfifo(os.path.join(project, "data", "pipe"))
        for path, said in [("../outside", "'..'"), ("data/../../outside", "'..'"), ("/etc/passwd", "outside of the directory"),
                           ("link", "is a link"), ("up/outside", "leads through one"), ("data", "neither a file nor a folder"),
                           ("missing", "No such file")]:
            done = flock[0].run("submit", "--files", path, "--", "true", cwd=project)
            self.assertEqual(done.returncode, 2, (path, done.stderr))
            self.assertIn(said, done.stderr, path)
        for i in range(4097):
            make(project, f"many/{i}")
        make(project, "large", bytes(17 << 20))
        for path, said in [("many", "more than 4096 files"), ("large", "more than 16 MiB")]:
            done = flock[0].run("submit", "--files", path, "--", "true", cwd=project)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr, path)
        self.assertEqual(flock[0].jobs(), {})

    def put(self, member, *parts):
        chunks = [{"name": hashlib.blake2b(part, digest_size=32).hexdigest(), "bytes": len(part)} for part in parts]
        answer = hand(member, {"do": "put", "chunks": chunks, "bytes": sum(map(len, parts))}, b"".join(parts))
        self.assertEqual(answer, {})
        return [chunk["name"] for chunk in chunks]

    def test_a_member_takes_no_hostile_files(self):
        [member] = self.flock(1)
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
            [name] = self.put(member, list)
            self.put(member, text)
            answer = hand(member, {"do": "submit", "spec": {**spec, "files": name}})
            self.assertIn(said, answer["error"], list[:40])
        unknown = hand(member, {"do": "submit", "spec": {**spec, "files": "0" * 63 + "1"}})
        self.assertIn("no other node", unknown["error"])
        wrong = {"do": "put", "chunks": [{"name": "0" * 64, "bytes": 4}], "bytes": 4}
        self.assertIn("do not have the hash", hand(member, wrong, b"evil")["error"])
        wrong["chunks"] *= 9
        self.assertIn("error", hand(member, {**wrong, "bytes": 36}, b"evil" * 9))
        self.assertIsNone(hand(member, {**wrong, "bytes": 5 << 20}))
        self.assertIsNone(hand(member, {**wrong, "bytes": -1}))
        self.assertEqual(member.jobs(), {})
        [name] = self.put(member, files(b"a/b"))
        self.assertIn("id", hand(member, {"do": "submit", "spec": {**spec, "files": name}}))


if __name__ == "__main__":
    tap.main(missing=lambda: None)
