"""Tests of the lab itself: its machines, their RDMA devices, and the faults that it makes in them."""

import os
import re
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

import tap  # noqa: F401  (it comes first, as it adds the lab's modules to the path)
from machines import MACHINE_GONE, Lab, Trouble

LAB = os.path.join(os.path.dirname(tap.machines.__file__), "lab.py")
PING = "busybox ping -c 1 -W 1"
PATIENCE_S = 300
# A static key is in the path of the interrupt by which one processor tells the other to see the kernel's patched code.
PATCH_KERNEL = """
mount -t tracefs tracing /sys/kernel/tracing
for i in $(seq 200); do
    for on in 1 0; do
        echo $on >/sys/kernel/tracing/events/irq_vectors/call_function_exit/enable || exit 1
    done
done"""
KERNEL_SAID = r"\[ +\d+\.\d+\] "


def network_of(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


def in_network(network):
    """Returns the processes in a network namespace."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if network_of(pid) == network:
                found.append(int(pid))
        except OSError:
            continue  # the process has ended, or is another user's
    return found


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {PATIENCE_S} s still not: {what}")
        time.sleep(0.02)


class Machines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(2)
        cls.addClassCleanup(cls.lab.close)
        cls.one, _ = cls.lab.start_all()

    def setUp(self):
        self.two = self.lab.machine(2)

    def test_exit_code_and_output_of_a_command(self):
        self.assertEqual(self.one.run("echo out; echo err >&2; exit 3"), (3, "out\nerr\n"))
        self.assertEqual(self.one.run("kill -9 $$").code, 128 + signal.SIGKILL)

    def test_root_is_the_hosts_and_nothing_is_written_to_it(self):
        mark = os.path.join(os.path.dirname(os.path.abspath(__file__)), "written-in-the-lab")
        self.assertEqual(self.one.run(f"cat {__file__} | wc -c").output.strip(), str(os.path.getsize(__file__)))
        self.one.check(f"echo here > {mark} && cat {mark}")
        self.assertFalse(os.path.exists(mark))

    def test_shared_folder(self):
        path = self.lab.put(__file__, "put")
        self.one.check(f"cmp {path} {__file__} && cp {path} /lab/back")
        self.assertTrue(os.path.exists(os.path.join(self.lab.shared, "back")))
        self.two.check(f"cmp /lab/back {__file__}")

    def test_command_out_of_time_is_killed(self):
        with self.assertRaises(Trouble):
            self.one.run("echo $$ > /run/late; sleep 1000", timeout_s=10)
        self.assertEqual(self.one.run("test -d /proc/$(cat /run/late)").code, 1)

    def test_queue_pair_within_one_machine(self):
        server = self.one.spawn("ibv_rc_pingpong -g 1 -n 100")
        self.one.wait_listening(18515)
        self.one.check(f"ibv_rc_pingpong -g 1 -n 100 {self.one.address}")
        self.assertEqual(server.wait(PATIENCE_S), 0)

    def test_rdma_cm_between_two_and_the_devices_counters(self):
        before = self.one.counters()["sent_pkts"]
        server = self.two.spawn(f"rping -s -a {self.two.address} -C 10")
        self.one.check(f"until rping -c -a {self.two.address} -C 10; do sleep 0.1; done")
        self.assertEqual(server.wait(PATIENCE_S), 0)
        self.assertGreater(self.one.counters()["sent_pkts"], before + 20)

    def test_locked_memory_has_a_limit_without_the_capability(self):
        pin = "setpriv --bounding-set=-ipc_lock ibv_rc_pingpong -g 1 -s 1000000"
        code, output = self.one.run(f"ulimit -l 64; {pin}")
        self.assertEqual((code, output), (1, "Couldn't register MR\n"))

    def test_cut_and_heal(self):
        self.one.check(f"{PING} {self.two.address}")
        self.lab.cut(2)
        self.assertNotEqual(self.one.run(f"{PING} {self.two.address}").code, 0)
        self.assertEqual(self.two.run("true").code, 0)  # the machine itself is unchanged
        self.lab.heal(2)
        self.one.check(f"until {PING} {self.two.address}; do :; done")

    def test_freeze_and_thaw(self):
        self.two.freeze()
        job = self.two.spawn("echo thawed")
        self.assertNotEqual(self.one.run(f"{PING} {self.two.address}").code, 0)
        self.assertIsNone(job.poll())
        self.two.thaw()
        self.assertEqual((job.wait(PATIENCE_S), job.output), (0, "thawed\n"))

    def test_killed_machine_is_seen_and_starts_again(self):
        job = self.two.spawn("echo $$; sleep 1000")
        job.wait_line(r"\d", PATIENCE_S)
        self.two.kill()
        self.assertEqual(job.wait(PATIENCE_S), MACHINE_GONE)
        self.assertFalse(self.two.alive)
        self.assertEqual(self.two.run("true").code, MACHINE_GONE)
        self.lab.start(2).check("test ! -e /run/late")


class Boots(unittest.TestCase):
    """A machine boots, or its error says how far the boot came."""

    def setUp(self):
        self.lab = Lab(1)
        self.addCleanup(self.lab.close)
        self.machine = self.lab.boot(1)

    def assert_does_not_come_up(self, words):
        with self.assertRaisesRegex(Trouble, f"^machine 1 does not come up; {words}"):
            self.machine.wait_ready()

    def test_that_stands_still(self):
        wait_until(lambda: re.search(KERNEL_SAID, self.machine.last_words()), "its kernel says something")
        self.machine.freeze()
        with mock.patch.object(tap.machines, "BOOT_S", 0.1):
            self.assert_does_not_come_up(rf"QEMU runs and has used \d+ s of processor time:\n(.*\n)*{KERNEL_SAID}")

    def test_whose_qemu_ends(self):
        self.machine.signal(signal.SIGKILL)
        self.assert_does_not_come_up(f"QEMU ended with exit code -{int(signal.SIGKILL)}:")

    def test_that_comes_up(self):
        self.machine.wait_ready()
        self.assertIn("lab: its network is up\nlab: it takes commands\n", self.machine.last_words().replace("\r", ""))

    def test_that_patches_its_kernel_while_both_processors_run(self):
        """An emulator that misses a change to what it just translates leaves a processor in a trap for ever."""
        self.machine.wait_ready()
        self.assertEqual(self.machine.check("nproc"), "2\n")
        self.machine.check(PATCH_KERNEL, 2 * PATIENCE_S)


class Ends(unittest.TestCase):
    """Whatever ends a lab leaves no process, namespace or folder."""

    def assert_gone(self, network, folder):
        wait_until(lambda: not in_network(network), "no process in the lab's network")
        wait_until(lambda: not os.path.exists(folder), "its folder is removed")

    def test_closed(self):
        with Lab(1) as lab:
            lab.boot(1)
            network, folder = network_of(lab.keeper.process.pid), lab.folder
            self.assertNotEqual(network, network_of("self"))
            self.assertEqual(len(in_network(network)), 2)
        self.assert_gone(network, folder)

    def end_tool(self, number):
        """A tool that gets a signal in the middle of its work leaves nothing behind."""
        tool = subprocess.Popen([sys.executable, LAB, "1", "--", "echo ready; sleep 1000"], stdout=subprocess.PIPE)
        with tool:
            self.assertEqual(tool.stdout.readline(), b"1| ready\n")
            with open(f"/proc/{tool.pid}/task/{tool.pid}/children") as file:
                keeper = int(file.read().split()[0])
            with open(f"/proc/{keeper}/cmdline") as file:
                folder = file.read().split("\0")[-2]
            network = network_of(keeper)
            tool.send_signal(number)
            tool.communicate()
        self.assert_gone(network, folder)

    def test_killed(self):
        self.end_tool(signal.SIGKILL)

    def test_interrupted(self):
        self.end_tool(signal.SIGINT)

    def test_keeper_killed(self):
        """The processes of a killed keeper die with it, and the next lab removes its folder."""
        with Lab(1) as lab:
            lab.boot(1)
            network, folder = network_of(lab.keeper.process.pid), lab.folder
            lab.keeper.process.kill()
            wait_until(lambda: not in_network(network), "no process in the lab's network")
            self.assertTrue(os.path.exists(folder))
            lab.keeper.process.wait()
            with Lab(1):
                self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    tap.main()
