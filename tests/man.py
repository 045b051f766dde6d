#!/usr/bin/env python3
"""Compares the manual pages with the program, and the completions with the manual pages.

    tests/man.py GODWIT [TREE]

GODWIT is the built program. Every difference is printed; the exit code is 1 if there was one. A page and `--help` must
name the same options, with the same letters and arguments; mandoc must find no fault in a page, where it is installed.
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools" / "completions"))
import generate  # noqa: E402  (it adds tools/man to the path)
import pages  # noqa: E402

OPTION = re.compile(r"^ {2}(?:-(\S), | {4})--([a-z0-9-]+)(?:=(\S+)|\[=(\S+)\])?(?:\s|$)")


def help_of(godwit, *words):
    done = subprocess.run([godwit, *words, "--help"], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def options_in(text):
    """The options that a --help prints, as the pages' class."""
    found = map(OPTION.match, text.splitlines())
    return [pages.Option(match[1] or "", match[2], match[3] or match[4] or "") for match in found if match]


def compare(where, page, program):
    """The differences between the options of a page and those of the program."""
    page, program = sorted(map(str, page)), sorted(map(str, program))
    complaints = [f"{where}: the page lacks {option}" for option in program if option not in page]
    complaints += [f"{where}: the program has no {option}" for option in page if option not in program]
    return complaints + [f"{where}: the page has {option} twice" for option in sorted(set(page)) if page.count(option) > 1]


def compare_pages(godwit, folder):
    complaints, table = [], pages.read_all(folder)
    commands = set(re.findall(r"^  godwit ([a-z-]+)", help_of(godwit), re.MULTILINE)) - {"COMMAND"}
    commands = {command for command in commands if not command.startswith("-")}
    for command in sorted(commands - table.keys()):
        complaints.append(f"godwit {command}: there is no page")
    for command in sorted(table.keys() - commands - {""}):
        complaints.append(f"godwit-{command}.1: the program has no such command")
    for command in sorted(commands & table.keys()):
        sections = table[command]
        own = sections[""]
        if command != "bench":  # it has no options but those of what it measures
            complaints += compare(f"godwit {command}", own, options_in(help_of(godwit, command)))
        for word in generate.words_of(sections):
            known = options_in(help_of(godwit, command, word))
            complaints += compare(f"godwit {command} {word}", own + sections[word], known)
    jobs = set(re.findall(r"'(\w+)'", help_of(godwit, "run").partition("\nJOB is ")[2].partition(" or ")[0]))
    subjects = set(re.findall(r"^  (\w+)  +\S", help_of(godwit, "bench"), re.MULTILINE))
    for command, words in (("run", jobs), ("bench", subjects)):
        if not words:
            complaints.append(f"godwit {command}: its --help does not say what it takes")
        complaints += [f"godwit-{command}.1: there is no section 'Options of {word}'"
                       for word in sorted(words - set(generate.words_of(table[command])))]
    return complaints


def lint_pages(folder):
    if shutil.which("mandoc") is None:
        return []
    files = sorted([*folder.glob("*.1"), *folder.glob("*.7")])
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *files], capture_output=True, text=True, check=False)
    # Which other pages are installed is no matter of ours.
    return [line for line in (done.stdout + done.stderr).splitlines() if "mandoc.db" not in line]


def compare_completions(tree):
    complaints = []
    for name, text in generate.generate(tree / "tools" / "man").items():
        path = tree / "tools" / "completions" / name
        if not path.exists() or path.read_text() != text:
            complaints.append(f"tools/completions/{name} is not of these manual pages: run tools/completions/generate.py")
    return complaints


def main(godwit, tree=pathlib.Path(__file__).resolve().parent.parent):
    folder = pathlib.Path(tree) / "tools" / "man"
    complaints = compare_pages(godwit, folder) + lint_pages(folder) + compare_completions(pathlib.Path(tree))
    for complaint in complaints:
        print(f"man: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
