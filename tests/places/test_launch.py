"""`godwit launch`: the same command on several hosts. The hosts are network namespaces of this machine with an sshd each
(Debian's openssh-server; as root); where there can be none, a program stands in for ssh in some of the tests."""

import contextlib
import os
import pwd
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

import hosts
import world
from hosts import CLEAN, run

sys.path.insert(0, str(world.HERE.parent / "lab"))
import tap  # noqa: E402

BINARY = str(world.BINARY)
LIMIT_S = 300
JOB = ("run", "synthetic", "--shards", "16", "--shard-ms", "2", "--state-bytes", "64k")
STATE = r"godwit: done .* state=([0-9a-f]{64})"


def processes():
    """Numbers and words of the processes of this machine."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as file:
            yield int(number), file.read().split(b"\0")


class Launch:
    """A launcher that runs; both of its outputs are one here."""

    def __init__(self, case, command, stdin=subprocess.DEVNULL, **more):
        self.process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**CLEAN, **more}, start_new_session=True,
        )  # fmt: skip
        self.output = ""
        case.addCleanup(self.process.stdout.close)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)

    def says(self, pattern, times=1):
        """Reads on until so many of all lines have that pattern."""
        while len(re.findall(pattern, self.output, re.MULTILINE)) < times:
            ready = select.select([self.process.stdout], [], [], LIMIT_S)[0]
            text = os.read(self.process.stdout.fileno(), 65536).decode() if ready else ""
            if not text:
                raise AssertionError(f"no {pattern} in {self.output}")
            self.output += text
        return re.search(pattern, self.output, re.MULTILINE)

    def ends(self):
        """Waits for the end; returns the exit code."""
        self.output += self.process.communicate(timeout=LIMIT_S)[0].decode()
        return self.process.returncode


class StandIn(unittest.TestCase):
    """A program in the place of ssh gives the command to a shell, as sshd does, with a home directory for each host."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.ssh = f"{self.folder}/ssh"
        with open(self.ssh, "w") as file:
            file.write(
                f'#!/bin/sh\nhost=$1; shift\n[ "$host" = down ] && {{ echo "no route to $host" >&2; exit 255; }}\n'
                f"HOME={self.folder}/$host; export HOME; mkdir -p $HOME && cd $HOME && echo Welcome to $host && "
                'exec sh -c "$*"\n'
            )
        os.chmod(self.ssh, 0o700)

    def launch(self, hosts, *options, job=JOB, program=BINARY, **more):
        where = ("--program", program) if program else ()
        return Launch(self, [BINARY, "launch", "--hosts", hosts, "--ssh", self.ssh, *where, *options, "--", *job], **more)

    def test_peers_of_one_host_meet_and_their_lines_are_one_log(self):
        job = (*JOB, "--steps", "30", "--dir", "it's \"{n}\" $(touch oops) \\ of {host}")
        launch = self.launch("localhost,localhost", "--port", "17117", job=job)
        self.assertEqual(launch.ends(), 0, launch.output)
        self.assertEqual(len(set(re.findall(STATE, launch.output))), 1, launch.output)
        for n in (0, 1):
            self.assertRegex(launch.output, rf"(?m)^localhost\.{n} \| godwit: done .* peers=2 ")
            self.assertRegex(launch.output, rf"(?m)^localhost\.{n} \| Welcome to localhost$")
            self.assertRegex(launch.output, rf"listening on 127\.0\.0\.1:{17117 + n}\n")
            self.assertTrue(os.path.exists(f'{self.folder}/localhost/it\'s "{n}" $(touch oops) \\ of localhost/identity'))
        self.assertNotIn("\033", launch.output)  # this is no terminal
        self.assertNotIn("\001", launch.output)
        self.assertFalse(os.path.exists(f"{self.folder}/localhost/oops"))

    def test_one_signal_has_the_peers_leave(self):
        launch = self.launch("localhost,localhost", "--port", "17127", job=(*JOB, "--dir", "d{n}"))
        launch.says(r"step [1-9]", 2)
        launch.process.send_signal(signal.SIGINT)
        launch.says(r"launch +\| Interrupt: the peers are asked to leave")
        self.assertEqual(launch.ends(), 0, launch.output)
        self.assertEqual(len(re.findall(r"godwit: left ", launch.output)), 2)
        self.assertRegex(launch.output, r"godwit: left .* saved=[1-9]")

    def test_a_second_signal_ends_the_peers_at_once(self):
        launch = self.launch("localhost", "--port", "17147", job=(*JOB, "--dir", f"{self.folder}/d"))
        launch.says(r"step [1-9]")
        peer = [number for number, words in processes() if words[0] == b"godwit" and f"{self.folder}/d".encode() in words]
        os.kill(peer[0], signal.SIGSTOP)  # it hears of nothing
        launch.process.send_signal(signal.SIGINT)
        launch.says(r"launch +\| Interrupt: the peers are asked to leave")
        while launch.process.poll() is None:  # those of the first half second are the first one's echo
            launch.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                launch.process.wait(0.05)
        self.assertEqual(launch.ends(), 130, launch.output)
        self.assertIn("localhost: signal 9 has ended the command", launch.output)

    def test_a_host_that_is_missing_ends_the_others_before_they_wait_for_ever(self):
        launch = self.launch("localhost,down=127.0.0.1", job=(*JOB, "--dir", "d"))
        self.assertEqual(launch.ends(), 1, launch.output)
        self.assertRegex(launch.output, r"(?m)^down +\| no route to down$")
        self.assertIn("down: the command could not be started (ssh failed)", launch.output)
        self.assertIn("without down the other hosts would wait for ever for 2 peers", launch.output)
        # Where fewer peers are enough, they compute.
        launch = self.launch("localhost,down=127.0.0.1", "--port", "17137", job=(*JOB, "--steps", "5", "--dir", "e", "--peers", "1",
                             "--join-timeout", "1s"))  # fmt: skip
        self.assertEqual(launch.ends(), 1, launch.output)
        self.assertRegex(launch.output, r"(?m)^localhost +\| godwit: done")

    def test_what_is_wrong_there_is_said_with_what_to_do(self):
        launch = self.launch("localhost", program="/no such/godwit")
        self.assertEqual(launch.ends(), 1, launch.output)
        self.assertIn("there is no such program there (--program PATH names it, --copy copies this one)", launch.output)
        launch = self.launch("localhost", job=("run", "synthetic", "--stepz", "3"))
        self.assertEqual(launch.ends(), 2, launch.output)
        self.assertIn("localhost: the command has ended with exit code 2", launch.output)
        launch = self.launch("localhost", "--chdir", "nowhere")
        self.assertEqual(launch.ends(), 1, launch.output)
        self.assertIn("--chdir nowhere", launch.output)
        # Another program at the other end says something else.
        launch = self.launch("localhost", program="/bin/echo")
        self.assertEqual(launch.ends(), 1, launch.output)
        self.assertRegex(launch.output, r"(?m)^localhost \| launch --remote-end$")

    def test_the_command_line_is_refused_before_anything_is_started(self):
        cases = (
            (["--hosts", "a,b", "--", *JOB], "without a key peers listen on loopback only"),
            (["--hosts", "localhost,localhost", "--", *JOB], "a host is named twice"),
            (["--hosts", "-oX", "--", *JOB], "a host begins with no dash"),
            (["--", *JOB], "name the hosts by --hosts or --hosts-file"),
            (["--hosts", "a"], "give the command behind --"),
            (["--hosts", "a", "--", "--help"], "'--help' is no command"),
            (["--hosts", "a", "run"], "the command follows --"),
            (["--hosts", "a", "--", "run"], "give the job behind run"),
            (["--hosts", "a", "--copy", "--program", "x", "--", *JOB], "--copy and --program exclude each other"),
            (["--hosts", "a", "--key", f"{self.folder}/none", "--", *JOB], "--key: "),
            (["--hosts", "localhost", "--ssh", " ", "--", *JOB], "--ssh: the command is empty"),
        )
        for words, text in cases:
            launch = Launch(self, [BINARY, "launch", *words])
            self.assertEqual(launch.ends(), 2, launch.output)
            self.assertIn(text, " ".join(launch.output.split()))

    def test_a_peer_leaves_after_a_long_silence_of_its_launcher(self):
        """The connection stands, as TCP has it for hours after a cable was cut."""
        words = [*JOB, "--dir", f"{self.folder}/d", "--listen", "127.0.0.1:0"]
        texts = b"".join(struct.pack("<H", len(word)) + word.encode() for word in ("", "", ""))
        body = b"\0" + struct.pack("<H", 1) + texts + struct.pack("<I", len(words))
        body += b"".join(struct.pack("<H", len(word)) + word.encode() for word in words)
        remote = Launch(self, [BINARY, "launch", "--remote-end"], stdin=subprocess.PIPE)
        self.addCleanup(remote.process.stdin.close)
        remote.process.stdin.write(b"gwl\x01" + struct.pack("<I", len(body)) + body)
        remote.process.stdin.flush()
        remote.says(r"godwit: left ")
        self.assertEqual(remote.process.wait(LIMIT_S), 0, remote.output)
        self.assertIn("\001godwit-launch 1 ", remote.output)

    def test_names_have_colours_on_a_terminal_alone(self):
        for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
            ours, theirs = os.openpty()
            command = [BINARY, "launch", "--hosts", "localhost", "--ssh", self.ssh, "--program", BINARY, "--", "version"]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=theirs, env={**CLEAN, **more}, check=False, timeout=LIMIT_S)
            os.close(theirs)
            with open(ours, "rb", buffering=0) as terminal:
                text = terminal.read(4096).decode()
            self.assertEqual(done.returncode, 0)
            self.assertEqual("\033[36mlocalhost |\033[0m godwit " in text, coloured, text)

    def test_a_dry_run_prints_what_a_shell_would_run(self):
        text = run(BINARY, "launch", "--hosts", "n[1-2]", "--dry-run", "--", "run", "digits", "--key", "k", "--dir", "a b{n}")
        join = "--join n1:7117,n2:7117 --peers 2"
        self.assertEqual(
            text,
            f"n1: godwit run digits {join} --name n1 --key k --dir 'a b0'\n"
            f"n2: godwit run digits {join} --name n2 --key k --dir 'a b1'\n",
        )
        text = run(BINARY, "launch", "--hosts", "u@n1,n2=fd00::2", "--port", "9", "--dry-run", "--", "stop", "--dir", "{host}")
        self.assertEqual(text, "u@n1: godwit stop --dir n1\nn2: godwit stop --dir n2\n")

    def test_what_is_no_request_is_refused_by_the_other_end(self):
        for bytes_, text in (
            (b"GET / HTTP/1.1\r\n\r\n", "no request of godwit launch"),
            (b"gwl\x02\0\0\0\0", "speaks version 2"),
            (b"gwl\x01\x04\0\0\0abcd", "is damaged"),
            (b"gwl\x01\x04\0\0\0a", "has ended before the request"),
            (b"", "has ended before the request"),
        ):
            done = subprocess.run([BINARY, "launch", "--remote-end"], input=bytes_, capture_output=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, " ".join(done.stderr.decode().split()))
            self.assertEqual(done.stdout, b"")


