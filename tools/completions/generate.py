#!/usr/bin/env python3
"""Writes the completions of bash, zsh and fish, next to this file, from the options of the manual pages.

    tools/completions/generate.py [--to FOLDER]

The files are a part of the tree, so that an installation needs no Python. tests/man.py fails where they are not what
this program would write.
"""

import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "man"))
import pages  # noqa: E402

NOTE = "# Made by tools/completions/generate.py of the manual pages in tools/man: edit those.\n"
# What a command takes beside options: "file", "dir" or "" for nothing; run and bench take a word first.
OPERANDS = {"map": "file", "check": "file", "keygen": "file", "inspect": "file", "audit": "dir", "prune": "dir", "tokenize": "file",
            "export": "dir", "generate": "dir", "plot": "file", "trace": "file", "why": "dir", "report": "dir"}


def values(option):
    """What may follow the option: ("file" | "dir" | "words" | "any", [word, ...])."""
    argument = option.argument
    if argument.startswith(("DIR", "[DIR]")):
        return "dir", []
    if argument.startswith("FILE"):
        return "file", []
    if argument in ("KIND", "NAME", "RULE"):
        return ("words", list(option.words)) if option.words else ("any", [])
    plain = [word for word in argument.split("|") if re.fullmatch("[a-z0-9-]+", word)]
    optional = [word.partition("[")[0] for word in argument.split("|") if re.fullmatch(r"[a-z]+\[.*", word)]
    return ("words", plain + optional) if plain or optional else ("any", [])


def words_of(sections):
    """The first words that a command takes, as its page has a section of options for each: jobs, what bench measures."""
    return [name for name in sections if name]


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash_rows(options):
    """(the options as they are offered, {kind and words: patterns}) of a list of options."""
    offered, arguments = [], {}
    for option in options:
        offered.append(f"--{option.name}" + ("=" if option.argument else ""))
        if option.letter and option.letter != "?":
            offered.append(f"-{option.letter}")
        if option.argument:
            patterns = [f"--{option.name}"] + ([f"-{option.letter}"] if option.letter else [])
            kind, words = values(option)
            arguments.setdefault(" ".join([kind, *words]), []).extend(patterns)
    return offered, arguments


