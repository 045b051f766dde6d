"""What is known of a job whose outcome is wrong, for who reads the output of queue_chaos.py alone."""

import contextlib
import json
import os
import re
import subprocess

from flock import Trouble

LINES = 25  # of what each member wrote
ENDS = {".out": 200, ".err": 2000}  # characters of the end of what a command in front wrote


def indented(text):
    return "".join(f"    {line}\n" for line in text.splitlines())


def said(member, *command):
    """What a command says, or why it cannot be had."""
    try:
        return member.do(*command, seconds=20)
    except (Trouble, subprocess.TimeoutExpired) as trouble:
        return str(trouble)


def infos(run, job):
    """What each member knows of it; members that know the same are named together."""
    known = {}
    for member in run.flock.running():
        text = said(member, "info", "--json", job.id)
        with contextlib.suppress(json.JSONDecodeError):
            text = json.dumps(json.loads(text), sort_keys=True)
        known.setdefault(text, []).append(member.name)
    return "".join(f"  {', '.join(names)}: info --json\n{indented(text)}" for text, names in known.items())


def concerns(line, job):
    return job.id[:8] in line or re.search(rf"\b{re.escape(job.name)}\b", line) is not None


def written(run, job):
    """The last lines of what members wrote that are about it, and about themselves."""
    text = ""
    for member in run.flock:
        others = [other for other in run.jobs if other is not job]
        lines = [line for line in member.history if not any(concerns(line, other) for other in others)]
        text += f"  {member.name} wrote\n{indented(chr(10).join(lines[-LINES:]))}"
    return text


def folders(run, job):
    """The files of its folder on each node, and how long they are."""
    text = ""
    for member in run.flock:
        folder = os.path.join(member.directory, "jobs", job.id)
        with contextlib.suppress(OSError):
            files = [(entry.name, entry.stat().st_size) for entry in os.scandir(folder) if entry.is_file()]
            text += f"  {member.name} has {', '.join(f'{name} ({size})' for name, size in sorted(files))}\n"
    return text


def explain(run, job):
    """All that members know and have written of a job, as a text of many lines. Members have to run."""
    asked = run.asked()
    text = f"about {job.name} {job.id}:\n" + infos(run, job)
    text += f"  {asked.name}: why\n{indented(said(asked, 'why', job.id))}" + folders(run, job)
    for end, length in ENDS.items():
        with contextlib.suppress(OSError), open(job.effects + end, errors="replace") as file:
            text += f"  its front wrote to std{end[1:]}, at the end\n{indented(file.read()[-length:])}"
    return text + written(run, job)
