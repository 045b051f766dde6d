"""The bits of every kernel on processors, for each family of processors that this machine can compute as.

The kernel class (kernels/device/class.c) is part of a job's identity, and the build is not: a build with other bits and
the same number would go on with the checkpoints of the old one, and nobody would notice. golden.txt beside this file has the
final states of small jobs that go through all kernels, by kernel class, version of OpenBLAS and family. A version of OpenBLAS
that the table does not know is no failure, but is reported. `test_golden.py --write` adds what is missing in the table.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
BUILD = os.environ.get("GODWIT_BUILD", os.path.join(SOURCE, "build"))
TABLE = os.path.join(HERE, "golden.txt")
FAMILIES = ("nehalem", "sandybridge", "haswell", "zen", "skylakex", "cooperlake")
JOBS = {
    "digits-adamw": "digits --epochs 2 --samples 480 --hidden 64,33 --seed 3",
    "digits-sgd": "digits --epochs 1 --samples 480 --hidden none --optimizer sgd --seed 4",
    "gpt": "gpt --data TEXT --val TEXT --layers 2 --heads 3 --channels 48 --context 32 --updates 6 --eval-every 3 "
    "--batch-tokens 512 --seed 5",
    "gpt-dropout": "gpt --data TEXT --layers 2 --heads 4 --channels 64 --context 48 --updates 4 --dropout 0.1 "
    "--schedule wsd --decay-updates 2 --recompute --seed 6",
    "synthetic": "synthetic --steps 5 --shards 9 --shard-ms 0 --state-bytes 64k --seed 7",
}


def write_text(path):
    """A text of some words in an order that no chance has made."""
    words = "the peers of a flock share out a step and the sum of all shards is the same whoever computes them".split()
    with open(path, "w") as file:
        for i in range(3000):
            file.write(words[(i * i + 3 * i) % len(words)] + (" " if i % 11 else ".\n"))


def run(job, family, folder):
    """The class and the final state; None where this processor cannot compute as that family."""
    text = os.path.join(folder, "text")
    if not os.path.exists(text):
        write_text(text)
    words = job.replace("TEXT", text).split()
    where = os.path.join(folder, "d")
    command = [os.path.join(BUILD, "godwit"), "run", *words, "--cpu-class", family, "--device", "cpu", "--dir", where]
    done = subprocess.run([*command, "--fresh", "--listen", "127.0.0.1:0", "--quiet"], capture_output=True, text=True)
    if "lacks its instructions" in done.stderr or "has no kernels" in done.stderr:
        return None
    found = re.search(r"state=([0-9a-f]{64})", done.stdout)
    if found is None:
        raise AssertionError(f"{' '.join(command)} failed: {done.stderr}")
    newest = max((os.path.join(where, name) for name in os.listdir(where) if name.startswith("job-")), key=os.path.getmtime)
    with open(newest) as file:
        compute_class = re.search(r"^class=cpu (.*)$", file.read(), re.MULTILINE)[1]
    return compute_class, found[1]


def read_table():
    with open(TABLE) as file:
        rows = [line.split("#")[0].split() for line in file]
    return {" ".join(row[:-1]): row[-1] for row in rows if row}


def measure():
    """{"JOB CLASS": STATE} of all that can be computed here."""
    found = {}
    for family in FAMILIES:
        for name, job in JOBS.items():
            with tempfile.TemporaryDirectory(prefix="godwit-golden-") as folder:
                got = run(job, family, folder)
            if got is None:
                break
            found[f"{name} {got[0]}"] = got[1]
    return found


class Golden(unittest.TestCase):
    def test_every_kernel_gives_the_bits_of_its_class(self):
        table, found = read_table(), measure()
        self.assertGreaterEqual(len(found), len(JOBS))
        known = {key: state for key, state in found.items() if key in table}
        for key, state in known.items():
            with self.subTest(key):
                self.assertEqual(state, table[key], f"{key}: other bits than before. If that is meant, raise KERNEL_CLASS in "
                                 "kernels/device/class.c and run this file with --write")
        if not known:
            self.skipTest("golden.txt has no row for this version of OpenBLAS")

    def test_the_table_has_a_row_for_each_job_of_each_class_that_it_knows(self):
        classes = {key.split(" ", 1)[1] for key in read_table()}
        for compute_class in classes:
            for name in JOBS:
                self.assertIn(f"{name} {compute_class}", read_table())


def write():
    table = read_table()
    added = {key: state for key, state in measure().items() if key not in table}
    with open(TABLE, "a") as file:
        file.writelines(f"{key} {state}\n" for key, state in sorted(added.items()))
    print(f"{len(added)} rows added to {TABLE}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        tap.main()
