"""Reads the options of the manual pages in this folder.

The pages are the one table of what the program accepts: tools/completions/generate.py makes the shells' completions of
it, and tests/man.py compares it with what `godwit COMMAND --help` prints.
"""

import dataclasses
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
PUNCTUATION = {".", ",", ";", ":", ")", "!", "?"}
QUIET_MACROS = {"Ar", "Cm", "Ev", "In", "Li", "No", "Pa", "Sy", "Em", "Va"}  # they change the face of the text alone


@dataclasses.dataclass
class Option:
    """One option: its letter (or ""), its name without dashes, its argument (or "") and what the page says of it."""

    letter: str
    name: str
    argument: str
    summary: str = ""  # the first sentence of the description, in plain text
    words: tuple = ()  # the words that the description sets as literal values (.Cm)

    def __str__(self):
        return (f"-{self.letter}, " if self.letter else "") + f"--{self.name}" + (f"={self.argument}" if self.argument else "")


def plain(line):
    """The text of one line of mdoc, without its macros."""
    if not line.startswith("."):
        return line.replace("\\&", "")
    text, glue, prefix = "", True, ""
    for word in re.findall(r'"[^"]*"|\S+', line[1:]):
        if word == "Fl":
            prefix = "-"
        elif word == "Ns":
            glue = True
        elif word in ("Ql", "Xr"):
            prefix = ""
        elif word not in QUIET_MACROS:
            word = word.strip('"').replace("\\&", "")
            if word in PUNCTUATION or glue or not text or text.endswith("("):
                text += ("" if word == "(" else prefix) + word
            else:
                text += " " + prefix + word
            prefix, glue = prefix if word == "(" else "", False
    return text


def read_item(line):
    """The option that an .It line names."""
    letter = name = argument = ""
    for part in line.removeprefix(".It ").split(" , "):
        words = part.split()
        option = words[1].replace("\\&", "")
        if option.startswith("-"):
            name = option[1:]
        else:
            letter = option
        if "Ar" in words:
            argument = words[words.index("Ar") + 1]
    return Option(letter, name, argument)


def describe(option, lines):
    """Fills in what the description says of the option."""
    words = []
    for line in lines:
        if line.startswith(".Cm "):
            words += [word for word in line.split()[1:] if word not in PUNCTUATION | {"("}]
        if not option.summary.endswith("."):  # each sentence begins on a line of its own
            option.summary = (option.summary + " " + plain(line)).strip()
    option.summary = option.summary.removesuffix(".")
    option.words = tuple(dict.fromkeys(words))


def read_options(path):
    """{section: [Option, ...]}: section is "" but for what stands under "Options of SECTION"."""
    sections, section, option, lines = {"": []}, "", None, []

    def finish():
        if option is not None:
            describe(option, lines)

    for line in path.read_text().splitlines():
        if line.startswith((".It ", ".El", ".Sh ", ".Ss ")):
            finish()
            option, lines = None, []
        if line.startswith((".Sh ", ".Ss ")):
            found = re.match(r"\.Ss Options of (\S+)", line)
            section = found.group(1) if found else ""
            sections.setdefault(section, [])
        elif line.startswith(".It Fl "):
            option = read_item(line)
            sections[section].append(option)
        elif option is not None:
            lines.append(line)
    return sections


def read_all(folder=FOLDER):
    """{command: {section: [Option, ...]}} of the pages of all commands; "" is the program itself."""
    pages = {}
    for path in sorted(folder.glob("godwit*.1")):
        pages[path.stem.removeprefix("godwit").removeprefix("-")] = read_options(path)
    bench = pages.get("bench", {})
    for job, options in pages.get("run", {}).items():  # its page refers to that of run for the options of these jobs
        if job in bench and job != "":
            bench[job] = options + bench[job]
    return pages


def summaries(folder=FOLDER):
    """{command: what the NAME section of its page says}"""
    found = {}
    for path in sorted(folder.glob("godwit-*.1")):
        name = re.search(r"^\.Nd (.*)$", path.read_text(), re.MULTILINE)
        found[path.stem.removeprefix("godwit-")] = name.group(1) if name else ""
    return found
