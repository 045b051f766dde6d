"""A build without CUDA, where this one has it: what is compiled otherwise there compiles, and misses no function.

On a machine that has nvcc nothing else compiles it.
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
BUILD = os.environ.get("GODWIT_BUILD", os.path.join(SOURCE, "build"))
MACRO = "-DGODWIT_CUDA"
GPU_CODE = "kernels/cuda/"  # which that build does not have
STAND_IN = GPU_CODE + "device/absent.c"  # but for this
APART = (GPU_CODE, "tests/", "tools/chaos/", "tools/godwit/main.c")  # no parts of the libraries that both have
CUDAS_HEADERS = ("cuda_runtime_api.h", "cuda_runtime.h", "cublasLt.h")
OTHERWISE = re.compile(r"\bGODWIT_CUDA\b|^ *# *include *<(cuda|cublas)", re.MULTILINE)
INCLUDED = re.compile(r'^ *# *include *"([^"]+)"', re.MULTILINE)


def commands():
    """How this build compiles each C file, by its path in the tree; but for tests that the other one does not have."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        entries = json.load(file)
    found = {os.path.relpath(entry["file"], SOURCE): shlex.split(entry["command"]) for entry in entries}
    return {path: words for path, words in found.items() if path.endswith(".c") and not path.startswith("tests/gpu")}


def output_of(words):
    return os.path.join(BUILD, words[words.index("-o") + 1])


def without_cuda(words, source, folder, to):
    """The command that makes `to` of this file in the other build. Not optimised, which takes most of the time."""
    kept, rest = [], iter(words)
    for word in rest:
        if word in ("-o", "-c"):
            next(rest)
        elif word != MACRO:
            kept.append(word)
    return [*kept, "-O0", "-g0", "-I", folder, "-o", to, "-c", os.path.join(SOURCE, source)]


def text_of(path):
    with open(os.path.join(SOURCE, path)) as file:
        return file.read()


def included(path):
    """What the file includes of the tree: named from its root, or, by tests, from their folder or the tests'."""
    for name in INCLUDED.findall(text_of(path)):
        for folder in ("", os.path.dirname(path), "tests"):
            if os.path.exists(os.path.join(SOURCE, folder, name)):
                yield os.path.join(folder, name)
                break


def looks_for_cuda(path, known):
    """Whether the file, or one that it includes, does; `known` is what was found so far."""
    if path not in known:
        known[path] = False  # while it is looked at
        known[path] = bool(OTHERWISE.search(text_of(path))) or any(looks_for_cuda(other, known) for other in included(path))
    return known[path]


def symbols(objects):
    """What these objects want, and what they give."""
    wanted, given = set(), set()
    for line in subprocess.run(["nm", "-P", *objects], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) > 1:  # else the name of a file
            (wanted if words[1] in "Uw" else given).add(words[0])
    return wanted, given


def compiled(command):
    """What the compiler complains of; "" where it does not."""
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


class WithoutCuda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands, known = commands(), {}
        cls.otherwise = [path for path in cls.commands if not path.startswith(GPU_CODE) and looks_for_cuda(path, known)]
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        for name in CUDAS_HEADERS:  # wherever this machine has them
            with open(os.path.join(cls.folder.name, name), "w") as file:
                file.write("#error a header of CUDA's\n")
        like = next(words for path, words in cls.commands.items() if path.startswith(GPU_CODE))
        cls.made = {path: os.path.join(cls.folder.name, path.replace("/", "_") + ".o") for path in [*cls.otherwise, STAND_IN]}
        calls = [without_cuda(cls.commands.get(path, like), path, cls.folder.name, to) for path, to in cls.made.items()]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            cls.complaints = "".join(pool.map(compiled, calls))

    def test_it_compiles(self):
        self.assertIn("kernels/jobs/digits/digits.c", self.otherwise)
        if self.complaints:
            self.fail(self.complaints)

    def test_its_stand_in_has_every_function_that_is_called(self):
        """What is compiled alike in both is looked at as this build has made it."""
        if self.complaints:
            self.skipTest("it does not compile")
        alike = [words for path, words in self.commands.items() if path not in self.otherwise and not path.startswith(APART)]
        wanted, given = symbols([*map(output_of, alike), *self.made.values()])
        self.assertIn("gw_cuda_list", wanted)
        self.assertEqual([name for name in wanted - given if name.startswith("gw_")], [])


def missing():
    return "" if any(MACRO in words for words in commands().values()) else "this build is without it"


if __name__ == "__main__":
    tap.main(missing, "CUDA")
