#!/usr/bin/env python3
"""Lets libFuzzer look for inputs that break a parser: every target in turn, or some of them.

usage: fuzz.py FUZZ_BINARY CORPUS_FOLDER [--minutes N] [--jobs N] [TARGET...]

Each target gets its share of the minutes (of all processors), begins with its own examples and what earlier searches
have found and kept in CORPUS_FOLDER, and ends at its first finding, whose input is kept and shown: one that is not
mended is met again. Exit code 1 if there was one.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1",
              "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def search(binary, folder, name, longest, seconds):
    """Runs one target; returns its line for the table, its findings' paths and the end of what it said."""
    corpus, found = folder / name, folder / f"{name}-found"
    for path in (corpus, found):
        path.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, **SANITIZERS)
    subprocess.run([binary, f"--target={name}", f"--examples={corpus}"], check=True, env=environment)
    command = [binary, f"--target={name}", f"-max_total_time={seconds}", f"-max_len={longest}", "-timeout=20",
               "-rss_limit_mb=3000", "-print_final_stats=1", f"-artifact_prefix={found}/", corpus, found]
    broken, said, used = watched(command, environment)
    runs = re.search(r"number_of_executed_units: (\d+)", said)
    edges = re.findall(r"cov: (\d+)", said)
    findings = re.findall(r"Test unit written to (.+)", said)
    line = (f"{name:12s} {int(runs[1]) if runs else 0:11d} runs  {edges[-1] if edges else '-':>6s} edges  "
            f"{len(list(corpus.iterdir())):6d} inputs kept  {used:6.0f} s of a processor  "
            f"{'A FINDING' if broken else 'nothing found'}")
    return line, broken, findings, said[-3000:]


def literal(path):
    """An input as C spells it, for those that a target keeps (tests/fuzz/target.h)."""
    octets = pathlib.Path(path).read_bytes()
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in octets) + '"'


def watched(command, environment):
    """Whether a command failed, what it said, and the processor's seconds that it took: others may have had the rest."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return process.returncode != 0, said.read(), usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0], description=__doc__.split("\n")[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    a = parser.parse_intermixed_args()
    listed = subprocess.run([a.binary, "--list"], check=True, capture_output=True, text=True).stdout.split()
    known = dict(zip(listed[::2], listed[1::2]))
    for name in a.targets:
        if name not in known:
            parser.error(f"there is no target '{name}'; there are {', '.join(known)}")
    names = a.targets or list(known)
    seconds = max(1, round(a.minutes * 60 * min(a.jobs, len(names)) / len(names)))
    print(f"{len(names)} targets, {seconds} s each, {a.jobs} at a time; corpora in {a.corpus}", flush=True)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        runs = [pool.submit(search, a.binary.resolve(), a.corpus.resolve(), n, known[n], seconds) for n in names]
        for run in runs:
            line, broken, findings, said = run.result()
            print(line, flush=True)
            if broken:
                bad = 1
                print(said)
                for path in findings:
                    print(f"found: {path}\n{literal(path)}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
