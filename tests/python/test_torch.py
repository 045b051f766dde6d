"""PyTorch programs: the same bytes alone, with any number of workers and peers, and whatever dies."""

import os
import re
import sys
import unittest

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

BYTES = os.path.join(peers.EXAMPLES, "bytes.py")
PICTURES = os.path.join(peers.PROGRAMS, "pictures.py")


class SameBytes(peers.Case):
    def test_a_language_model_has_one_state_alone_with_workers_and_with_peers_that_die(self):
        arguments = [self.text(), 8]
        alone = self.alone(BYTES, arguments)
        state = peers.state_of(alone)
        self.assertIsNotNone(state, alone)
        said = re.search(r"after 8 updates: (.*)", alone)
        self.assertEqual(self.state("two", BYTES, arguments, ("--workers", "2")), state)
        self.assertIn(said[1], self.output, "the program goes on with another model than alone")
        flock = self.flock(BYTES, arguments)
        for peer in flock:
            self.assertEqual(peer.end(), 0, peer.output)
            self.assertEqual(peers.state_of(peer.output), state)

    def test_a_net_with_batch_norm_has_one_state_whatever_dies(self):
        arguments = [7]
        state = self.state("one", PICTURES, arguments, ("--workers", "1"))
        self.assertRegex(self.output, r"finished 7 \S+ 0.0025 None True 7 7")
        marks = os.path.join(self.folder, "marks")
        workers = ["shard 1 2", "shard 1 3", "shard 4 0", "once 2", "once 5", "after 3"]
        self.assertEqual(
            self.state("dying", PICTURES, arguments, ("--workers", "2"), **peers.kills(marks, *workers)), state
        )
        self.assertEqual(sorted(os.listdir(marks)), sorted(workers))
        with_peer = os.path.join(self.folder, "peer marks")
        places = peers.kills(with_peer, "peer shard 3 1", "shard 2 4", "once 4")
        flock = self.flock(PICTURES, arguments, variables=[places] * 3)
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0, 0], [p.output for p in flock])
        for peer, end in zip(flock, ends):
            if end == 0:
                self.assertEqual(peers.state_of(peer.output), state)

    def test_a_stopped_program_resumes_with_other_workers_to_the_same_state(self):
        state = self.state("through", PICTURES, [7], ("--workers", "2"))
        marks = peers.kills(os.path.join(self.folder, "marks"), "stop after 3")
        peer = self.peer("halves", PICTURES, [7], ("--workers", "2"), **marks)
        peer.end()
        self.assertNotEqual(peers.state_of(peer.output), state, peer.output)
        self.assertEqual(self.state("halves", PICTURES, [7], ("--workers", "1")), state)


if __name__ == "__main__":
    unittest.TestLoader.sortTestMethodsUsing = None
    tap.main(missing=lambda: peers.lacks("torch"), what="programs")
