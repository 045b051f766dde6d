"""mypy finds no fault in the module in its strict mode."""

import os
import subprocess
import sys
import tempfile
import unittest

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402


class Types(unittest.TestCase):
    def test_the_module_is_typed(self):
        with tempfile.TemporaryDirectory() as cache:
            command = [peers.PYTHON, "-m", "mypy", "--strict", "--cache-dir", cache, os.path.join(peers.MODULE, "godwit")]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=peers.LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("mypy", "torch", "lightning", "transformers"), what="types")
