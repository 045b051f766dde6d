"""The program says which commit it is of; no job, no build id and no compilation depends on that."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lab"))
import tap  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build"))
SCRIPT = TREE / "tools" / "commit.cmake"


def missing():
    if not (BUILD / "godwit").exists():
        return "it is not built"
    lacks = [name for name in ("cmake", "git", "objcopy", "readelf") if shutil.which(name) is None]
    return f"no {lacks[0]} here" if lacks else None


class Commit(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def call(self, *command, cwd=None):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        done = subprocess.run(command, cwd=cwd or self.root, env=environment, capture_output=True, text=True, check=False,
                              timeout=120)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def commit_of(self, tree):
        return self.call("cmake", f"-DSOURCE={tree}", "-P", SCRIPT)

    def tree_of_git(self):
        """A small tree with one commit; returns it and the commit."""
        tree = self.root / "a tree"
        (tree / "tools").mkdir(parents=True)
        for name in ("tools/commit.txt", ".gitattributes"):
            shutil.copy(TREE / name, tree / name)
        (tree / "main.c").write_text("int main(void) { return 0; }\n")
        self.call("git", "init", "--quiet", tree)
        self.call("git", "add", "--all", cwd=tree)
        identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        self.call("git", *identity, "commit", "--quiet", "--message=first", cwd=tree)
        return tree, self.call("git", "rev-parse", "HEAD", cwd=tree)[:12]

    def test_a_tree_of_git_says_its_commit_and_that_it_has_changes(self):
        tree, head = self.tree_of_git()
        self.assertEqual(self.commit_of(tree), head)
        (tree / "notes").write_text("no part of the commit, and none of the program")
        self.assertEqual(self.commit_of(tree), head)
        (tree / "main.c").write_text("int main(void) { return 1; }\n")
        self.assertEqual(self.commit_of(tree), f"{head}-dirty")

    def test_a_tar_ball_says_the_commit_without_git_and_in_another_tree_of_git(self):
        tree, head = self.tree_of_git()
        inside = tree / "unpacked"
        inside.mkdir()
        self.call("git", "archive", "--output", self.root / "tree.tar", "HEAD", cwd=tree)
        self.call("tar", "-x", "-f", self.root / "tree.tar", "-C", inside)
        (tree / "main.c").write_text("a change of the tree around it")
        self.assertEqual(self.commit_of(inside), head)

    def test_a_copy_of_a_tar_ball_with_changes_says_so(self):
        (self.root / "tools").mkdir()
        (self.root / "tools" / "commit.txt").write_text("0123456789ab-dirty\n")
        self.assertEqual(self.commit_of(self.root), "0123456789ab-dirty")

    def test_where_nobody_knows_it_is_unknown(self):
        self.assertEqual(self.commit_of(self.root), "unknown")
        (self.root / "tools").mkdir()
        shutil.copy(TREE / "tools" / "commit.txt", self.root / "tools")  # the placeholder of git archive
        self.assertEqual(self.commit_of(self.root), "unknown")
        tree, _ = self.tree_of_git()
        shutil.rmtree(tree / ".git" / "refs")
        self.assertEqual(self.commit_of(tree), "unknown")

    def test_the_build_id_does_not_depend_on_it(self):
        note = self.root / "note"
        note.write_text("0123456789ab-dirty".ljust(64))
        other = self.root / "godwit"
        shutil.copy(BUILD / "godwit", other)
        self.call("objcopy", "--update-section", f"godwit_commit={note}", other)
        pattern = r"godwit (\S+) \(commit ([0-9a-f]{12}(?:-dirty)?|unknown), build ([0-9a-f]{16})\)"
        one, two = (re.fullmatch(pattern, self.call(program, "--version")) for program in (BUILD / "godwit", other))
        self.assertEqual(two[2], "0123456789ab-dirty")
        self.assertEqual((one[1], one[3]), (two[1], two[3]))

    def test_nothing_but_the_program_is_linked_for_it(self):
        if not (BUILD / "build.ninja").exists() or shutil.which("ninja") is None:
            self.skipTest("it is not built by ninja")
        shown = self.call("ninja", "-C", BUILD, "-t", "query", "commit.txt")
        self.assertEqual(set(shown.partition("outputs:")[2].split()), {"godwit", "commit"})
        filled = self.root / "commit.txt"
        self.call("cmake", f"-DSOURCE={self.root}", f"-DTO={filled}", "-P", SCRIPT)
        self.assertEqual(filled.read_text(), "unknown".ljust(64))
        os.utime(filled, ns=(1, 1))
        self.call("cmake", f"-DSOURCE={self.root}", f"-DTO={filled}", "-P", SCRIPT)
        self.assertEqual(filled.stat().st_mtime_ns, 1)


if __name__ == "__main__":
    tap.main(missing, "godwit")
