"""Which nvcc the build takes, and for which GPUs: kernels/cuda/nvcc.cmake, asked."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

SOURCE = os.path.join(HERE, "..", "..")
SAID = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {0}, V{0}.140\n"


def judged(call):
    """What the call has set `trouble` to."""
    judge = os.path.join(SOURCE, "kernels", "cuda", "nvcc.cmake")
    with tempfile.NamedTemporaryFile("w", suffix=".cmake") as script:
        script.write(f'cmake_minimum_required(VERSION 3.20)\ninclude("{judge}")\n{call}\nmessage("<${{trouble}}>")\n')
        script.flush()
        done = subprocess.run(["cmake", "-P", script.name], capture_output=True, text=True, check=True)
    return done.stderr.strip()[1:-1]


class Judged(unittest.TestCase):
    def trouble(self, said):
        return judged(f"godwit_judge_nvcc([==[{said}]==] trouble)")

    def test_one_of_a_distribution_is_too_old(self):
        for version in ("11.5", "12.0", "12.9"):
            self.assertIn(f"nvcc is version {version}, and 13.0", self.trouble(SAID.format(version)))

    def test_from_13_on_it_is_taken(self):
        for version in ("13.0", "13.1", "14.0", "100.2"):
            self.assertEqual(self.trouble(SAID.format(version)), "")

    def test_another_compiler_is_not(self):
        for said in ("", "clang version 14.0.6"):
            self.assertIn("unknown version", self.trouble(said))


class Architectures(unittest.TestCase):
    def trouble(self, architectures):
        return judged(f'godwit_judge_architectures("{architectures}" trouble)')

    def test_machine_code_of_each_is_taken(self):
        for architectures in ("80-real;90", "native", "90a-real", "80-real;90-real;90-virtual", "90;90-virtual"):
            self.assertEqual(self.trouble(architectures), "", architectures)

    def test_one_that_only_the_driver_would_compile_is_not(self):
        for architectures in ("90-virtual", "80-real;90-virtual", "80;90a-virtual;90-real"):
            self.assertIn("-virtual has no machine code; write 90", self.trouble(architectures), architectures)


@unittest.skipUnless(shutil.which("nvcc") or os.path.exists("/usr/local/cuda/bin/nvcc"), "no nvcc here")
class Toolkit(unittest.TestCase):
    def test_without_the_toolkits_libraries_the_build_is_for_processors(self):
        options = ["-DGODWIT_TESTS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=TRUE"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["cmake", "-S", SOURCE, "-B", folder, *options], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = [line for line in done.stdout.splitlines() if "CUDA: not in this build" in line]
        self.assertEqual(told, ["-- CUDA: not in this build (no CUDA toolkit beside nvcc): GPUs will not be used"])


if __name__ == "__main__":
    tap.main(lambda: None, "nvcc")