def bash(table):
    lines = ["# bash completion for godwit", NOTE.rstrip(), "",
             "# _godwit_table COMMAND WORD: sets `offered`, the options of the command (and of its job or subject WORD), and",
             "# `kinds`, which maps those that take an argument to what that is.",
             "_godwit_table() {", "    offered='' kinds=()", "    case $1 in"]
    for command, sections in table.items():
        if command == "":
            continue
        lines.append(f"    {command})")
        for section, options in sections.items():
            offered, arguments = bash_rows(options)
            if not offered:
                continue
            indent = "        "
            if section:
                lines.append(f"        if [ \"$2\" = {section} ]; then")
                indent += "    "
            lines.append(f"{indent}offered+={quoted(' ' + ' '.join(offered))}")
            for kind, patterns in arguments.items():
                for pattern in patterns:
                    lines.append(f"{indent}kinds[{pattern}]={quoted(kind)}")
            if section:
                lines.append("        fi")
        lines.append("        ;;")
    lines += ["    esac", "}", ""]
    names = " ".join(command for command in table if command)
    lines += ["_godwit() {",
              "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}",
              "    local word='' kind offered",
              "    local -A kinds",
              "    COMPREPLY=()",
              '    if [ "$COMP_CWORD" -eq 1 ]; then',
              f"        mapfile -t COMPREPLY < <(compgen -W '{names} help --help --version' -- \"$current\")",
              "        return",
              "    fi",
              '    if [ "$command" = help ]; then',
              f"        mapfile -t COMPREPLY < <(compgen -W '{names}' -- \"$current\")",
              "        return",
              "    fi",
              '    [ "$COMP_CWORD" -gt 2 ] && word=${COMP_WORDS[2]}',
              '    _godwit_table "$command" "$word"',
              "    # readline splits --option=value at the '='",
              '    if [ "$current" = = ]; then',
              "        current=''",
              '    elif [ "$before" = = ]; then',
              "        before=${COMP_WORDS[COMP_CWORD - 2]}",
              "    fi",
              "    kind=${kinds[$before]-}",
              '    if [ -z "$kind" ]; then',
              '        if [[ $current == -* ]]; then',
              '            mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$current")',
              '            [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null',
              "            return",
              "        fi",
              "        case $command,$COMP_CWORD in"]
    for command in ("run", "bench"):
        kind = "job" if command == "run" else "words"
        lines.append(f"        {command},2) kind='{kind} {' '.join(words_of(table[command]))}' ;;")
    for command, kind in OPERANDS.items():
        lines.append(f"        {command},*) kind='{kind}' ;;")
    lines += ["        esac", "    fi",
              "    case $kind in",
              '    file) mapfile -t COMPREPLY < <(compgen -f -- "$current") && compopt -o filenames 2>/dev/null ;;',
              '    dir) mapfile -t COMPREPLY < <(compgen -d -- "$current") && compopt -o filenames 2>/dev/null ;;',
              "    job*)",
              '        mapfile -t COMPREPLY < <(compgen -W "${kind#job }" -- "$current"',
              '            compgen -d -- "$current"',
              "            compgen -f -X '!*.so' -- \"$current\")",
              "        compopt -o filenames 2>/dev/null",
              "        ;;",
              '    words*) mapfile -t COMPREPLY < <(compgen -W "${kind#words }" -- "$current") ;;',
              "    esac",
              "    return 0",
              "}",
              "complete -F _godwit godwit"]
    return "\n".join(lines) + "\n"


def zsh_spec(option):
    text = re.sub(r"([\[\]:\\])", r"\\\1", option.summary)
    action = ""
    if option.argument:
        kind, words = values(option)
        hint = re.sub(r"([\[\]:\\])", r"\\\1", option.argument)
        do = {"file": "_files", "dir": "_files -/", "any": " ", "words": "(" + " ".join(words).replace(":", "\\:") + ")"}[kind]
        action = f":{hint}:{do}"
    name = f"--{option.name}" + ("=" if option.argument else "")
    if not option.letter:
        return quoted(f"{name}[{text}]{action}")
    letter = f"-{option.letter}" + ("+" if option.argument else "")
    return quoted(f"(-{option.letter} --{option.name})") + "{" + f"'{letter}',{name}" + "}" + quoted(f"[{text}]{action}")


def zsh(table, about):
    lines = ["#compdef godwit", NOTE.rstrip(), "", "_godwit_jobs() {",
             f"    _alternative 'jobs:job:({' '.join(words_of(table['run']))})' 'files:shared object:_files -g \"*.so\"'", "}", "",
             "_godwit() {", "    local -a commands specs"]
    lines += ["    commands=("] + [f"        {quoted(f'{name}:{text}')}" for name, text in about.items()] + ["    )"]
    lines += ["    if (( CURRENT == 2 )); then",
              "        _describe command commands",
              "        compadd -- help --help --version",
              "        return", "    fi",
              "    local command=$words[2] word=$words[3]",
              "    shift words", "    (( CURRENT-- ))",
              "    case $command in",
              "    help) _describe command commands; return ;;"]
    for command, sections in table.items():
        if command == "":
            continue
        lines.append(f"    {command})")
        for section, options in sections.items():
            if not options:
                continue
            head = f"[[ $word == {section} ]] && specs+=(" if section else "specs+=("
            lines += [f"        {head}"] + [f"            {zsh_spec(option)}" for option in options] + ["        )"]
        if command == "run":
            lines.append("        specs+=('1:job:_godwit_jobs')")
        elif command == "bench":
            lines.append(f"        specs+=({quoted('1:what:(' + ' '.join(words_of(sections)) + ')')})")
        elif command in OPERANDS:
            lines.append("        specs+=(" + quoted("*: :_files" + (" -/" if OPERANDS[command] == "dir" else "")) + ")")
        lines.append("        ;;")
    lines += ["    *) return 1 ;;", "    esac", "    _arguments -s $specs", "}", "", '_godwit "$@"']
    return "\n".join(lines) + "\n"


