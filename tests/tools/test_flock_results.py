"""godwit results: output, files and checkpoints of jobs, fetched from the node that has them; and that forget removes them."""

import json
import os
import sys
import subprocess
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import flock_members  # noqa: E402
import tap  # noqa: E402


class Results(flock_members.Flock):
    def run_without_directory(self, name, *command):
        """Runs a command where its directory is not, so that it has one of its own. Returns its id."""
        os.mkdir(self.path("gone"))
        id = self.submit(name, "--hold", "--name", "films", *command, cwd=self.path("gone"))
        os.remove(self.path("gone", ".godwit-token"))
        self.ask("release", name, id)
        self.assertEqual(self.wait_for(name, id)["state"], "done", self.logs())
        return id

    def test_files_come_from_the_node_that_has_them(self):
        self.start("a", "b")
        self.ask("drain", "a", "a")
        script = ("mkdir -p deep/er; printf '%s' one > deep/er/one; head -c 3000000 /dev/zero > big; : > empty; "
                  "chmod +x empty; ln -s /etc/passwd link; ln -s /etc away; mkfifo pipe; echo said; echo wrong >&2")
        id = self.run_without_directory("a", "--", "sh", "-c", script)
        self.ask("results", "a", "films")
        found = {}
        for folder, _, names in os.walk(self.path("films")):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self.path("films"))] = file.read()
        self.assertEqual(found, {"out": b"said\n", "err": b"wrong\n", "work/deep/er/one": b"one", "work/big": bytes(3000000),
                                 "work/empty": b""})
        self.assertTrue(os.access(self.path("films", "work", "empty"), os.X_OK))
        done = self.ask("results", "a", "films", check=False)
        self.assertEqual((done.returncode, "is not empty" in done.stderr), (2, True), done.stderr)
        told = json.loads(self.ask("results", "b", "films", "--json", "-o", self.path("again"), "--node", "b").stdout)
        self.assertEqual((len(told["files"]), told["folder"]), (5, self.path("again")))
        for request, said in [({"do": "result", "path": "state/identity"}, "no result"),
                              ({"do": "result", "path": "work/../key"}, "no result"),
                              ({"do": "result", "path": "work/link"}, "is a link"),
                              ({"do": "result", "path": "work/away/passwd"}, "leads through one"),
                              ({"do": "result", "path": "work/pipe"}, "neither a file")]:
            for member in ("a", "b"):
                node = next(node["id"] for node in self.nodes(member) if node["name"] == "b")
                answer = self.door(member, {**request, "job": id, "node": node, "offset": 0})
                self.assertIn(said, answer["error"], request)
        done = self.ask("results", "a", "nothing", check=False)
        self.assertEqual((done.returncode, "there is no job" in done.stderr), (2, True), done.stderr)
        # What is forgotten is gone, whatever was in it.
        self.ask("forget", "b", "--before", "2100-01-01")
        self.wait_until(lambda: not os.path.exists(self.path("b", "jobs", id)), "the folder stays")
        self.assertTrue(os.path.exists("/etc/passwd"))

    def test_a_checkpoint_comes_from_any_node(self):
        self.start("a", "b")
        self.ask("drain", "a", "a")
        id = self.submit("a", "--name", "noise", "synthetic", "--steps", "20", "--shards", "2", "--shard-ms", "0",
                         "--state-bytes", "9m", "--sum-elements", "64")
        job = self.wait_for("a", id)
        self.assertEqual(job["state"], "done", self.logs())
        told = json.loads(self.ask("results", "a", "noise", "--json").stdout)
        self.assertEqual(told["step"], 20)
        shown = subprocess.run([flock_members.GODWIT, "inspect", self.path("noise", "state")], capture_output=True, text=True,
                               timeout=flock_members.PATIENCE)
        self.assertIn(job["ends"][0]["hash"], shown.stdout, shown.stderr)


if __name__ == "__main__":
    tap.main(missing=lambda: None)
