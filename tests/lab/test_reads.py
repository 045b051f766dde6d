"""What goes from the memory of one machine into that of another by READs of its device: states for joiners, replicas
of checkpoints, shard payload. The bytes are those of one undisturbed peer, and what was pulled is counted."""

import os
import shutil
import time

import tap
from lab_flock import LabFlock
from same_bytes import ThreeMachines, status, stop, stop_and_compare

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
STATE_BYTES = 6 << 20
STATE = ["synthetic", "--shards", "12", "--shard-ms", "5", "--state-bytes", str(STATE_BYTES)]
PAYLOAD = ["synthetic", "--shards", "18", "--shard-ms", "20", "--state-bytes", "64k", "--payload-bytes", "700000"]
OVER_RDMA = ["--transport", "rdma", "--time-scale", "400", "--workers", "1"]
PATIENCE_S = 240


class Reads(ThreeMachines):
    def flock(self, job, members):
        return self.enterContext(LabFlock(self.lab, BINARY, [*job, *OVER_RDMA, "--peers", str(members)]))

    def wait_counter(self, peer, name, least):
        """Waits until the peer counts so many: a counter is shown a moment after it changes."""
        step = peer.flock.step()
        while status(peer)["counters"][name] < least:
            step += 1
            peer.flock.wait_step(step, PATIENCE_S)
        return status(peer)["counters"]

    def test_a_joiner_reads_the_state_from_several(self):
        flock = self.flock([*STATE, "--checkpoint-every", "off"], 2)
        flock.gather_in([flock.home(1), flock.home(2)])
        flock.wait_step(3, PATIENCE_S)
        joiner = flock.add([], flock.home(3))
        flock.first_step_after(time.time(), PATIENCE_S, 3)
        counted = self.wait_counter(joiner, "fetched_bytes", STATE_BYTES)
        self.assertGreaterEqual(counted["pulled_bytes"], STATE_BYTES)
        served = [status(peer)["counters"]["served_bytes"] for peer in flock.peers[:2]]
        self.assertTrue(all(served), f"one donor alone: {served}")
        stop_and_compare(self, flock, STATE, PATIENCE_S)

    def test_a_donor_dies_in_the_middle(self):
        flock = self.flock([*STATE, "--state-bytes", "32m", "--checkpoint-every", "off"], 2)
        flock.gather_in([flock.home(1), flock.home(2)])
        flock.wait_step(2, PATIENCE_S)
        flock.add([], flock.home(3))
        flock.wait(lambda: any(peer.view and len(peer.view["members"]) == 3 for peer in flock.living()), PATIENCE_S,
                   "the joiner is admitted")
        moment = flock.kill_machine(flock.peers[1])
        flock.first_step_after(moment, PATIENCE_S, 2)
        stop_and_compare(self, flock, [*STATE, "--state-bytes", "32m"], PATIENCE_S)

    def test_a_checkpoints_replicas_are_read_by_who_lost_them(self):
        job = [*STATE, "--checkpoint-every", "10", "--replicas", "2"]
        flock = self.flock(job, 2)
        first, second = flock.gather_in([flock.home(1), flock.home(2)])
        flock.wait_step(12, PATIENCE_S)
        stop(flock, PATIENCE_S)
        shutil.rmtree(second.directory)
        flock.start(first)
        flock.start(second)
        flock.first_step_after(time.time(), PATIENCE_S, 2)
        counted = self.wait_counter(second, "fetched_bytes", STATE_BYTES)
        self.assertGreaterEqual(counted["pulled_bytes"], STATE_BYTES)
        self.assertTrue([e for p, e in flock.events if p is first and e["event"] == "resumed"])
        stop_and_compare(self, flock, STATE, PATIENCE_S)

    def test_a_thief_reads_the_payload(self):
        flock = self.flock([*PAYLOAD, "--checkpoint-every", "off"], 3)
        slow = flock.add(["--skew", "8"], flock.home(1))
        thieves = [flock.add([], flock.home(number)) for number in (2, 3)]
        flock.wait_step(4, PATIENCE_S)
        before = [self.wait_counter(thief, "payload_read_bytes", 700000) for thief in thieves]
        self.assertGreaterEqual(max(counted["pulled_bytes"] for counted in before), 700000)
        # While the first links were made a block may have been asked for too early. Now all are.
        for thief, early in zip(thieves, before):
            counted = self.wait_counter(thief, "payload_read_bytes", early["payload_read_bytes"] + 700000)
            self.assertEqual(counted["payload_reads_failed"], early["payload_reads_failed"])
        moment = flock.kill_machine(slow)  # whoever reads from it then does without
        flock.first_step_after(moment, PATIENCE_S, 2)
        flock.wait_step(flock.step() + 3, PATIENCE_S)
        stop_and_compare(self, flock, PAYLOAD, PATIENCE_S)


if __name__ == "__main__":
    tap.main()
