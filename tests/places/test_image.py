"""The image of tools/container/Dockerfile: buildah builds it of this tree, on a Debian that mmdebstrap makes, since nothing is
pulled. It compiles everything, so it runs before a release."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import world

sys.path.insert(0, str(world.HERE.parent / "lab"))
import tap  # noqa: E402

DOCKERFILE = world.TREE / "tools" / "container" / "Dockerfile"
WORK = ("synthetic", "--shards", "8", "--shard-ms", "10", "--workers", "1", "--steps", "60")


def missing():
    for program in ("buildah", "mmdebstrap", "git"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    return world.missing()


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        base = world.debian()
        cls.root = pathlib.Path(cls.enterClassContext(world.tempfile.TemporaryDirectory(prefix="godwit-image-")))
        os.environ["BUILDAH_ISOLATION"] = "chroot"
        container = cls.buildah("from", "scratch").strip()
        cls.buildah("add", container, base, "/")
        cls.buildah("config", "--cmd", "/bin/sh", container)
        cls.buildah("commit", "--rm", container, "localhost/debian")
        context = cls.root / "context"
        context.mkdir()
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=world.TREE, stdout=subprocess.PIPE, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            if (world.TREE / name).exists():
                (context / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(world.TREE / name, context / name)
        cls.commit = world.call("git", "-C", world.TREE, "rev-parse", "HEAD").strip()
        (context / "tools" / "commit.txt").write_text(cls.commit)
        cls.buildah("build-using-dockerfile", "--layers=false", "--tag", "localhost/godwit", "--build-arg",
                    "BASE=localhost/debian", "--file", context / DOCKERFILE.relative_to(world.TREE), context)  # fmt: skip
        cls.image = json.loads(cls.buildah("inspect", "--type", "image", "localhost/godwit"))["OCIv1"]
        cls.base = json.loads(cls.buildah("inspect", "--type", "image", "localhost/debian"))["OCIv1"]
        cls.mounted = cls.root / "image"
        container = cls.buildah("from", "localhost/godwit").strip()
        world.call("cp", "-a", cls.buildah("mount", container).strip(), cls.mounted)  # devices as devices
        cls.buildah("umount", container)
        world.enter()
        cls.key = cls.root / "key"
        world.call(world.BINARY, "keygen", cls.key)

    @classmethod
    def buildah(cls, *words):
        storage = ("--root", cls.root / "storage", "--runroot", cls.root / "run", "--storage-driver", "vfs")
        return world.call("buildah", *storage, *words)  # of vfs no mount stays

    def setUp(self):
        self.pods = []
        self.addCleanup(lambda: [pod.kill() for pod in self.pods])

    def test_it_has_one_layer_above_its_base_and_says_how_it_runs(self):
        layers = self.image["rootfs"]["diff_ids"], self.base["rootfs"]["diff_ids"]
        self.assertEqual(layers[0][:len(layers[1])], layers[1])
        self.assertLessEqual(len(layers[0]) - len(layers[1]), 1)
        config = self.image["config"]
        self.assertEqual((config["User"], config["WorkingDir"]), ("65532:0", "/data"))
        self.assertEqual(config["Entrypoint"], ["/usr/bin/godwit"])
        self.assertEqual(set(config["ExposedPorts"]), {"7117/tcp", "7117/udp", "8080/tcp"})

    def test_it_holds_no_compiler_and_no_source(self):
        for name in ("usr/bin/gcc", "usr/bin/cmake", "src", "made", "usr/bin/git"):
            self.assertFalse((self.mounted / name).exists(), name)
        status = (self.mounted / "data").stat()
        self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o7777), (65532, 0, 0o770))

    def test_its_program_says_its_commit(self):
        shown = world.call("chroot", self.mounted, "/usr/bin/godwit", "--version")
        self.assertIn(f"(commit {self.commit[:12]}", shown)

    def test_its_entry_runs_a_flock_as_process_1_of_pods(self):
        """With an unknown user, as on OpenShift."""
        system = world.System(self.mounted, "/usr/bin/godwit")
        data = world.scratch(self)
        data.chmod(0o755)
        for number in (11, 12):
            folder = data / str(number)
            folder.mkdir()
            shutil.copy(self.key, folder / "key")
            for path in (folder, folder / "key"):
                os.chown(path, 54321, 0)
            command = ("run", *WORK, "--key", "/data/key", "--dir", "/data/peer", "--peers", "2", "--json", "--join",
                       "10.77.0.11:7117,10.77.0.12:7117")  # fmt: skip
            self.pods.append(system.start(number, command, (54321, 0), {"/data": folder}, shm="1m"))
        for pod in self.pods:
            self.assertEqual(pod.end(others=self.pods), 0, pod.shown())
        self.assertEqual(self.pods[0].done()["state"], self.pods[1].done()["state"])


if __name__ == "__main__":
    tap.main(missing, "images")
