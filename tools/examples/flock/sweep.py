"""A sweep of learning rates: `godwit submit --sweep` trains digits once for each, and the best network is exported.

Shows jobs of steps on a flock of two members on loopback: one command submits them all, `godwit results` fetches the
checkpoint of the best from whichever node has it, and `godwit export` writes it as safetensors.

    python3 tools/examples/flock/sweep.py [SAMPLES]
"""

import json
import os
import re
import struct
import subprocess
import sys

from example import check, find_godwit
from loopback import flock, tell

RATES = ["0.001", "0.01", "0.1"]


def ended(text):
    """How a job has ended, by the last line of its log: its state's hash and its accuracy."""
    found = re.search(r"godwit: done job=digits .*state=(\w+) .*accuracy=([\d.]+)", text)
    return found[1], float(found[2])


def main(samples=12000):
    job = ["digits", "--samples", str(samples), "--epochs", "6", "--hidden", "32", "--workers", "1"]
    with flock({"one": 2, "two": 2}) as members:
        one, two = members
        tell(one, "submit", "--wait", "--name", "rate", "--cores", "1", "--sweep", f"lr={','.join(RATES)}", *job)
        tell(two, "queue", "--all")
        results = {name: ended(two.logs(name)) for name in (f"rate-{i + 1}" for i in range(len(RATES)))}
        for rate, (name, (_, accuracy)) in zip(RATES, results.items()):
            print(f"{name}: with a learning rate of {rate} it tells {accuracy:.1%} of the test's digits.")
        best = max(results, key=lambda name: results[name][1])
        tell(two, "results", best, "-o", "best")
        exported = os.path.join(members.folder, "best.safetensors")
        words = [find_godwit(), "export", os.path.join(members.folder, "best", "state"), "--to", exported]
        print("$ godwit export best/state --to best.safetensors")
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(exported, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        shapes = {name: tensor["shape"] for name, tensor in header.items() if name.startswith("layer")}
        print(f"The best is {best}: {shapes}.")

        # The same job without a flock, by the command for one peer.
        rate = RATES[list(results).index(best)]
        words = [find_godwit(), "run", *job, f"--lr={rate}", "--quiet", "--listen", "127.0.0.1:0", "--dir", "alone"]
        alone = subprocess.run(words, cwd=members.folder, check=True, capture_output=True, text=True)
    check(shapes["layer1.weight"] == [784, 32] and shapes["layer2.weight"] == [32, 10], "its tensors have the network's shapes")
    check(header["__metadata__"]["godwit.state"] == results[best][0] == ended(alone.stdout + alone.stderr)[0],
          "the exported state is that of the best job, and of `godwit run` alone")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