class Servers(hosts.Hosts):
    """Three hosts with an sshd each, and a home directory of root's that is their own; so has this one."""

    def __init__(self):
        super().__init__("host", 3, "10.78.0", "here")

    def within(self, host, *command, shell="true"):
        home = pwd.getpwuid(0).pw_dir
        own = f"mount --bind {self.folder}/home{host} {home} && cd {home} && {shell}"
        return super().within(host, *command, shell=own)

    def open(self):
        at = self.folder
        self.enter()
        for name in ("server", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at / name)
        shutil.copy(at / "user.pub", at / "authorized")
        (at / "sshd_config").write_text(
            f"HostKey {at}/server\nAuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\nPidFile none\n"
            "PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 100\nLogLevel INFO\n"
        )
        os.makedirs("/run/sshd", exist_ok=True)
        for i in range(self.count + 1):
            (at / f"home{i}").mkdir(mode=0o700)
        for i in range(1, self.count + 1):
            server = self.start(
                i, shutil.which("sshd"), "-D", "-e", "-f", at / "sshd_config", stderr=subprocess.PIPE, text=True, env=CLEAN
            )
            for line in server.stderr:
                if "Server listening" in line:
                    break
        run(BINARY, "keygen", at / "cluster.key")
        self.ssh = (
            f"ssh -F none -T -i {at}/user -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
            "-o LogLevel=ERROR"
        )

    def peers(self, host):
        """Numbers of the processes of a host that are peers."""
        here = self.processes(host)
        return [number for number, words in processes() if number in here and words[0] == b"godwit"]

    def close(self):
        pipes = [process.stderr for process in self.first.values()]
        super().close()
        for pipe in pipes:
            pipe.close()


