"""What tools/gpu/check.sh says on machines that are not as they should be: a pass there has to mean something."""

import contextlib
import io
import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "gpu")]
import check  # noqa: E402
import tap  # noqa: E402


def verdict(checks, function):
    """Of a row with this check, and what was seen."""
    with contextlib.redirect_stdout(io.StringIO()):
        _, found, _, _, seen = checks.row("row", function, needs_gpu=False)
    return found, seen


class Row(unittest.TestCase):
    def setUp(self):
        self.checks = check.Checks("godwit", [], 60)


class Several(Row):
    """One peer with both GPUs of a machine, of which all that is known is what it prints."""

    def both(self, log):
        done = json.dumps({"event": "done", "state": "ab" * 32, "steps": 2}) + "\n"
        self.checks.devices = {"gpus": [{}, {}]}
        self.checks.has_device_option = True
        self.checks.godwit = lambda arguments, *_, **__: (done, log if "cuda:all" in arguments else "")
        return verdict(self.checks, self.checks.several)

    def test_gpus_that_sum_by_nccl_to_the_bytes_of_one_pass(self):
        self.assertEqual(self.both("")[0], check.PASS)

    def test_gpus_of_a_machine_among_which_nccl_does_not_work_fail(self):
        found, seen = self.both("warn: in this view sums go through host memory, which takes longer")
        self.assertEqual(found, check.FAIL)
        self.assertIn("do not go by NCCL", seen)


if __name__ == "__main__":
    tap.main(lambda: None, "check")
