"""The packages of ./build.sh package: what is in them, what lintian says, and what they do on clean systems. The Debian
package is tried on a Debian 12, under its own systemd, the tar ball on a Debian 11. It builds both twice and fetches
Debian's packages, so it runs before a release.

GODWIT_TEST_PACKAGE names a folder with packages that are tested instead of new ones.
"""

import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lab"))
import tap  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GODWIT_BUILD", TREE / "build"))
LIMIT_S = 1700
GLIBC = (2, 31)
DIGITS = ("run", "digits", "--epochs", "3", "--listen", "127.0.0.1:0", "--quiet", "--dir")


def missing():
    if os.geteuid() != 0:
        return "clean systems are made by root"
    lacks = [name for name in ("mmdebstrap", "dpkg-deb", "objdump", "unshare") if shutil.which(name) is None]
    return f"no {lacks[0]} here" if lacks else None


def output(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=LIMIT_S, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@functools.cache
def packages():
    """The Debian package and the tar ball of this tree."""
    folder = pathlib.Path(os.environ.get("GODWIT_TEST_PACKAGE", TREE / "dist"))
    if "GODWIT_TEST_PACKAGE" not in os.environ:
        output("./build.sh", "package", cwd=TREE)
    (debian,) = folder.glob("godwit_*.deb")
    (ball,) = folder.glob("godwit-*-linux-*.tar.xz")
    return debian, ball


def make_root(suite, folder, *include):
    """A clean Debian in a folder; no test of it where its packages cannot be had."""
    mirror = os.environ.get("MIRROR", "http://deb.debian.org/debian")
    try:
        urllib.request.urlopen(f"{mirror}/dists/{suite}/Release", timeout=60).close()
    except OSError as error:
        raise unittest.SkipTest(f"no packages of {suite} at {mirror}: {error}") from error
    output("mmdebstrap", "--quiet", "--variant=minbase", *(f"--include={name}" for name in include), suite, folder,
           f"deb {mirror} {suite} main")  # fmt: skip


def in_root(root, *command, user="root"):
    """The output of a command in a root folder, with /proc."""
    script = 'mount -t proc proc "$0/proc" && exec chroot --userspec="$1" "$0" "${@:2}"'
    return output("unshare", "--mount", "--propagation", "private", "bash", "-c", script, root, user, *command,
                  env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})  # fmt: skip


def digits_here():
    """The last line of a job that the program of this tree runs."""
    with tempfile.TemporaryDirectory() as folder:
        return output(BUILD / "godwit", *DIGITS, f"{folder}/a")


class Debian(unittest.TestCase):
    def test_it_has_everything_that_is_installed_and_what_policy_asks_for(self):
        debian, _ = packages()
        names = set(re.findall(r" \./(\S*)", output("dpkg-deb", "--contents", debian)))
        for name in ("usr/bin/godwit", "etc/godwit/example.conf", "usr/include/godwit/core/godwit.h",
                     "usr/lib/systemd/system/godwit@.service", "usr/lib/systemd/system/godwit-scrub@.timer",
                     "usr/lib/sysusers.d/godwit.conf", "usr/lib/tmpfiles.d/godwit.conf",
                     "usr/share/zsh/vendor-completions/_godwit", "usr/share/doc/godwit/copyright",
                     "usr/share/doc/godwit/changelog.gz"):  # fmt: skip
            self.assertIn(name, names)
        for page in (TREE / "tools" / "man").glob("*.[17]"):
            self.assertIn(f"usr/share/man/man{page.suffix[1:]}/{page.name}.gz", names)
        fields = output("dpkg-deb", "--field", debian)
        self.assertRegex(fields, r"(?m)^Depends:.*\blibopenblas0-serial\b.*\blibc6 \(>=")
        self.assertEqual(output("dpkg-deb", "--info", debian, "conffiles").split(), ["/etc/godwit/example.conf"])

    def test_lintian_has_nothing_to_say(self):
        if shutil.which("lintian") is None:
            self.skipTest("no lintian here")
        debian, _ = packages()
        said = output("lintian", "--allow-root", "--info", "-EvIL", "+pedantic", "--fail-on", "error,warning", debian)
        self.assertFalse(re.findall("^[EWIPX]: .*", said, re.MULTILINE), said)

    def test_it_is_the_same_each_time(self):
        if os.environ.get("GODWIT_TEST_PACKAGE"):
            self.skipTest("GODWIT_TEST_PACKAGE names packages that are there")
        before = [path.read_bytes() for path in packages()]
        output("./build.sh", "package", cwd=TREE)
        for path, bytes_before in zip(packages(), before, strict=True):
            self.assertTrue(path.read_bytes() == bytes_before, path)


