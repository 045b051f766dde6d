"""`godwit bench allreduce`: its table and words, what it is compared with (a stand-in for a Python with torch), and a wire
of a given rate.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
import tap  # noqa: E402

GODWIT = os.path.join(os.environ.get("GODWIT_BUILD", os.path.join(SOURCE, "build")), "godwit")
PATIENCE_S = 300
COLUMNS = ["elements", "sent", "plain", "encrypted", "of AEAD", "sodium", "enc/sodium", "gloo f32", "plain/gloo", "MPI f32",
           "plain/MPI", "MPI i64", "plain/MPI"]
SMALL = ["--bytes", "4096", "--repeats", "3"]
# Answers as tools/bench/pytorch/allreduce.py does: every sum takes 2 ms. It ends after so many measurements.
FAKE = """#!/bin/sh
[ "$1" = -c ] && exit %d
[ "$2" = 0 ] && echo torch 9.9
left=%d
while read -r elements repeats; do
    [ $left = 0 ] && exit 1
    left=$((left - 1))
    while [ "$2" = 0 ] && [ $repeats -gt 0 ]; do echo 2000000; repeats=$((repeats - 1)); done
done
"""


def can_make_a_wire():
    tried = ("ip link add godwit0 type veth peer name godwit1 && "
             "tc qdisc add dev godwit0 root tbf rate 1gbit burst 128kb latency 50ms")
    return shutil.which("unshare") is not None and subprocess.run(
        ["unshare", "--net", "sh", "-c", tried], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


class Allreduce(unittest.TestCase):
    def bench(self, *options, code=0, **environment):
        done = subprocess.run([GODWIT, "bench", "allreduce", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=PATIENCE_S, env={**os.environ, **environment}, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def row(self, out):
        """The cells of a table with one row, by the place of the column."""
        lines = out.splitlines()
        cells = lines[-1].split()
        self.assertEqual(re.findall(r"\S+(?: f32| i64| AEAD)?", lines[-2]), COLUMNS)
        self.assertEqual(len(cells), len(COLUMNS), out)
        return cells

    def fake(self, has_torch=True, lasts=100):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "python")
        with open(path, "w", encoding="ascii") as file:
            file.write(FAKE % (0 if has_torch else 1, lasts))
        os.chmod(path, 0o755)
        return path

    def test_godwit_alone(self):
        out, err = self.bench(*SMALL, "--no-gloo", "--no-mpi")
        self.assertEqual(err, "")
        self.assertIn("2 processes, 1 rail, TCP on loopback: median milliseconds of 3 rounds in turns\n", out)
        self.assertIn("\nelements: drawn like recorded gradients of a gpt (nano, step 50)\n", out)
        cells = self.row(out)
        self.assertEqual(cells[0], "512")
        self.assertTrue(3 < float(cells[1]) < 8.5, out)
        self.assertTrue(float(cells[2]) > 0 and float(cells[3]) > 0, out)
        self.assertEqual(cells[7:], ["-"] * 6)

    def test_elements_are_drawn_like_those_of_another_model(self):
        out, err = self.bench("--bytes", "2097152", "--repeats", "1", "--no-gloo", "--no-mpi", "--gradients", "gpt-124m")
        self.assertEqual(err, "")
        self.assertIn("\nelements: drawn like recorded gradients of a gpt (124M, ", out)
        few = float(self.row(out)[1])
        out, _ = self.bench("--bytes", "2097152", "--repeats", "1", "--no-gloo", "--no-mpi", "--gradients", "digits")
        self.assertIn("\nelements: drawn like recorded gradients of digits (", out)
        self.assertLess(few, float(self.row(out)[1]))

    def test_elements_of_random_bits_take_all_bytes(self):
        out, _ = self.bench(*SMALL, "--no-gloo", "--no-mpi", "--full", "--peers", "3", "--lanes", "2")
        self.assertIn("3 processes, 2 rails,", out)
        self.assertIn("\nelements: all 64 bits are random\n", out)
        self.assertTrue(8 <= float(self.row(out)[1]) < 11, out)

    def test_without_openssl_there_is_nothing_to_compare_libsodium_with(self):
        out, _ = self.bench(*SMALL, "--no-gloo", "--no-mpi", GODWIT_LIBCRYPTO="/nowhere/libcrypto.so.3")
        self.assertEqual(self.row(out)[5:7], ["-", "-"])

    def test_another_path_stands_beside_tcp(self):
        out, err = self.bench(*SMALL, "--transport", "shm")
        self.assertEqual(err, "")
        self.assertEqual(out.splitlines()[-3].split(), ["elements", "shm", "shm", "tcp", "ratio"])
        self.assertEqual(len(out.splitlines()[-1].split()), 5)

    def test_gloo_is_measured_in_turns(self):
        out, err = self.bench(*SMALL, "--no-mpi", "--python", self.fake())
        self.assertEqual(err, "")
        cells = self.row(out)
        self.assertEqual(cells[7], "2.000")
        self.assertAlmostEqual(float(cells[8]), float(cells[2]) / 2, delta=0.01)

    def test_gloo_that_ends_is_left_out(self):
        out, err = self.bench(*SMALL, "--no-mpi", "--python", self.fake(lasts=1))
        self.assertRegex(err, "^godwit bench allreduce: (gloo has ended before it had measured|rank . of gloo has ended)\n$")
        self.assertEqual(self.row(out)[7:9], ["-", "-"])

    def test_what_is_missing_is_said_and_left_out(self):
        python = self.fake(has_torch=False)
        out, err = self.bench(*SMALL, "--python", python, PATH="/nowhere")
        self.assertIn(f"there is no comparison with gloo: {python} has no torch: name a Python that has it by --python", err)
        self.assertIn("there is no comparison with OpenMPI: mpicc and mpirun are not installed", err)
        self.assertEqual(self.row(out)[7:], ["-"] * 6)

    def test_a_wire_needs_rights_and_programs(self):
        out, err = self.bench(*SMALL, "--rate", "1g", code=1, PATH="/nowhere")
        self.assertEqual(out, "")
        self.assertRegex(err, "^godwit bench allreduce: --rate: (this process may not make network namespaces .*: run it as "
                              "root, or by 'unshare -rn'|two namespaces cannot be joined .* needs ip and tc)")

    def test_a_wire_has_its_rate(self):
        if not can_make_a_wire():
            self.skipTest("this process may not make network namespaces, devices and queues")
        out, err = self.bench("--bytes", "1000000", "--repeats", "2", "--full", "--rate", "100m", "--python", self.fake())
        self.assertEqual(err, "there is no comparison with OpenMPI: its processes start on one network alone\n")
        self.assertIn("TCP by a wire of 100m:", out)
        cells = self.row(out)
        self.assertGreater(float(cells[2]), 60)  # 80 ms, but for what may go at once
        self.assertEqual(cells[7], "2.000")


if __name__ == "__main__":
    tap.main()
