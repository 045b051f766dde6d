"""Flocks whose peers are in machines of their own, over RDMA; machines die, join and come back. The bytes are those of one
undisturbed peer over TCP, and the devices' own counters show that the data went by RDMA. It takes some minutes."""

import os
import time

import tap
from lab_flock import LabFlock
from same_bytes import ThreeMachines, stop_and_compare

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
SYNTHETIC = ["synthetic", "--shards", "12", "--shard-ms", "0", "--state-bytes", "256k"]
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