class OnDebian12(unittest.TestCase):
    """A clean Debian 12 with what the package depends on."""

    @classmethod
    def setUpClass(cls):
        cls.debian, _ = packages()
        depends = re.sub(r"\([^)]*\)", "", output("dpkg-deb", "--field", cls.debian, "Depends"))
        include = [one.partition("|")[0].strip() for one in depends.split(",")]
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(dir="/var/tmp")))
        make_root("bookworm", cls.root, *include, "systemd-sysv", "iproute2", "dbus")
        shutil.copy(cls.debian, cls.root / "godwit.deb")

    def inside(self, *command, **more):
        return in_root(self.root, *command, **more)

    def test_1_it_installs_runs_goes_and_comes_back(self):
        self.inside("dpkg", "--install", "/godwit.deb")
        self.assertRegex(self.inside("getent", "passwd", "godwit"), ":/var/lib/godwit:/usr/sbin/nologin$")
        self.assertEqual(self.inside("dpkg", "--verify", "godwit"), "")
        self.inside("systemd-analyze", "verify", "--man=no", "godwit@a.service", "godwit-scrub@a.timer")
        self.assertEqual(self.inside("godwit", *DIGITS, "/tmp/a", user="godwit"), digits_here())
        listed = [self.root / path[1:] for path in self.inside("dpkg", "--listfiles", "godwit").split()]
        files = [path for path in listed if not path.is_dir()]
        self.inside("dpkg", "--remove", "godwit")
        self.assertEqual([path for path in files if path.exists()], [self.root / "etc/godwit/example.conf"])
        self.inside("dpkg", "--purge", "godwit")
        self.assertFalse((self.root / "etc" / "godwit").exists())
        self.inside("dpkg", "--install", "/godwit.deb")  # where its user is there already
        self.assertRegex(self.inside("godwit", "--version"), r"^godwit \S+ \(commit ")

    def test_2_its_peers_run_under_systemd(self):
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        groups = [place for _, place, kind, *_ in mounts if kind == "cgroup2"]
        if not groups:
            self.skipTest("no cgroup2 here")
        self.inside("dpkg", "--install", "/godwit.deb")
        group = pathlib.Path(groups[0], f"godwit-test-{os.getpid()}")
        with open(self.root / "boot.log", "wb") as log:
            boot = subprocess.Popen([HERE / "boot.sh", self.root, group], stdout=log, stderr=log)
        self.addCleanup(self.end, boot, group)
        self.wait(lambda: self.child(boot) and self.systemctl(boot, "is-system-running")[1] in ("running", "degraded"),
                  "a boot")  # fmt: skip
        self.configure("a", "--shards 4 --shard-ms 5 --peers 2 --key /etc/godwit/a.key --listen 127.0.0.1:7117")
        self.configure("b", "--shards 4 --shard-ms 5 --peers 2 --key /etc/godwit/a.key --listen 127.0.0.1:7118 "
                            "--join 127.0.0.1:7117")  # fmt: skip
        self.inside("godwit", "keygen", "/etc/godwit/a.key")
        self.inside("chgrp", "godwit", "/etc/godwit/a.key")
        (self.root / "etc/godwit/a.key").chmod(0o440)
        # It is ready while it waits for the other.
        self.assertEqual(self.systemctl(boot, "start", "godwit@a"), (0, ""))
        self.wait(lambda: "waiting for 2 peers" in self.property(boot, "a", "StatusText"), "that it waits")
        self.assertEqual(self.systemctl(boot, "start", "godwit@b"), (0, ""))
        self.wait(lambda: re.match("step [1-9]", self.property(boot, "a", "StatusText")), "steps")
        self.assertIn("godwit-scrub@a.timer", self.systemctl(boot, "list-units", "--type=timer", "--plain")[1])
        # They reach each other by shared memory, in spite of the sandbox.
        self.wait(lambda: " shm " in self.enter(boot, "godwit", "status", "--dir", "/var/lib/godwit/a")[1], "shared memory")
        # A peer that is killed is started again, and takes part.
        self.systemctl(boot, "kill", "--signal=KILL", "--kill-whom=main", "godwit@a")
        self.wait(lambda: self.property(boot, "a", "NRestarts") == "1", "a restart")
        self.wait(lambda: re.match("step [1-9].* 2 peers", self.property(boot, "a", "StatusText")), "steps of both")
        # A stop leaves a checkpoint and is a success; the newest checkpoint is sound until the disk damages it.
        self.assertEqual(self.systemctl(boot, "stop", "godwit@b"), (0, ""))
        self.assertEqual([self.property(boot, "b", key) for key in ("ActiveState", "Result")], ["inactive", "success"])
        self.assertEqual(self.systemctl(boot, "start", "godwit-scrub@b")[0], 0)
        for chunk in (self.root / "var/lib/godwit/b/chunks").rglob("*"):
            if chunk.is_file():
                with open(chunk, "r+b") as file:
                    file.seek(10)
                    file.write(b"damaged")
        self.assertEqual(self.systemctl(boot, "start", "godwit-scrub@b")[0], 1)
        # A wrong command line is not tried again.
        self.configure("c", "--no-such-option")
        self.assertNotEqual(self.systemctl(boot, "start", "godwit@c")[0], 0)
        self.assertEqual([self.property(boot, "c", key) for key in ("ActiveState", "NRestarts")], ["failed", "0"])
        # The peers of a package that goes leave in order.
        code, said = self.enter(boot, "dpkg", "--remove", "godwit")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.property(boot, "a", "ActiveState"), "inactive")
        self.assertTrue(list((self.root / "var/lib/godwit/a/manifests").iterdir()))

    def configure(self, name, options):
        (self.root / "etc/godwit" / f"{name}.conf").write_text(f'JOB=synthetic\nOPTIONS="--workers 1 {options}"\n')

    def wait(self, is_so, what):
        """What takes longer than this does not come."""
        until = time.monotonic() + 120
        while not is_so():
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.05)

    def child(self, boot):
        """The process number of systemd; 0 before it is there."""
        children = pathlib.Path(f"/proc/{boot.pid}/task/{boot.pid}/children").read_text().split()
        for child in children:
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        return 0

    def enter(self, boot, *command):
        """(exit code, what it printed) of a command beside systemd."""
        into = ("nsenter", "--target", str(self.child(boot)), "--all", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
        done = subprocess.run((*into, *command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=120)  # fmt: skip
        return done.returncode, done.stdout.strip()

    def systemctl(self, boot, *words):
        return self.enter(boot, "systemctl", "--no-pager", *words)

    def property(self, boot, name, key):
        return self.systemctl(boot, "show", "--property", key, "--value", f"godwit@{name}")[1]

    def end(self, boot, group):
        init = self.child(boot) if boot.poll() is None else 0
        if init:
            os.kill(init, signal.SIGKILL)  # and all that it has started
        else:
            boot.kill()
        boot.wait()
        folders = [folder for folder, _, _ in os.walk(group, topdown=False)]
        for folder in folders:
            os.rmdir(folder)


class OnDebian11(unittest.TestCase):
    """The tar ball on a clean system of another time."""

    @classmethod
    def setUpClass(cls):
        _, cls.ball = packages()
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(dir="/var/tmp")))

    def test_all_that_it_needs_is_in_it_or_as_old_as_its_name_says(self):
        with tarfile.open(self.ball) as ball:
            ball.extractall(self.root, filter="data")
        (folder,) = self.root.glob("godwit-*")
        for name in ("bin/godwit", "lib/systemd/system/godwit@.service", "include/godwit/core/godwit.h",
                     "share/man/man1/godwit-run.1", "share/doc/godwit/LICENSE"):  # fmt: skip
            self.assertTrue((folder / name).is_file(), name)
        libraries = sorted((folder / "lib" / "godwit").iterdir())
        self.assertTrue(any(path.name.startswith("libopenblas") for path in libraries))
        self.assertEqual(len(list((folder / "share/doc/godwit/licenses").iterdir())), len(libraries))
        for path in (folder / "bin" / "godwit", *libraries):
            for version in re.findall(r"GLIBC_(\d+)\.(\d+)", output("objdump", "-T", path)):
                self.assertLessEqual(tuple(map(int, version)), GLIBC, path)
            self.assertFalse(str(TREE).encode() in path.read_bytes(), f"{path} names this tree")

    def test_it_runs_there_and_computes_the_same_bytes(self):
        make_root("bullseye", self.root / "debian")
        with tarfile.open(self.ball) as ball:
            ball.extractall(self.root / "debian" / "opt", filter="data")
        (folder,) = (self.root / "debian" / "opt").glob("godwit-*")
        os.symlink(f"/opt/{folder.name}/bin/godwit", self.root / "debian" / "usr" / "local" / "bin" / "godwit")
        script = "for file in /opt/*/lib/godwit/* /opt/*/bin/godwit; do ldd -r $file || exit; done 2>&1"
        said = in_root(self.root / "debian", "sh", "-c", script)
        self.assertFalse(re.findall(".*(?:not found|undefined).*", said), said)
        self.assertEqual(in_root(self.root / "debian", "godwit", *DIGITS, "/root/a"), digits_here())


if __name__ == "__main__":
    tap.main(missing, "godwit")
