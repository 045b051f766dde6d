#!/usr/bin/env python3
"""Compares the time of a training step on processors with that of llm.c.

usage: step.py GODWIT LLMC [--pairs N] [--threads N] [--only small|124M]

LLMC is the folder of an llm.c that you have built with OpenMP. Its program `train_gpt2`, which trains with 4 windows of
64 tokens per step, is started in a folder of its own with random weights and tokens, and ended after some steps. The
two programs take turns, --pairs times, on the same number of threads. The result of a turn is its median step, without
the first step of llm.c. The script prints every turn, then the medians of the turns, their ratio, and the part of
godwit's step that exact additions take. Use a quiet machine. The larger model needs 3 GB of memory, 0.5 GB under
$TMPDIR, and about a minute per pair.
"""
import argparse
import array
import collections
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

Model = collections.namedtuple("Model", "name layers heads channels vocabulary steps")
MODELS = [Model("small", 4, 4, 128, 256, 18), Model("124M", 12, 12, 768, 50257, 6)]
BATCH, CONTEXT = 4, 64  # the sizes that train_gpt2 uses
CHECKPOINT, CHECKPOINT_VERSION, TOKENS, TOKENS_VERSION = 20240326, 3, 20240520, 1
HEADER = 256  # int32
PADDED = 128  # llm.c pads its vocabulary to a multiple of this
DEVIATION = 0.02  # of the initial weights
STEP = re.compile(r"step (\d+): train loss (\S+) \(took (\S+) ms\)")
WHOLE = re.compile(r"^a step +([\d.]+) ", re.MULTILINE)
EXACT = re.compile(r"^exact additions: ([\d.]+) % of a step", re.MULTILINE)


class Failure(Exception):
    pass