class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = hosts.missing("sshd", "ssh", "ssh-keygen")
        if reason:
            raise unittest.SkipTest(f"{reason} (Debian: openssh-server, openssh-client)")
        cls.hosts = Servers()
        cls.addClassCleanup(cls.hosts.close)
        cls.hosts.open()

    def launch(self, *options, job=JOB):
        at = self.hosts.folder
        command = (BINARY, "launch", "--hosts", "host[1-3]", "--ssh", self.hosts.ssh, "--key", f"{at}/cluster.key", *options)
        return Launch(self, self.hosts.within(0, *command, "--", *job))

    def wait_for_end_of(self, processes):
        for number in processes:
            try:
                end = os.pidfd_open(number)
            except ProcessLookupError:
                continue
            self.assertTrue(select.select([end], [], [], LIMIT_S)[0], f"process {number} goes on")
            os.close(end)

    def peers(self):
        found = [number for host in range(1, 4) for number in self.hosts.peers(host)]
        self.addCleanup(self.end, found)
        return found

    def end(self, processes):
        for number in processes:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_program_and_key_are_copied_and_the_flock_computes(self):
        folder = 'a "b" \'c\' $(touch oops) \\ {host}'
        launch = self.launch("--copy", job=(*JOB, "--steps", "60", "--dir", folder))
        self.assertEqual(launch.ends(), 0, launch.output)
        states = re.findall(STATE, launch.output)
        self.assertEqual(len(states), 3, launch.output)
        alone = run(BINARY, *JOB, "--steps", "60", "--dir", f"{self.hosts.folder}/alone", "--listen", "127.0.0.1:0", env=CLEAN)
        self.assertEqual(set(states), {re.search(STATE, alone)[1]})
        for host in (1, 2, 3):
            home = f"{self.hosts.folder}/home{host}"
            self.assertRegex(launch.output, rf"(?m)^host{host}  \| godwit: done .* peers=3 ")
            self.assertRegex(launch.output, rf"others reach this peer at 10\.78\.0\.{host}:7117")
            self.assertEqual(os.stat(f"{home}/.godwit/cluster.key").st_mode & 0o777, 0o600)
            self.assertTrue(os.path.exists(f"{home}/{folder.replace('{host}', f'host{host}')}/identity"))
            self.assertFalse(os.path.exists(f"{home}/oops"))
            self.assertEqual(sorted(os.listdir(f"{home}/.godwit"))[0], "cluster.key")
            self.assertEqual(len(os.listdir(f"{home}/.godwit")), 2)  # the key and the program
        # The copy is there now, and another command finds it.
        launch = Launch(self, self.hosts.within(
            0, BINARY, "launch", "--hosts", "host2", "--ssh", self.hosts.ssh, "--copy", "--", "inspect", folder.replace("{host}", "host2")))
        self.assertEqual(launch.ends(), 0, launch.output)
        self.assertRegex(launch.output, r"(?m)^host2  \| .*60")

    def test_ctrl_c_has_all_peers_leave_with_a_checkpoint(self):
        launch = self.launch("--program", BINARY, job=(*JOB, "--dir", "c"))
        launch.says(r"step [1-9]", 3)
        launch.process.send_signal(signal.SIGINT)
        self.assertEqual(launch.ends(), 0, launch.output)
        self.assertEqual(len(re.findall(r"godwit: left ", launch.output)), 3, launch.output)
        self.assertRegex(launch.output, r"godwit: left .* saved=[1-9]")
        self.assertEqual(self.peers(), [])

    def test_a_lost_connection_and_a_dead_peer_cost_themselves_and_not_the_job(self):
        launch = self.launch("--program", BINARY, job=(*JOB, "--shard-ms", "8", "--steps", "80", "--dir", "l"))
        launch.says(r"step [1-9]", 3)
        gone = self.hosts.peers(2)
        self.assertEqual(len(gone), 1)
        for number, words in processes():
            if words[0] == b"ssh" and b"host2" in words:
                os.kill(number, signal.SIGKILL)
        launch.says(r"host2: the connection is lost; the command there is asked to leave")
        self.wait_for_end_of(gone)
        launch.says(r"^host[13]  \| .*peer host2 .* has left")
        os.kill(self.hosts.peers(3)[0], signal.SIGKILL)
        launch.says(r"host3: signal 9 has ended the command")
        self.assertEqual(launch.ends(), 0, launch.output)
        self.assertRegex(launch.output, r"(?m)^host1  \| godwit: done .* peers=1 ")

    def test_peers_leave_when_the_launcher_dies(self):
        launch = self.launch("--program", BINARY, job=(*JOB, "--dir", "k"))
        launch.says(r"step [1-9]", 3)
        peers = self.peers()
        self.assertEqual(len(peers), 3)
        launch.process.kill()
        self.wait_for_end_of(peers)
        launch = self.launch("--program", BINARY, job=(*JOB, "--dir", "k"))
        launch.says(r"resumed from the checkpoint of step [1-9]")
        launch.process.send_signal(signal.SIGTERM)
        self.assertEqual(launch.ends(), 0, launch.output)

    def test_detached_peers_go_on_when_the_terminal_is_closed(self):
        launch = self.launch("--program", BINARY, "--detach", job=(*JOB, "--shard-ms", "8", "--steps", "80", "--dir", "t"))
        launch.says(r"step [1-9]", 3)
        peers = self.peers()
        self.assertEqual(len(peers), 3)
        launch.process.send_signal(signal.SIGHUP)
        self.assertEqual(launch.ends(), 0, launch.output)
        self.assertEqual(len(self.hosts.peers(1)), 1)
        self.wait_for_end_of(peers)
        launch = self.launch("--program", BINARY, job=(*JOB, "--shard-ms", "8", "--steps", "80", "--dir", "t"))
        self.assertEqual(launch.ends(), 0, launch.output)
        self.assertEqual(len(re.findall(r"the job had come to its end before, at step 80", launch.output)), 3)


if __name__ == "__main__":
    tap.main(lambda: None, "launch")
