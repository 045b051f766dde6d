"""What goes from the memory of one machine into that of another by READs of its device: states for joiners, replicas
of checkpoints, shard payload. The bytes are those of one undisturbed peer, and what was pulled is counted."""

import json
import os
import shutil
import time
import unittest

import tap
from flock import run_alone
from lab_flock import LabFlock
from machines import Lab

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
STATE_BYTES = 6 << 20
STATE = ["synthetic", "--shards", "12", "--shard-ms", "5", "--state-bytes", str(STATE_BYTES)]
PAYLOAD = ["synthetic", "--shards", "18", "--shard-ms", "20", "--state-bytes", "64k", "--payload-bytes", "700000"]
OVER_RDMA = ["--transport", "rdma", "--time-scale", "400", "--workers", "1"]
PATIENCE_S = 240


class Reads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(3)
        cls.addClassCleanup(cls.lab.close)
        cls.lab.start_all()

    def setUp(self):
        for number in (1, 2, 3):
            if not self.lab.machine(number).alive:
                self.lab.start(number)

    def flock(self, job, members):
        return self.enterContext(LabFlock(self.lab, BINARY, [*job, *OVER_RDMA, "--peers", str(members)]))

    def counters(self, peer):
        """What `godwit status` says that the peer counts."""
        directory = peer.home.inside(peer.directory)
        return json.loads(peer.home.machine.check(f"{peer.flock.binary} status --json --dir {directory}"))["counters"]

    def wait_counter(self, peer, name, least):
        """Until it counts so many: counters are shown a little after the fact."""
        step = peer.flock.step()
        while self.counters(peer)[name] < least:
            step += 1
            peer.flock.wait_step(step, PATIENCE_S)
        return self.counters(peer)

    def stop(self, flock):
        finishers = flock.living()
        peer = finishers[0]
        peer.home.machine.check(f"{flock.binary} stop --dir {peer.home.inside(peer.directory)}")
        flock.wait_ends(finishers, PATIENCE_S)
        return finishers

    def same_bytes(self, finishers, job):
        alone = run_alone(BINARY, [*job, "--steps", str(finishers[0].done["steps"])])
        self.assertEqual({peer.done["state"] for peer in finishers}, {alone["state"]})

    def test_a_joiner_reads_the_state_from_several(self):
        flock = self.flock([*STATE, "--checkpoint-every", "off"], 2)
        flock.gather_in([flock.home(1), flock.home(2)])
        flock.wait_step(3, PATIENCE_S)
        joiner = flock.add([], flock.home(3))
        flock.first_step_after(time.time(), PATIENCE_S, 3)
        counted = self.wait_counter(joiner, "fetched_bytes", STATE_BYTES)
        self.assertGreaterEqual(counted["pulled_bytes"], STATE_BYTES)
        served = [self.counters(peer)["served_bytes"] for peer in flock.peers[:2]]
        self.assertTrue(all(served), f"one donor alone: {served}")
        self.same_bytes(self.stop(flock), STATE)

    def test_a_donor_dies_in_the_middle(self):
        flock = self.flock([*STATE, "--state-bytes", "48m", "--checkpoint-every", "off"], 2)
        flock.gather_in([flock.home(1), flock.home(2)])
        flock.wait_step(2, PATIENCE_S)
        flock.add([], flock.home(3))
        flock.wait(lambda: any(peer.view and len(peer.view["members"]) == 3 for peer in flock.living()), PATIENCE_S,
                   "the joiner is admitted")
        moment = flock.kill_machine(flock.peers[1])
        flock.first_step_after(moment, PATIENCE_S, 2)
        self.same_bytes(self.stop(flock), [*STATE, "--state-bytes", "48m"])

    def test_a_checkpoints_replicas_are_read_by_who_lost_them(self):
        job = [*STATE, "--checkpoint-every", "10", "--replicas", "2"]
        flock = self.flock(job, 2)
        first, second = flock.gather_in([flock.home(1), flock.home(2)])
        flock.wait_step(12, PATIENCE_S)
        self.stop(flock)
        shutil.rmtree(second.directory)
        flock.start(first)
        flock.start(second)
        flock.first_step_after(time.time(), PATIENCE_S, 2)
        counted = self.wait_counter(second, "fetched_bytes", STATE_BYTES)
        self.assertGreaterEqual(counted["pulled_bytes"], STATE_BYTES)
        self.assertTrue([e for p, e in flock.events if p is first and e["event"] == "resumed"])
        self.same_bytes(self.stop(flock), STATE)

    def test_a_thief_reads_the_payload(self):
        flock = self.flock([*PAYLOAD, "--checkpoint-every", "off"], 3)
        slow = flock.add(["--skew", "8"], flock.home(1))
        thieves = [flock.add([], flock.home(number)) for number in (2, 3)]
        flock.wait_step(4, PATIENCE_S)
        read = max(self.wait_counter(thief, "payload_read_bytes", 700000)["pulled_bytes"] for thief in thieves)
        self.assertGreaterEqual(read, 700000)
        self.assertEqual(self.counters(thieves[0])["payload_reads_failed"], 0)
        moment = flock.kill_machine(slow)  # whoever reads from it then does without
        flock.first_step_after(moment, PATIENCE_S, 2)
        flock.wait_step(flock.step() + 3, PATIENCE_S)
        self.same_bytes(self.stop(flock), PAYLOAD)


if __name__ == "__main__":
    tap.main()
