"""`godwit tokenize` makes the tokens of the tokenizers library of every code point."""

import os
import subprocess
import sys
import unittest

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

SCRIPT = os.path.join(peers.HERE, "..", "cluster", "tokenizers_tokens.py")


class Tokens(unittest.TestCase):
    def test_the_tokenizers_library_makes_the_same_tokens_of_every_code_point(self):
        command = [peers.PYTHON, SCRIPT, "compare", peers.BINARY]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=peers.LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all tokens are the same", done.stdout)


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("tokenizers"), what="tokens")
