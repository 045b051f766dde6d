#!/usr/bin/env python3
"""pages.py: what the pages and comments refer to is there. Run by tests/lint.sh in the root of the tree; prints every
complaint, and its exit code is 1 if there was one.

Checked are, in the pages (README.md of each folder, and those beside it in tools): links with their anchors, files and folders, and functions of the
project; in the code and scripts: the files that comments name; in the list of found faults: the tests. README.md at the
top has 8 KB at most."""

import collections
import os
import re
import subprocess
import sys

MOST_BYTES = 8192
FOUND = os.path.join("tests", "found.md")  # names tests by their paths below tests/
TESTS = re.compile(r"\(`[\w-]+/[^()]*\)")  # the tests of an entry there: (`PATH` `NAME`, `NAME`; `PATH`)
TOP = r"(?:core|net|kernels|checkpoint|tools|tests)"
FILE = r"[\w.-]+\.(?:c|h|cu|cuh|inc|py|sh|md|txt|cmake|awk)"
CODE = r"[\w.-]+\.(?:c|h|cu|cuh|py|sh|md)"
PATH_IN_CODE = re.compile(rf"(?<![\w/.-]){TOP}/(?:[\w.-]+/)*{FILE}(?![\w/])")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NAME_IN_COMMENT = re.compile(r"(?<![\w/.-])[a-z0-9_]+\.(?:c|h|cu|cuh)(?!\w)")
FOREIGN = ("llm.c",)  # a program's name
LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`\n]+)`")
FUNCTION = re.compile(r"^gw_\w+$")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def listed():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return [path for path in found if path and os.path.exists(path)]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def anchor(heading):
    """The anchor that a heading has on a page, as the usual sites make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "").replace("*", "")).replace(" ", "-")


class Tree:
    def __init__(self, files):
        self.files = set(files)
        self.folders = {folder for path in files for folder in parents(path)}
        self.names = {os.path.basename(path) for path in files}
        self.pages = [path for path in files if os.path.basename(path) == "README.md" or re.fullmatch(r"tools/\w+\.md", path)]
        self.anchors = {page: set(map(anchor, HEADING.findall(read(page)))) for page in self.pages}
        sources = [path for path in files if re.search(r"\.(c|h|cu|cuh|inc)$", path)]
        self.words = collections.Counter(word for path in sources for word in re.findall(r"\bgw_\w+", read(path)))

    def has(self, place, page):
        """Whether a page may mean a file or folder by that path: from the root, from its own folder, or by a name alone."""
        if "/" not in place:
            return place in self.names or place in self.folders
        start = os.path.dirname(page)
        tries = (place, os.path.join(start, place), os.path.join(start, "godwit", place))
        return any(os.path.normpath(one) in self.files | self.folders for one in tries)


def parents(path):
    while path := os.path.dirname(path):
        yield path


def links(tree, page, text):
    for link in LINK.findall(text):
        if re.match(r"\w+:", link):
            continue
        place, _, wanted = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), place)) if place else page
        if target not in tree.files and target not in tree.folders:
            yield f"{page}: its link to {link} leads nowhere"
        elif wanted and wanted not in tree.anchors.get(target, {wanted}):
            yield f"{page}: its link to {link} leads to no heading"


def spans(tree, page, text):
    for span in SPAN.findall(text):
        for word in re.split(r"[ ,]+", span):
            word = word.rstrip(":;").removesuffix("()")
            alternatives = re.match(r"^(.*)\{([\w,]+)\}(.*)$", word)
            words = [alternatives[1] + one + alternatives[3] for one in alternatives[2].split(",")] if alternatives else [word]
            for one in words:
                if re.match(rf"^{TOP}/(?:[\w/]+/)?$", one) or re.match(rf"^(?:{TOP}/)?(?:[\w-]+/)*{CODE}$", one):
                    if not tree.has(one.rstrip("/"), page):
                        yield f"{page}: it names {one}, which is not there"
                elif FUNCTION.match(one) and one not in tree.words:
                    yield f"{page}: it names {one}, which the code does not have"


def names_in_comments(tree, path):
    for match in COMMENT.finditer(text := read(path)):
        for name in NAME_IN_COMMENT.findall(match.group()):
            if name not in tree.names and name not in FOREIGN:
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: its comment names {name}, which is not there"


def comments(tree, path):
    for number, line in enumerate(read(path).splitlines(), 1):
        if "#include" in line or '"' in line and path.startswith("tests/tools/test_"):
            continue  # the compiler checks the first; the others are of small trees that tests make
        for place in PATH_IN_CODE.findall(line):
            if place not in tree.files and (path != FOUND or f"tests/{place}" not in tree.files):
                yield f"{path}:{number}: it names {place}, which is not there"


def found_tests(tree, text):
    """The tests that found.md names: each file below tests/, and in it the tests whose names follow it."""
    for group in TESTS.finditer(text):
        words, line = "", text.count("\n", 0, group.start()) + 1
        for span in SPAN.findall(group.group()):
            path = f"tests/{span}" if f"tests/{span}" in tree.files else span
            if "/" in span:
                words = read(path) if path in tree.files else None
                if words is None:
                    yield f"{FOUND}:{line}: it names {span}, which is not there"
            elif re.match(r"^\w+$", span) and words is not None and not re.search(rf"\b{span}\b", words):
                yield f"{FOUND}:{line}: it names {span}, which its file does not have"


def main():
    files = listed()
    tree = Tree(files)
    found = []
    if "README.md" in tree.files and os.path.getsize("README.md") > MOST_BYTES:
        found.append(f"README.md: {os.path.getsize('README.md')} bytes; {MOST_BYTES} is the most")
    for page in tree.pages:
        text = read(page)
        found += [*links(tree, page, text), *spans(tree, page, text)]
    for path in files:
        if re.search(r"\.(c|h|cu|cuh|inc|py|sh|cmake)$|found\.md$", path):
            found += comments(tree, path)
        if re.search(r"\.(c|h|cu|cuh|inc)$", path):
            found += names_in_comments(tree, path)
    if FOUND in tree.files:
        found += found_tests(tree, read(FOUND))
    for complaint in found:
        print(f"lint: {complaint}", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
