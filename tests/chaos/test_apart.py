"""Two hosts that do not meet, and the sentence by which each situation is told to their operator.

Every situation has two network namespaces, joined by a cable, and one peer in each. A test waits for the sentence in the
logs of the peers, and fails where none comes within LIMIT_S. tools/trouble.md lists the situations.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "..", "tools", "chaos")]
import tap  # noqa: E402

import places  # noqa: E402  (it finds its modules by the path that tap has set)

BINARY = os.path.abspath(os.environ.get("GODWIT_BINARY", "build/godwit"))
LIMIT_S = 300
HOSTS = (0, 1)
NAMES = [f"godwit-apart-{os.getpid()}-{host}" for host in HOSTS]
IPV4 = ("10.78.0.1", "10.78.0.2")
IPV6 = ("fd78::1", "fd78::2")
SEEDS = "10.78.0.1:7117,10.78.0.2:7117"


def ip(*words):
    # With a limit: the kernel may make a command wait while namespaces of other tests are taken down.
    subprocess.run(("ip", *words), check=True, timeout=LIMIT_S)


def describe(process):
    """Where each thread of a process waits in the kernel."""
    lines = []
    for task in sorted(os.listdir(f"/proc/{process.pid}/task")):
        place = f"/proc/{process.pid}/task/{task}"
        with contextlib.suppress(OSError), open(f"{place}/comm") as name, open(f"{place}/wchan") as waits:
            lines.append(f"{name.read().strip()}: {waits.read()}")
    return ", ".join(lines)


class Apart(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.peers = []
        self.addCleanup(self.end)
        for name in NAMES:
            ip("netns", "add", name)
            self.addCleanup(places.run, "ip", "netns", "del", name, quiet=True)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", NAMES[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", NAMES[1])
        for host in HOSTS:
            ip("-n", NAMES[host], "addr", "add", f"{IPV4[host]}/24", "dev", "eth0")
            ip("-n", NAMES[host], "-6", "addr", "add", f"{IPV6[host]}/64", "dev", "eth0", "nodad")
            ip("-n", NAMES[host], "link", "set", "eth0", "up")
        self.key = self.make_key("key")

    def make_key(self, name):
        path = os.path.join(self.folder, name)
        subprocess.run((BINARY, "keygen", path), check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
        return path

    def drop(self, host, protocol):
        """Has a host drop what arrives by "udp" or "tcp", as a firewall does that answers nothing."""
        name = NAMES[host]
        for family in ("-4", "-6"):
            ip("-n", name, family, "rule", "add", "pref", "5", "iif", "eth0", "ipproto", protocol, "blackhole")
            ip("-n", name, family, "rule", "add", "pref", "10", "lookup", "local")
            ip("-n", name, family, "rule", "del", "pref", "0")

    def name_hosts(self, host, text):
        """Has the peers on a host find names in this file of hosts."""
        folder = f"/etc/netns/{NAMES[host]}"
        os.makedirs(folder)
        self.addCleanup(subprocess.run, ("rm", "-r", folder))
        with open(os.path.join(folder, "hosts"), "w") as file:
            file.write(text)

    def put_router_between(self, mtu):
        """Replaces the cable by a router whose cables take no larger packets, and which does not tell so; returns the
        hosts' addresses. Its own answers (ICMP) are dropped, as by many firewalls."""
        router = f"{NAMES[0]}-router"
        ip("netns", "add", router)
        self.addCleanup(places.run, "ip", "netns", "del", router, quiet=True)
        ip("-n", router, "link", "set", "lo", "up")
        ip("-n", NAMES[0], "link", "del", "eth0")
        for host, name in enumerate(NAMES):
            ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"eth{host}", "netns", router)
            ip("-n", name, "addr", "add", f"10.78.{host + 1}.1/24", "dev", "eth0")
            ip("-n", router, "addr", "add", f"10.78.{host + 1}.2/24", "dev", f"eth{host}")
            ip("-n", router, "link", "set", f"eth{host}", "up", "mtu", str(mtu))
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "default", "via", f"10.78.{host + 1}.2")
        ip("netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        ip("-n", router, "rule", "add", "pref", "1", "iif", "lo", "ipproto", "icmp", "blackhole")
        return [f"10.78.{host + 1}.1" for host in HOSTS]

    def start(self, host, options, join_timeout="60s", peers=2, within=()):
        log = os.path.join(self.folder, f"log{len(self.peers)}")
        command = (*within, BINARY, *"run synthetic --shard-ms 2 --shards 24 --workers 1".split(), "--peers", str(peers),
                   "--join-timeout", join_timeout, "--dir", os.path.join(self.folder, f"dir{len(self.peers)}"),
                   *options.split())
        with open(log, "w") as file:
            process = subprocess.Popen(("ip", "netns", "exec", NAMES[host], *command), stdout=file, stderr=file)
        self.peers.append((process, log))
        return log

    def start_both(self, options, **more):
        """Starts a peer on each host, with its address in place of HOST and its key."""
        return [self.start(host, options.replace("HOST", IPV4[host]) + f" --key {self.key}", **more) for host in HOSTS]

    def end(self):
        for process, _ in self.peers:
            process.kill()
        for process, log in self.peers:
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.fail(f"a killed peer does not end: {describe(process)}; it said: {self.text(log)}")

    def kill_peer_of(self, host):
        # `ip netns exec` executes the program in its own place, so that its process is the peer's.
        self.peers[host][0].kill()

    def text(self, log):
        with open(log) as file:
            return " ".join(file.read().split())

    def wait(self, log, pattern):
        """Waits until the log, whose lines may be wrapped, has the sentence."""
        return self.wait_any([log], pattern)

    def wait_any(self, logs, pattern):
        """The text of the first of these logs that has the sentence."""
        end = time.monotonic() + LIMIT_S
        while True:
            texts = [self.text(log) for log in logs]
            for text in texts:
                if re.search(pattern, text):
                    return text
            self.assertLess(time.monotonic(), end, f"'{pattern}' does not come: {texts}")
            time.sleep(0.05)

    def test_udp_is_dropped_and_tcp_is_open(self):
        self.drop(1, "udp")
        logs = self.start_both(f"--listen HOST:7117 --join {SEEDS}")
        self.wait(logs[1], r"10\.78\.0\.1:7117 answers by TCP, but no UDP datagram of it arrives: a firewall")

    def test_tcp_is_dropped_and_udp_is_open(self):
        self.drop(1, "tcp")
        logs = self.start_both(f"--listen HOST:7117 --join {SEEDS}")
        for host, log in enumerate(logs):
            self.wait(log, rf"gossip \(UDP\) hears peer \S+ \([0-9a-f]{{8}}\), but no TCP connection to its address "
                           rf"{re.escape(IPV4[1 - host])}:7117 can be made: nothing answers")

    def test_an_advertised_address_leads_nowhere(self):
        first = self.start(0, f"--listen {IPV4[0]}:7117 --join {IPV4[0]}:7117 --key {self.key}")
        self.drop(1, "tcp")  # the other one reaches this one, and no link is made that way either
        self.start(1, f"--listen {IPV4[1]}:7117 --advertise 192.168.5.2:7117 --join {IPV4[0]}:7117 --key {self.key}")
        self.wait(first, r"no TCP connection to its address 192\.168\.5\.2:7117 can be made: Network is unreachable.* "
                         r"--advertise HOST:PORT there names the right one")

    def test_a_cut_cable_is_no_death(self):
        logs = self.start_both(f"--listen HOST:7117 --join {SEEDS}")
        for log in logs:  # both have installed it: a proposal for it is told with the words "view 1", too
            self.wait(log, r"view 1: 2 peers")
        ip("-n", NAMES[0], "link", "set", "eth0", "down")
        for host, log in enumerate(logs):
            self.wait(log, rf"at {re.escape(IPV4[1 - host])}:7117 is unreachable since \d\d:\d\d:\d\d: its process or")
            self.assertNotIn("is dead", self.text(log))

    def test_large_packets_are_lost(self):
        addresses = self.put_router_between(1280)
        logs = [self.start(host, f"--listen {addresses[host]}:7117 --join {addresses[0]}:7117 --key {self.key}")
                for host in HOSTS]
        # By the peer whose packets are lost: which of them sends first is not fixed.
        self.wait_any(logs, r"large packets to peer \S+ \([0-9a-f]{8}\) at 10\.78\.[12]\.1:7117 are lost on the way, and "
                            r"small ones arrive.*'ping -M do -s 1472 10\.78\.[12]\.1'")

    def test_a_killed_process_is_dead(self):
        logs = self.start_both(f"--listen HOST:7117 --join {SEEDS}")
        self.wait(logs[0], r"view 1\b")
        self.kill_peer_of(1)
        self.wait(logs[0], "is dead: its process has ended")

    def test_the_hosts_own_name_is_loopback(self):
        for host in HOSTS:
            other = 1 - host
            self.name_hosts(host, f"127.0.0.1 localhost\n127.0.1.1 node{host}\n{IPV4[other]} node{other}\n")
        logs = [self.start(host, f"--listen node{host}:7117 --join node0:7117,node1:7117 --key {self.key}")
                for host in HOSTS]
        for host, log in enumerate(logs):
            self.wait(log, rf"--listen node{host}:7117 is the loopback address 127\.0\.1\.1:7117: no other host .* "
                           rf"reach the seed {IPV4[1 - host]}:7117 \(a name in /etc/hosts .*--listen {IPV4[host]}:7117")

    def test_without_a_key_another_host_is_not_joined(self):
        log = self.start(0, f"--join {IPV4[1]}:7117")
        self.wait(log, r"10\.78\.0\.2:7117 is another host, and without --key this peer listens on loopback only")
        self.assertNotIn("--cluster differs", self.text(log))

    def test_loopback_is_listened_on_beside_a_name_that_leads_nowhere(self):
        log = self.start(0, f"--listen 127.0.1.1:7117 --join nowhere.invalid:7117 --key {self.key}")
        self.wait(log, r"--listen 127\.0\.1\.1:7117 is the loopback address .* cannot reach the seed nowhere\.invalid:7117")

    def test_one_has_ipv4_and_the_other_ipv6(self):
        first = self.start(0, f"--listen {IPV4[0]}:7117 --join [{IPV6[1]}]:7117 --key {self.key}")
        second = self.start(1, f"--listen [{IPV6[1]}]:7117 --join {IPV4[0]}:7117 --key {self.key}")
        self.wait(first, r"listens on 10\.78\.0\.1:7117, which is IPv4 only, and the seed \[fd78:.*:2\]:7117 is IPv6")
        self.wait(second, r"listens on \[fd78:.*:2\]:7117, which is IPv6 only, and the seed 10\.78\.0\.1:7117 is IPv4")

    def test_with_a_key_and_no_address_all_are_listened_on(self):
        first = self.start(0, f"--join [{IPV6[1]}]:7117 --key {self.key}")
        second = self.start(1, f"--join {IPV4[0]}:7117 --key {self.key}")
        for log in (first, second):
            self.assertNotRegex(self.wait(log, r"view 1\b"), "warning|firewall|loopback")

    def test_the_keys_differ(self):
        other = self.make_key("other")
        log = self.start(0, f"--listen {IPV4[0]}:7117 --join {SEEDS} --key {self.key}")
        self.start(1, f"--listen {IPV4[1]}:7117 --join {SEEDS} --key {other}")
        self.wait(log, r"10\.78\.0\.2:7117 answers, and turns this peer away: .*no cluster key in common")

    def test_two_clusters(self):
        log = self.start(0, f"--listen {IPV4[0]}:7117 --join {SEEDS} --key {self.key} --cluster one")
        self.start(1, f"--listen {IPV4[1]}:7117 --join {SEEDS} --key {self.key} --cluster two")
        self.wait(log, r"10\.78\.0\.2:7117 answers, and turns this peer away: .*another cluster \(--cluster")

    def test_nobody_listens_on_the_port(self):
        log = self.start(0, f"--listen {IPV4[0]}:7117 --join {IPV4[1]}:7118 --key {self.key}")
        self.wait(log, r"host of the seed 10\.78\.0\.2:7118 answers, but nobody listens on that port")

    def test_another_program_listens_on_the_port(self):
        program = "import socket; s = socket.create_server(('10.78.0.2', 7118))\nwhile True: s.accept()[0].send(b'SSH-2.0-x' * 9)"
        server = subprocess.Popen(("ip", "netns", "exec", NAMES[1], sys.executable, "-c", program))
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        log = self.start(0, f"--listen {IPV4[0]}:7117 --join {IPV4[1]}:7118 --key {self.key}")
        self.wait(log, r"10\.78\.0\.2:7118 answers, and turns this peer away: .*does not speak Godwit's protocol")

    def test_nothing_answers(self):
        log = self.start(0, f"--listen {IPV4[0]}:7117 --join 10.78.0.3:7117,10.99.0.1:7117 --key {self.key}")
        self.wait(log, r"10\.99\.0\.1:7117 cannot be reached from this host: Network is unreachable")
        self.wait(log, r"10\.78\.0\.3:7117 (cannot be reached from this host: No route|.*that host is down)")

    def test_all_seeds_are_the_peer_itself(self):
        log = self.start(0, f"--listen {IPV4[0]}:7117 --join {IPV4[0]}:7117 --key {self.key}")
        self.wait(log, r"the seed 10\.78\.0\.1:7117 of --join leads to this very peer")

    def test_an_ordinary_slow_start_is_not_complained_of(self):
        first = self.start(0, f"--listen {IPV4[0]}:7117 --join {SEEDS} --key {self.key}")
        self.wait(first, "nobody listens on that port: the peer there has not been started yet")
        second = self.start(1, f"--listen {IPV4[1]}:7117 --join {SEEDS} --key {self.key}")
        for log in (first, second):
            self.assertNotRegex(self.wait(log, r"view 1\b"), "warning|firewall|turns this peer away")


def missing():
    if os.geteuid() != 0:
        return "namespaces need root"
    name = f"{NAMES[0]}-x"
    if not places.run("ip", "netns", "add", name, quiet=True):
        return "network namespaces cannot be made here"
    rules = places.run("ip", "-n", name, "rule", "add", "pref", "5", "ipproto", "udp", "blackhole", quiet=True)
    places.run("ip", "netns", "del", name, quiet=True)
    return None if rules else "the kernel has no policy routing"


if __name__ == "__main__":
    tap.main(missing, "network namespaces")
