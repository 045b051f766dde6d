#!/usr/bin/env python3
"""comments.py [--list] [--most N] [PLACE...]: counts the comments of the C code that are fragments, so that a reader who opens
the file in the middle cannot understand them. Prints the count; --list prints each; with --most the exit code is 1 where
there are more.

The rule. A comment is a fragment if
- one of its sentences begins with a word that goes on from the sentence before the comment (CONTINUES), or
- it stands on lines of its own and begins with a lower-case word that is no identifier, or
- it stands behind code and begins with "and", "or", "but" or "nor", or ends with a comma."""

import argparse
import pathlib
import re
import sys

PLACES = ("core", "net", "kernels", "checkpoint", "tools", "tests")
ENDINGS = (".c", ".h", ".cu", ".cuh", ".inc")
CONTINUES = ("And", "Or", "Nor", "Than", "But", "Which", "Whose", "Whom", "Likewise", "Neither", "Of", "Not", "Also", "So")
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<block>/\*.*?\*/)|(?P<line>//[^\n]*)', re.DOTALL)
IDENTIFIER = re.compile(r"^[\w.*\[\]()<>/+-]*[_.*\[\](<>/0-9][\w.*\[\]()<>/+-]*")


def text_of(comment):
    """The comment's words, without its marks."""
    if comment.startswith("//"):
        return comment[2:].strip()
    lines = comment[2:-2].split("\n")
    return " ".join(line.strip().removeprefix("*").strip() for line in lines).strip()


def fragment(words, alone):
    if not words or not re.match(r"[A-Za-z]", words) or words.startswith(("clang-format", "NOLINT")):
        return False
    for sentence in re.split(r"(?<=[.;:!?]) ", words):
        if sentence.split(" ")[0].rstrip(",") in CONTINUES:
            return True
    first = words.split(" ")[0]
    if alone:
        return first[0].islower() and not IDENTIFIER.match(first) and words.endswith(".")
    return first in ("and", "or", "but", "nor") or words.endswith(",")


def comments(source):
    """(line number, words, whether it stands on lines of its own) of each comment."""
    for match in COMMENT.finditer(source):
        if match.lastgroup is None:
            continue
        before = source[source.rfind("\n", 0, match.start()) + 1 : match.start()]
        yield source.count("\n", 0, match.start()) + 1, text_of(match[0]), not before.strip()


def files(places):
    for place in map(pathlib.Path, places):
        found = [place] if place.is_file() else sorted(place.rglob("*"))
        yield from (path for path in found if path.suffix in ENDINGS and path.is_file())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print each")
    parser.add_argument("--most", type=int, help="how many there may be")
    parser.add_argument("places", nargs="*", default=PLACES, metavar="PLACE", help="files and folders")
    options = parser.parse_args()
    total = bad = 0
    for path in files(options.places):
        for number, words, alone in comments(path.read_text(encoding="utf-8")):
            total += 1
            if fragment(words, alone):
                bad += 1
                if options.list:
                    print(f"{path}:{number}: {words[:150]}")
    print(f"{bad} fragments of {total} comments")
    return options.most is not None and bad > options.most


if __name__ == "__main__":
    sys.exit(main())