def fish_line(condition, option):
    parts = [f"complete -c godwit -n {quoted(condition)}"]
    if option.letter:
        parts.append("-s " + (quoted("?") if option.letter == "?" else option.letter))
    parts.append(f"-l {option.name}")
    if option.argument:
        kind, words = values(option)
        parts.append({"file": "-r -F", "any": "-x", "dir": "-x -a '(__fish_complete_directories)'",
                      "words": "-x -a " + quoted(" ".join(words))}[kind])
    parts.append("-d " + quoted(option.summary).replace("'\\''", "\\'"))
    return " ".join(parts)


def fish(table, about):
    lines = ["# fish completion for godwit", NOTE.rstrip(), "",
             "# Whether the command is the first argument, and the word, if there is one, the second.",
             "function __godwit_is",
             "    set -l words (commandline -opc)",
             '    test "$words[2]" = "$argv[1]"; or return',
             '    test (count $argv) -lt 2; or test "$words[3]" = "$argv[2]"',
             "end",
             "# Whether the argument of this number is the next one, after the command if that is given.",
             "function __godwit_at",
             "    test (count (commandline -opc)) -eq $argv[1]; or return",
             "    test (count $argv) -lt 2; or __godwit_is $argv[2]",
             "end", "",
             "complete -c godwit -f"]
    for name, text in about.items():
        lines.append(f"complete -c godwit -n '__godwit_at 1' -a {name} -d {quoted(text)}")
    lines += ["complete -c godwit -n '__godwit_at 1' -a help -d 'show the options of a command'",
              f"complete -c godwit -n '__godwit_at 2 help' -a {quoted(' '.join(about))}",
              "complete -c godwit -n '__godwit_at 1' -s h -l help -d 'Print the list of commands, and exit'",
              "complete -c godwit -n '__godwit_at 1' -l version -d 'Print the version, and exit'"]
    for command, sections in table.items():
        if command == "":
            continue
        lines.append("")
        if command == "run":
            lines.append(f"complete -c godwit -n '__godwit_at 2 run' -k -a '(__fish_complete_suffix .so) {' '.join(words_of(sections))}'")
        elif command == "bench":
            lines.append(f"complete -c godwit -n '__godwit_at 2 bench' -a {quoted(' '.join(words_of(sections)))}")
        elif OPERANDS.get(command) == "file":
            lines.append(f"complete -c godwit -n '__godwit_is {command}' -F")
        elif OPERANDS.get(command) == "dir":
            lines.append(f"complete -c godwit -n '__godwit_is {command}' -a '(__fish_complete_directories)'")
        for section, options in sections.items():
            condition = f"__godwit_is {command}" + (f" {section}" if section else "")
            lines += [fish_line(condition, option) for option in options]
    return "\n".join(lines) + "\n"


def generate(folder=pages.FOLDER):
    """{file name: text} of the completions that the manual pages in `folder` give."""
    table, about = pages.read_all(folder), pages.summaries(folder)
    return {"godwit.bash": bash(table), "_godwit": zsh(table, about), "godwit.fish": fish(table, about)}


def main():
    parser = argparse.ArgumentParser(description="Writes the completions of bash, zsh and fish.")
    parser.add_argument("--to", type=pathlib.Path, default=HERE, help="the folder to write to")
    for name, text in generate().items():
        (parser.parse_args().to / name).write_text(text)


if __name__ == "__main__":
    main()
