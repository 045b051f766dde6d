"""What happens to a running flock when its RDMA fails and TCP, on a network of its own, does not: it goes on over
TCP, says once why, takes RDMA again when it can, and the bytes are the same."""

import functools
import os
import re
import sys
import time

import tap
from lab_flock import LabFlock
from machines import Lab, MachineEnded
from same_bytes import KeptMachines, stop_and_compare

BINARY = os.environ.get("GODWIT_BINARY", "build/godwit")
JOB = ["synthetic", "--shards", "12", "--shard-ms", "0", "--state-bytes", "256k"]
# The duration of a shard does not change the result. Shards sleep, as a flock that computes for as long as it takes until
# RDMA is tried again would keep a processor busy that emulates another one.
OPTIONS = ["--shard-ms", "40", "--transport", "auto", "--time-scale", "400", "--peers", "2", "--checkpoint-every", "off",
           "--rdma-device", "rxe0"]
# RDMA that failed is tried again after half a minute, then after twice as long (retry_ns of net/fabric/fabric.h): the third try
# is to work.
PATIENCE_S = 30 + 60 + 120 + 30
WHERE = r"to peer (?:\S+ \()?[0-9a-f]{8}\)?: net/rdma: rxe0 port 1(?: to [\d.:]+)?: "  # it names device, port and peer


def once_more_if_a_machine_ends(test):
    """Twice in a dozen runs a machine ended as the port of its RDMA device came up, by its own kernel or QEMU, and why
    is not known yet. It is told, with its last words; nothing in the test ends a machine there."""

    @functools.wraps(test)
    def run(self):
        try:
            return test(self)
        except MachineEnded as ended:
            print(f"once more: {ended}", file=sys.stderr, flush=True)
        self.doCleanups()
        self.setUp()
        return test(self)

    return run


class Failures(KeptMachines):
    @staticmethod
    def make_lab():
        return Lab(2, rail=True)

    def setUp(self):
        super().setUp()
        self.one, self.two = self.lab.machine(1), self.lab.machine(2)
        self.flock = self.enterContext(LabFlock(self.lab, BINARY, [*JOB, *OPTIONS]))
        self.flock.gather_in([self.flock.home(1), self.flock.home(2)], ["--workers", "1"])
        self.begun = {}  # peer -> the end of its log before the fault
        self.await_path("rdma")
        self.go_on()
        self.begun = {peer: len(self.log(peer)) for peer in self.flock.peers}

    def log(self, peer):
        """What the peer has logged, a line each."""
        kinds = ("log", "warning", "error")
        with self.flock.changed:
            told = [event for by, event in self.flock.events if by is peer and event["event"] in kinds]
        return "".join(f"{event['room']}: {event['text']}\n" for event in told)[self.begun.get(peer, 0) :]

    def await_path(self, kind):
        """Waits until both peers report that their data take this path."""

        def all_do():
            links = [re.findall(r"data link to .+: (\w+)$", self.log(p), re.MULTILINE) for p in self.flock.peers]
            return all(found and found[-1] == kind for found in links)

        self.flock.wait(all_do, PATIENCE_S, f"the data goes by {kind}", watch=self.flock.peers)

    def go_on(self):
        """Waits until both peers have committed steps that began after this call."""
        self.flock.first_step_after(time.time(), PATIENCE_S, 2)
        self.flock.wait_step(self.flock.step() + 5, PATIENCE_S)

    def assert_said_once(self, peer, reason):
        """Checks that the peer reports TCP with the other once, and the reason."""
        said = re.findall(r"the link to peer (?:\S+ \()?[0-9a-f]{8}\)? uses TCP: .*", self.log(peer))
        self.assertEqual(len(said), 1, self.log(peer))
        self.assertRegex(said[0], reason)

    def assert_packets_flow(self):
        """Checks by the devices' own counters that RDMA is used."""
        before = [machine.counters()["sent_pkts"] for machine in (self.one, self.two)]
        self.go_on()
        after = [machine.counters()["sent_pkts"] for machine in (self.one, self.two)]
        for now, then in zip(after, before):
            self.assertGreater(now, then + 100)

    @once_more_if_a_machine_ends
    def test_port_goes_down_and_comes_back(self):
        first, second = self.flock.peers
        self.addCleanup(self.two.run, "ip link set eth1 up")
        self.two.check("ip link set eth1 down")
        self.await_path("tcp")
        self.go_on()
        self.assert_said_once(second, "net/rdma: rxe0 port 1: (port error|local QP operation error)")
        self.assert_said_once(first, WHERE + "|rdma, which the last link used")
        self.two.check("ip link set eth1 up")
        self.await_path("rdma")
        self.assert_packets_flow()
        stop_and_compare(self, self.flock, JOB, PATIENCE_S)

    def test_path_breaks_by_itself_while_both_ends_live(self):
        """No event reports a cable that is pulled; the retries of the device run out."""
        self.addCleanup(self.two.heal_rail)
        self.two.cut_rail()
        self.await_path("tcp")
        self.go_on()
        exceeded = WHERE + r"transport retry counter exceeded \(status 12"
        self.assertRegex("".join(self.log(peer) for peer in self.flock.peers), exceeded)
        for peer in self.flock.peers:
            self.assert_said_once(peer, exceeded + "|rdma, which the last link used")
        self.two.heal_rail()
        self.await_path("rdma")
        self.assert_packets_flow()
        stop_and_compare(self, self.flock, JOB, PATIENCE_S)

    def test_device_is_removed_and_comes_back(self):
        """The kernel waits with the removal until the last user has let go of the device; librdmacm does so only while
        there is another one."""
        first, second = self.flock.peers
        self.addCleanup(self.two.kill)  # the next test needs one with that device alone
        self.two.check("rdma link add rxe1 type rxe netdev eth0")
        self.two.check("rdma link delete rxe0", timeout_s=PATIENCE_S)
        self.await_path("tcp")
        self.go_on()
        self.assert_said_once(second, "net/rdma: rxe0 port 1: the device was removed")
        self.assert_said_once(first, WHERE + "|rdma, which the last link used")
        self.two.check("rdma link add rxe0 type rxe netdev eth1")
        self.await_path("rdma")
        self.assertRegex(self.log(second), "net/rdma: rxe0 port 1 is used from now on")
        self.assert_packets_flow()
        stop_and_compare(self, self.flock, JOB, PATIENCE_S)


if __name__ == "__main__":
    tap.main()
