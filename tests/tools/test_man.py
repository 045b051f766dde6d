"""The manual pages and the completions of the shells: tests/man.py finds none of the differences that it looks for in
this tree, and each of them where it is planted; and the shells offer what the files promise."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "lab"))
sys.path.insert(0, str(HERE.parent))
import man  # noqa: E402
import tap  # noqa: E402

GODWIT = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build")) / "godwit"


class Pages(unittest.TestCase):
    def setUp(self):
        self.tree = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copytree(TREE / "tools" / "man", self.tree / "tools" / "man")
        shutil.copytree(TREE / "tools" / "completions", self.tree / "tools" / "completions")

    def complaints(self):
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            code = man.main(GODWIT, self.tree)
        self.assertEqual(code, 1 if text.getvalue() else 0)
        return text.getvalue()

    def page(self, name, old, new):
        path = self.tree / "tools" / "man" / name
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1))

    def test_the_pages_are_those_of_the_program(self):
        self.assertEqual(self.complaints(), "")

    def test_an_option_that_a_page_lacks_is_found(self):
        self.page("godwit-status.1", ".It Fl j , Fl -json\nPrint one JSON object.\n", "")
        self.assertIn("godwit status: the page lacks -j, --json", self.complaints())

    def test_an_option_that_the_program_lacks_is_found(self):
        self.page("godwit-stop.1", ".It Fl d ,", ".It Fl -now\nStop now.\n.It Fl d ,")
        self.assertIn("godwit stop: the program has no --now", self.complaints())

    def test_another_argument_is_found(self):
        self.page("godwit-run.1", ".It Fl -keep Ns = Ns Ar N", ".It Fl -keep Ns = Ns Ar COUNT")
        self.assertIn("godwit run: the page lacks --keep=N", self.complaints())

    def test_an_option_of_a_job_is_found(self):
        self.page("godwit-run.1", ".It Fl -layers Ns = Ns Ar N", ".It Fl -floors Ns = Ns Ar N")
        complaints = self.complaints()
        self.assertIn("godwit run gpt: the page lacks --layers=N", complaints)
        self.assertIn("godwit bench gpt: the program has no --floors=N", complaints)

    def test_an_option_of_a_measurement_is_found(self):
        self.page("godwit-bench.1", ".It Fl n , Fl -count Ns = Ns Ar N", ".It Fl -count Ns = Ns Ar N")
        self.assertIn("godwit bench steal: the page lacks -n, --count=N", self.complaints())

    def test_a_job_and_a_command_without_a_page_are_found(self):
        self.page("godwit-run.1", ".Ss Options of synthetic", ".Ss Other options")
        self.assertIn("there is no section 'Options of synthetic'", self.complaints())
        (self.tree / "tools" / "man" / "godwit-plot.1").unlink()
        self.assertIn("godwit plot: there is no page", self.complaints())

    def test_a_page_without_a_command_is_found(self):
        shutil.copy(self.tree / "tools" / "man" / "godwit-stop.1", self.tree / "tools" / "man" / "godwit-go.1")
        self.assertIn("godwit-go.1: the program has no such command", self.complaints())

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc here")
    def test_a_page_that_mandoc_does_not_like_is_found(self):
        self.page("godwit-stop.1", ".Sh OPTIONS", ".Zz\n.Sh OPTIONS")
        self.assertIn("godwit-stop.1", self.complaints())

    def test_a_completion_that_is_not_of_these_pages_is_found(self):
        for name in ("godwit.bash", "_godwit", "godwit.fish"):
            (self.tree / "tools" / "completions" / name).write_text("")
            self.assertIn(f"tools/completions/{name} is not of these manual pages", self.complaints())


class Shells(unittest.TestCase):
    """Each shell completes lines as a person types them, in a folder with a file, a folder and a job."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "loss.csv").write_text("")
        (self.folder / "mine.so").write_text("")
        (self.folder / "data").mkdir()

    def run_shell(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def bash(self, *words):
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _godwit; printf "%s\\n" "${COMPREPLY[@]}"')
        return self.run_shell("bash", "-c", script, "bash", TREE / "tools" / "completions" / "godwit.bash", *words)

    def fish(self, line):
        path = TREE / "tools" / "completions" / "godwit.fish"
        shown = self.run_shell("fish", "--no-config", "-c", 'source $argv[1]; complete -C $argv[2]', path, line)
        return [one.partition("\t")[0] for one in shown]

    def test_bash(self):
        self.assertEqual(self.bash("godwit", "st"), ["status", "stop"])
        self.assertEqual(self.bash("godwit", "help", "ke"), ["keygen"])
        self.assertEqual(self.bash("godwit", "run", "di"), ["digits"])
        self.assertEqual(self.bash("godwit", "run", "mi"), ["mine.so"])
        self.assertEqual(self.bash("godwit", "run", "gpt", "--che"), ["--checkpoint-every="])
        self.assertEqual(self.bash("godwit", "run", "gpt", "--layer"), ["--layers="])
        self.assertEqual(self.bash("godwit", "run", "digits", "--layer"), [""])
        self.assertEqual(self.bash("godwit", "run", "gpt", "--quorum", ""), ["any", "majority"])
        self.assertEqual(self.bash("godwit", "run", "gpt", "--quorum", "=", "ma"), ["majority"])
        self.assertEqual(self.bash("godwit", "run", "gpt", "--schedule", "="), ["cosine", "linear", "wsd", "constant"])
        self.assertEqual(self.bash("godwit", "status", "--dir", ""), ["data"])
        self.assertEqual(self.bash("godwit", "status", "-d", ""), ["data"])
        self.assertEqual(self.bash("godwit", "plot", "lo"), ["loss.csv"])
        self.assertEqual(self.bash("godwit", "export", ""), ["data"])
        self.assertEqual(self.bash("godwit", "bench", "ste"), ["steal"])
        self.assertEqual(self.bash("godwit", "run", "gpt", "--steps", ""), [""])

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish(self):
        self.assertEqual(self.fish("godwit st"), ["status", "stop"])
        self.assertEqual(self.fish("godwit help ke"), ["keygen"])
        self.assertEqual(self.fish("godwit run di"), ["digits"])
        self.assertEqual(self.fish("godwit run mi"), ["mine.so"])
        self.assertEqual(self.fish("godwit run gpt --layer"), ["--layers"])
        self.assertEqual(self.fish("godwit run digits --layer"), [])
        self.assertEqual(self.fish("godwit run gpt --quorum="), ["--quorum=any", "--quorum=majority"])
        self.assertEqual(self.fish("godwit status --dir "), ["data/"])
        self.assertEqual(self.fish("godwit plot lo"), ["loss.csv"])
        self.assertEqual(self.fish("godwit bench ste"), ["steal"])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh(self):
        """The specifications that _arguments is given; to complete takes a terminal."""
        script = ("_arguments() { shift; print -rl -- $@ }; _describe() { print -rl -- ${(P)2} }; compadd() { : };"
                  'file=$1; shift; words=("$@"); CURRENT=$#; source $file')
        path = TREE / "tools" / "completions" / "_godwit"
        self.assertIn("status:show what a running peer knows", self.run_shell("zsh", "-fc", script, "zsh", path, "godwit", ""))
        specs = self.run_shell("zsh", "-fc", script, "zsh", path, "godwit", "run", "gpt", "-")
        for start in ("--quorum=[", "--layers=[", "1:job:_godwit_jobs"):
            self.assertTrue(any(spec.startswith(start) for spec in specs), start)
        self.assertTrue(any(spec.endswith(":any|majority:(any majority)") for spec in specs))
        specs = self.run_shell("zsh", "-fc", script, "zsh", path, "godwit", "run", "digits", "-")
        self.assertFalse(any(spec.startswith("--layers=[") for spec in specs))
        specs = self.run_shell("zsh", "-fc", script, "zsh", path, "godwit", "status", "-")
        self.assertIn("(-d --dir)-d+[The directory of a running peer]:DIR:_files -/", specs)


if __name__ == "__main__":
    tap.main(lambda: None if GODWIT.exists() else "it is not built", "godwit")
