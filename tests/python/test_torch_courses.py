"""PyTorch programs on flocks of three, with two threads and with copies of the state, and the example of pictures: before a
release."""

import os
import sys

import peers

sys.path.insert(0, os.path.join(peers.HERE, "..", "lab"))
import tap  # noqa: E402

BYTES = os.path.join(peers.EXAMPLES, "bytes.py")
IMAGES = os.path.join(peers.EXAMPLES, "images.py")
PICTURES = os.path.join(peers.PROGRAMS, "pictures.py")


class SameBytes(peers.Case):
    def test_a_language_model_has_one_state_alone_and_on_three_peers(self):
        arguments = [self.text(), 8]
        state = peers.state_of(self.alone(BYTES, arguments))
        flock = self.flock(BYTES, arguments)
        for peer in flock:
            self.assertEqual(peer.end(), 0, peer.output)
            self.assertEqual(peers.state_of(peer.output), state)

    def test_a_net_with_batch_norm_has_one_state_with_copies_in_two_halves_and_on_three_peers_that_die(self):
        arguments = [7]
        state = self.state("one", PICTURES, arguments, ("--workers", "1"))
        copied = peers.kills(os.path.join(self.folder, "copied marks"), "shard 2 1", "once 4")
        copied["GODWIT_TEST_COPIES"] = "1"  # the model sees copies of the state, as it does on a GPU
        self.assertEqual(self.state("copied", PICTURES, arguments, ("--workers", "2"), **copied), state)
        stop = peers.kills(os.path.join(self.folder, "stop"), "stop shard 3 2")
        halves = self.peer("halves", PICTURES, arguments, ("--workers", "2"), **stop)
        halves.end()
        self.assertIn("this peer leaves", halves.output)
        self.assertEqual(self.state("halves", PICTURES, arguments, ("--workers", "1")), state)
        places = peers.kills(os.path.join(self.folder, "peer marks"), "peer shard 3 1", "shard 2 4", "once 4")
        flock = self.flock(PICTURES, arguments, variables=[places] * 3)
        ends = [peer.end() for peer in flock]
        self.assertEqual(sorted(ends), [-9, 0, 0], [p.output for p in flock])
        self.assertEqual([peers.state_of(p.output) for p, end in zip(flock, ends) if end == 0], [state] * 2)

    def test_two_threads_are_another_job_with_one_state(self):
        self.expect_one_state_with_two_threads(PICTURES, [5])


class Pictures(peers.Case):
    def test_the_example_of_pictures_has_one_state_alone_and_with_workers(self):
        alone = self.alone(IMAGES, [self.pictures(), 4])
        self.assertRegex(alone, "after 4 updates: .* are recognized")
        self.assertEqual(self.state("two", IMAGES, [self.folder, 4], ("--workers", "2")), peers.state_of(alone))


if __name__ == "__main__":
    tap.main(missing=lambda: peers.lacks("torch"), what="programs")
