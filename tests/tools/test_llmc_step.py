"""What tools/bench/llmc/step.py reads and writes, with a stand-in for llm.c's program."""

import array
import contextlib
import io
import math
import os
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(SOURCE, "tools", "bench", "llmc")]
import step  # noqa: E402
import tap  # noqa: E402

BINARY = os.path.join(os.environ.get("GODWIT_BUILD", os.path.join(SOURCE, "build")), "godwit")
TINY = step.Model("tiny", 2, 2, 8, 200, 3)

# Steps take it as many times as long as it has threads. Then it does not end by itself for a minute.
STAND_IN = """#!{python}
import math, os, signal, struct, sys
signal.alarm(60)
sys.stdout = open(1, "w")  # as of any program: written by lines only where it is a terminal's
words = struct.unpack("8i", open("gpt2_124M.bin", "rb").read(32))
print(f"num_layers: {{words[4]}}\\nval loss 5.5")
for number, ms in enumerate([900, 30, 10, 20, 1]):
    print(f"step {{number}}: train loss {{math.log(words[3]) + LOSS:f}} (took {{ms * int(os.environ['OMP_NUM_THREADS'])}}.5 ms)")
signal.pause()
"""


def lines(*took, loss=math.log(TINY.vocabulary)):
    return ["[GPT-2]\n", "val loss 5.3\n",
            *(f"step {i}: train loss {loss:f} (took {ms} ms)\r\n" for i, ms in enumerate(took))]


class Reading(unittest.TestCase):
    def test_the_median_is_of_steps_behind_the_first(self):
        self.assertEqual(step.read_llmc(lines(900.0, 30.5, 10.0, 20.25), TINY), 20.25)

    def test_it_takes_no_more_than_it_needs(self):
        rest = iter(lines(900.0, 3.0, 1.0, 2.0, 7.0))
        self.assertEqual(step.read_llmc(rest, TINY), 2.0)
        self.assertIn("took 7.0", next(rest))

    def test_an_early_end_is_told_with_what_was_said_last(self):
        with self.assertRaisesRegex(step.Failure, "(?s)ended early:.*step 2.*assertion"):
            step.read_llmc([*lines(9.0, 1.0, 2.0), "assertion failed\n"], TINY)

    def test_weights_that_are_read_otherwise_are_noticed(self):
        for loss in (math.log(TINY.vocabulary) + 0.6, math.log(TINY.vocabulary) - 0.6, math.nan):
            with self.assertRaisesRegex(step.Failure, "equal chances"):
                step.read_llmc(lines(1.0, 1.0, 1.0, 1.0, loss=loss), TINY)

    def test_godwits_figures_are_found_in_what_it_prints(self):
        ms, share = step.run_godwit(BINARY, TINY._replace(vocabulary=256), 2)
        self.assertGreater(ms, 0.0)
        self.assertGreater(share, 0.0)
        self.assertEqual(step.read_godwit("a step  12.50  20.1\n\nexact additions: 8.6 % of a step\n"), (12.5, 8.6))
        with self.assertRaisesRegex(step.Failure, "lacks the lines"):
            step.read_godwit("a step  12.50  20.1\n")


class Writing(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def test_models_have_their_numbers_of_parameters(self):
        """GPT-2's smallest has 124,439,808 with 1024 places; here there are 64, and the vocabulary is padded by 47."""
        small, large = step.MODELS
        self.assertEqual(sum(count for count, _ in step.tensors(large)), 124439808 - 960 * 768 + 47 * 768)
        self.assertEqual(sum(count for count, _ in step.tensors(small)), 834304)

    def test_a_checkpoint_is_a_header_and_all_tensors(self):
        step.make_folder(self.folder, TINY)
        data = (self.folder / "gpt2_124M.bin").read_bytes()
        self.assertEqual(struct.unpack_from("9i", data), (20240326, 3, 64, 200, 2, 2, 8, 256, 0))
        values = array.array("f", data[1024:])
        before = 256 * 8 + 64 * 8
        self.assertEqual(len(values), before + 2 * (12 * 8 * 8 + 13 * 8) + 2 * 8)
        deviation = math.sqrt(sum(v * v for v in values[:before]) / before)
        self.assertAlmostEqual(deviation, 0.02, delta=0.002)
        self.assertEqual(list(values[before:before + 32]), [1.0] * 16 + [0.0] * 16)
        self.assertEqual(list(values[-16:]), [1.0] * 8 + [0.0] * 8)

    def test_tokens_are_a_shard(self):
        step.make_folder(self.folder, TINY)
        for part in ("train", "val"):
            path = self.folder / "dev" / "data" / "tinyshakespeare" / f"tiny_shakespeare_{part}.bin"
            data = path.read_bytes()
            tokens = array.array("H", data[1024:])
            self.assertEqual(struct.unpack_from("4i", data), (20240520, 1, len(tokens), 0))
            self.assertGreater(len(tokens), 20 * 4 * 64)
            self.assertLess(max(tokens), TINY.vocabulary)


class Running(unittest.TestCase):
    def run_it(self, loss, *words):
        """Output and exit code; the stand-in's losses are off by `loss`."""
        with tempfile.TemporaryDirectory() as name:
            program, godwit = pathlib.Path(name) / "train_gpt2", pathlib.Path(name) / "godwit"
            program.write_text(STAND_IN.format(python=sys.executable).replace("LOSS", str(loss)))
            godwit.write_text("#!/bin/sh\nprintf 'a step  10.25  20\\nexact additions: 8.5 %% of a step\\n'\n")
            program.chmod(0o755)
            godwit.chmod(0o755)
            out, code = io.StringIO(), 0
            with mock.patch.object(step, "MODELS", [TINY]), contextlib.redirect_stdout(out):
                try:
                    step.main([str(godwit), name, *words])
                except SystemExit as end:
                    code = end.code
            return out.getvalue(), code

    def test_both_take_turns_and_medians_are_compared(self):
        out, code = self.run_it(0.0, "--pairs", "2", "--threads", "3")
        self.assertEqual(code, 0, out)
        self.assertIn("3 threads", out)
        self.assertEqual(out.count("llm.c     60.50 ms a step, godwit     10.25, of it exact additions 8.5 %"), 2, out)
        self.assertIn("tiny: llm.c 60.50 ms a step, godwit 10.25: 5.90 times as fast; exact additions 8.5 %", out)

    def test_a_wrong_model_is_no_measurement(self):
        out, code = self.run_it(3.0)
        self.assertIn("equal chances", str(code))
        self.assertNotIn("times as fast", out)

    def test_a_folder_without_the_program_is_refused(self):
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stderr(io.StringIO()) as err:
            with self.assertRaises(SystemExit):
                step.main(["godwit", name])
        self.assertIn("there is no train_gpt2", err.getvalue())


if __name__ == "__main__":
    tap.main()