def padded(vocabulary):
    return -(-vocabulary // PADDED) * PADDED


def tensors(m):
    """The tensors in the order of the file, those of all layers together: (elements, initial value)."""
    c, n = m.channels, m.layers
    return [(padded(m.vocabulary) * c, "normal"), (CONTEXT * c, "normal"), (n * c, 1.0), (n * c, 0.0),
            (n * 3 * c * c, "normal"), (n * 3 * c, 0.0), (n * c * c, "normal"), (n * c, 0.0), (n * c, 1.0), (n * c, 0.0),
            (n * 4 * c * c, "normal"), (n * 4 * c, 0.0), (n * 4 * c * c, "normal"), (n * c, 0.0), (c, 1.0), (c, 0.0)]


def header(*words):
    return array.array("i", [*words, *[0] * (HEADER - len(words))]).tobytes()


def write_checkpoint(path, m):
    dice = random.Random(1)
    normal = array.array("f", (dice.gauss(0.0, DEVIATION) for _ in range(65521)))  # a prime: no two rows are alike
    with open(path, "wb") as file:
        file.write(header(CHECKPOINT, CHECKPOINT_VERSION, CONTEXT, m.vocabulary, m.layers, m.heads, m.channels,
                          padded(m.vocabulary)))
        for count, first in tensors(m):
            piece = normal if first == "normal" else array.array("f", [first]) * min(count, 65536)
            for _ in range(count // len(piece)):
                piece.tofile(file)
            piece[:count % len(piece)].tofile(file)


def write_tokens(path, m):
    dice, count = random.Random(2), 40 * BATCH * CONTEXT + 1
    path.parent.mkdir(parents=True, exist_ok=True)
    tokens = array.array("H", (dice.randrange(m.vocabulary) for _ in range(count)))
    path.write_bytes(header(TOKENS, TOKENS_VERSION, count) + tokens.tobytes())


def make_folder(folder, m):
    """Fills a folder with the files that train_gpt2 reads."""
    write_checkpoint(folder / "gpt2_124M.bin", m)
    for part in ("train", "val"):
        write_tokens(folder / "dev" / "data" / "tinyshakespeare" / f"tiny_shakespeare_{part}.bin", m)


def read_llmc(lines, m):
    """The milliseconds of its median step, from the first steps: later ones follow tests that are not measured."""
    took, last = [], collections.deque(maxlen=10)
    for line in lines:
        last.append(line.rstrip())
        found = STEP.search(line)
        if not found:
            continue
        number, loss, ms = int(found[1]), float(found[2]), float(found[3])
        if number == 0 and not abs(loss - math.log(m.vocabulary)) < 0.5:
            raise Failure(f"llm.c's first loss is {loss}, but for {m.vocabulary} equal chances it should be "
                          f"{math.log(m.vocabulary):.3f}: it does not read the weights as they were written")
        if number > 0:  # the first step allocates memory
            took.append(ms)
        if len(took) == m.steps:
            return statistics.median(took)
    raise Failure("llm.c's train_gpt2 ended early:\n" + "\n".join(last))


def terminal_lines(fd):
    """The lines of a pseudo-terminal, until its other end is closed."""
    with open(fd, errors="replace") as file:
        try:
            yield from file
        except OSError:  # EIO: the end
            pass


def run_llmc(llmc, m, folder, threads):
    ours, its = os.openpty()  # into a pipe the program would write only when its buffer is full
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen([llmc / "train_gpt2"], cwd=folder, stdin=subprocess.DEVNULL, stdout=its,
                               stderr=subprocess.STDOUT, env=environment)
    os.close(its)
    try:
        return read_llmc(terminal_lines(ours), m)
    finally:
        process.kill()
        process.wait()


def read_godwit(text):
    """The milliseconds of a step, and the part of it that the exact additions take, in percent."""
    whole, exact = WHOLE.search(text), EXACT.search(text)
    if not whole or not exact:
        raise Failure(f"the output of 'godwit bench gpt' lacks the lines 'a step' and 'exact additions':\n{text}")
    return float(whole[1]), float(exact[1])


def run_godwit(godwit, m, threads):
    words = [godwit, "bench", "gpt", "--workers", threads, "--layers", m.layers, "--heads", m.heads, "--channels",
             m.channels, "--context", CONTEXT, "--vocab", m.vocabulary, "--batch-tokens", BATCH * CONTEXT,
             "--micro-batch", max(1, BATCH // threads), "--updates", m.steps]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"'godwit bench gpt' failed with exit code {done.returncode}: {done.stderr}")
    return read_godwit(done.stdout)


def compare(m, a):
    theirs, ours, shares = [], [], []
    print(f"{m.name}: {m.layers} layers x {m.channels}, {m.heads} heads, vocabulary {m.vocabulary}, {BATCH} windows of "
          f"{CONTEXT} tokens, {a.threads} threads", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_folder(folder, m)
        for turn in range(1, a.pairs + 1):
            theirs.append(run_llmc(a.llmc, m, folder, a.threads))
            ms, share = run_godwit(a.godwit, m, a.threads)
            ours.append(ms)
            shares.append(share)
            print(f"  pair {turn}: llm.c {theirs[-1]:9.2f} ms a step, godwit {ms:9.2f}, of it exact additions "
                  f"{share:.1f} %", flush=True)
    llmc, godwit = statistics.median(theirs), statistics.median(ours)
    print(f"{m.name}: llm.c {llmc:.2f} ms a step, godwit {godwit:.2f}: {llmc / godwit:.2f} times as fast; exact "
          f"additions {statistics.median(shares):.1f} % of godwit's", flush=True)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("godwit", type=pathlib.Path, help="the program godwit")
    parser.add_argument("llmc", type=pathlib.Path, help="a folder with a built train_gpt2")
    parser.add_argument("--pairs", type=int, default=5, help="how often both programs run (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="the threads of each program (default 2)")
    parser.add_argument("--only", choices=[m.name for m in MODELS], help="measure only this model")
    a = parser.parse_args(words)
    a.llmc = a.llmc.resolve()
    if not (a.llmc / "train_gpt2").is_file():
        parser.error(f"there is no train_gpt2 in {a.llmc}: build llm.c there first")
    if a.pairs < 1 or a.threads < 1:
        parser.error("--pairs and --threads must be at least 1")
    try:
        for m in MODELS:
            if a.only in (None, m.name):
                compare(m, a)
    except Failure as failure:
        sys.exit(f"step.py: {failure}")


if __name__ == "__main__":
    main()
