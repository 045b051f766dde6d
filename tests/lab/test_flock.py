"""A flock whose peers are in machines of their own and whose pairs go all three ways: two peers share a machine (shared
memory), another has a device (RDMA), one does without both (TCP). The bytes are those of one undisturbed peer over TCP, and
the devices' own counters and what peers report show which way the data went. Flocks over RDMA whose machines join, die and
come back: test_flock_long.py, before a release."""

import os

import tap
from lab_flock import LabFlock
from same_bytes import ThreeMachines, status, stop_and_compare

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
MIXED = ["synthetic", "--shards", "24", "--shard-ms", "0", "--state-bytes", "256k", "--payload-bytes", "100000"]
# The shards of the flock sleep, which changes no bytes: all machines share the processor that emulates them.
SLEEPING = ["--shard-ms", "40"]
PATIENCE_S = 240


class ThreeWays(ThreeMachines):
    def paths(self, peer, flock):
        """Returns the path by which the peer reaches each of the others, by number."""
        numbers = {p.id: p.number for p in flock.peers}
        shown = status(peer)["peers"]
        return {numbers[p["id"]]: p["path"] for p in shown if not p["self"] and p["id"] in numbers}

    def wait_paths(self, peer, flock, expected):
        step = flock.step()
        while self.paths(peer, flock) != expected:
            step += 1
            flock.wait_step(step, PATIENCE_S)

    def test_same_bytes_by_three_ways_at_once(self):
        options = ["--time-scale", "400", "--workers", "1", "--checkpoint-every", "off", "--peers", "4"]
        flock = self.enterContext(LabFlock(self.lab, BINARY, [*MIXED, *SLEEPING, *options]))
        slow = flock.add(["--skew", "6"], flock.home(1))  # it is stolen from all the time, by all three ways
        neighbour = flock.add([], flock.home(1))
        far = flock.add([], flock.home(2))
        alone = flock.add(["--transport", "tcp"], flock.home(3))
        flock.first_step_after(0, PATIENCE_S, 4)
        self.wait_paths(slow, flock, {2: "shm", 3: "rdma", 4: "tcp"})
        self.wait_paths(neighbour, flock, {1: "shm", 3: "rdma", 4: "tcp"})
        self.wait_paths(far, flock, {1: "rdma", 2: "rdma", 4: "tcp"})
        self.wait_paths(alone, flock, {1: "tcp", 2: "tcp", 3: "tcp"})
        flock.wait_step(flock.step() + 4, PATIENCE_S)
        counters = {peer.number: status(peer)["counters"] for peer in flock.peers}
        # Words are the device's where there is one: only who has a queue pair reaches them with none of their owner's
        # code. Who comes by shared memory or TCP is served.
        self.assertGreater(counters[far.number]["operations_direct"], 0)
        self.assertEqual(counters[alone.number]["operations_direct"], 0)
        self.assertGreater(counters[slow.number]["operations_served"], 0)
        self.assertGreater(counters[far.number]["pulled_bytes"], 0)
        self.assertEqual(counters[alone.number]["pulled_bytes"], 0)
        sent = self.lab.machine(2).counters()["sent_pkts"]
        moment = flock.kill_machine(alone)
        flock.first_step_after(moment, PATIENCE_S, 3)
        flock.wait_step(flock.step() + 2, PATIENCE_S)
        self.assertGreater(self.lab.machine(2).counters()["sent_pkts"], sent)
        finishers = flock.living()
        stop_and_compare(self, flock, MIXED, PATIENCE_S)
        self.assertGreater(sum(peer.done["stolen"] for peer in finishers), 0)


if __name__ == "__main__":
    tap.main()
