"""Flocks whose peers are in machines of their own, over RDMA; machines die and join. One flock's pairs go all three ways:
two peers share a machine (shared memory), another has a device (RDMA), one does without both (TCP). The bytes are those
of one undisturbed peer over TCP, and the devices' own counters and what peers report show which way the data went."""

import os
import time

import tap
from lab_flock import LabFlock
from same_bytes import ThreeMachines, status, stop_and_compare

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
SYNTHETIC = ["synthetic", "--shards", "12", "--shard-ms", "0", "--state-bytes", "256k"]
MIXED = ["synthetic", "--shards", "24", "--shard-ms", "0", "--state-bytes", "256k", "--payload-bytes", "100000"]
# The shards of a flock sleep, which changes no bytes: while it waits for a machine to boot it leaves the processor to it.
SLEEPING = ["--shard-ms", "40"]
# The emulated processor differs from the host's, so both compute with the kernels of a third class.
HASWELL = ["--cpu-class", "haswell"]
DIGITS = ["digits", "--samples", "1000", "--epochs", "1000", "--batch", "240", "--hidden", "32", *HASWELL]
OVER_RDMA = ["--transport", "rdma", "--time-scale", "400"]
PATIENCE_S = 240
# A step's sums of either job are more than 64 packets' worth; what a peer tells its own device by loopback is less.
PACKETS_A_STEP = 64


class Flocks(ThreeMachines):
    def flock(self, job, numbers):
        """Starts peers in these machines, which compute until they are stopped."""
        flock = self.enterContext(LabFlock(self.lab, BINARY, [*job, *OVER_RDMA, "--peers", str(len(numbers))]))
        flock.gather_in([flock.home(number) for number in numbers], ["--workers", "1"])
        flock.wait_step(5, PATIENCE_S)
        return flock

    def packets(self, flock):
        """What the devices of the living peers' machines have sent, by peer."""
        return {peer: peer.home.machine.counters()["sent_pkts"] for peer in flock.living()}

    def kill(self, flock, victim):
        """Kills a peer's machine, and waits until the others commit a step without it."""
        survivors = len(flock.living()) - 1
        flock.first_step_after(flock.kill_machine(victim), PATIENCE_S, survivors)

    def finish(self, flock, job):
        """Waits for some more steps, stops the job, and checks what must hold then."""
        before, first = self.packets(flock), flock.step()
        flock.wait_step(first + 5, PATIENCE_S)
        finishers = flock.living()
        steps = stop_and_compare(self, flock, job, PATIENCE_S)
        for peer in finishers:
            sent = peer.home.machine.counters()["sent_pkts"] - before[peer]
            whole = steps - first - 1  # a part of the step under way had been sent before
            self.assertGreater(sent, whole * PACKETS_A_STEP, f"machine {peer.home.number}")

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
        flock.wait_step(flock.step() + 10, PATIENCE_S)
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
        flock.wait_step(flock.step() + 5, PATIENCE_S)
        self.assertGreater(self.lab.machine(2).counters()["sent_pkts"], sent)
        finishers = flock.living()
        stop_and_compare(self, flock, MIXED, PATIENCE_S)
        self.assertGreater(sum(peer.done["stolen"] for peer in finishers), 0)

    def test_same_bytes_when_a_machine_joins_and_the_leaders_is_killed(self):
        flock = self.flock([*SYNTHETIC, *SLEEPING], [1, 2])
        flock.add(["--workers", "1"], flock.home(3))
        flock.first_step_after(time.time(), PATIENCE_S, 3)
        self.kill(flock, flock.leader())
        self.finish(flock, SYNTHETIC)

    def test_same_bytes_when_a_machine_is_killed_and_comes_back(self):
        flock = self.flock(DIGITS, [1, 2, 3])
        victim = next(peer for peer in flock.living() if not peer.leads)
        self.kill(flock, victim)
        self.lab.start(victim.home.number)
        flock.start(victim, ["--workers", "1"])
        flock.first_step_after(time.time(), PATIENCE_S, 3)
        self.finish(flock, DIGITS)


if __name__ == "__main__":
    tap.main()
