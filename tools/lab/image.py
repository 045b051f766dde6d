"""What the lab's machines boot: Debian's own kernel with its modules, and an initramfs around init.sh.

Both are made once and kept in a cache (GODWIT_LAB_CACHE, by default godwit/lab in XDG_CACHE_HOME or ~/.cache):
the kernel's package is downloaded and unpacked, never installed, and no network is needed afterwards.

usage: image.py    makes what is missing
"""

import contextlib
import fcntl
import glob
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

META_PACKAGE = "linux-image-amd64"
# crc32_generic: without it no RDMA link can be added, and the message does not say why.
MODULES = "crc32_generic virtio_pci virtio_net virtio_console 9pnet_virtio 9p overlay ib_uverbs rdma_ucm rdma_rxe"
# What tools/chaos takes; the kernel asks for it (modprobe.sh), so that no other machine has it.
ON_DEMAND = "veth bridge nft_numgen sch_tbf sch_netem"
HERE = os.path.dirname(os.path.abspath(__file__))
INIT = os.path.join(HERE, "init.sh")
MODPROBE = os.path.join(HERE, "modprobe.sh")
BUSYBOX = "/bin/busybox"
UNUSED_S = 7 * 24 * 3600  # the age at which an initramfs of another source tree is removed
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "cpio": "cpio",
    "modprobe": "kmod",
    "depmod": "kmod",
    "ip": "iproute2",
    "rdma": "iproute2",
    "unshare": "util-linux",
    "ibv_rc_pingpong": "ibverbs-utils",
    "rping": "rdmacm-utils",
    "ib_write_bw": "perftest",
}
FILES = {
    BUSYBOX: "busybox-static",
    "/etc/libibverbs.d/rxe.driver": "ibverbs-providers",
}


class Missing(Exception):
    """This machine cannot have a lab; the text says why, and what to do."""


def find_tool(name):
    """The path of a program; sbin counts, though it is not in every user's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def check_tools():
    packages = {package for tool, package in TOOLS.items() if not find_tool(tool)}
    packages |= {package for file, package in FILES.items() if not os.path.exists(file)}
    if packages:
        raise Missing("programs are missing: apt-get install --no-install-recommends " + " ".join(sorted(packages)))
    if os.uname().machine != "x86_64":
        raise Missing(f"its machines are x86-64, and this is {os.uname().machine}")


def cache_folder():
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("GODWIT_LAB_CACHE") or os.path.join(caches, "godwit", "lab")


@contextlib.contextmanager
def locked(folder):
    """Takes a lock, so that two labs that start at once make one image."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def output(*command, **options):
    """Returns what a command printed; Missing with the end of its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def kernel_package():
    """The meta package is empty; the kernel is in the package that it depends on."""
    depends = output("apt-cache", "depends", META_PACKAGE) if find_tool("apt-cache") else ""
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if not found:
        raise Missing(f"apt knows no {META_PACKAGE} (its kernel has Soft-RoCE): try apt-get update")
    return found.group(1)


def uncompressed(kernel):
    """The ELF inside a bzImage: QEMU starts it directly, which saves emulating two seconds of decompression."""
    start = kernel.find(b"\xfd7zXZ\0")
    if start < 0:
        return kernel
    return lzma.LZMADecompressor().decompress(kernel[start:])


def unpack_kernel(package, folder):
    """Fills folder with vmlinux, the modules, and the lists `order` and `more` (of ON_DEMAND): their file names, each
    after those it needs."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as work:
        output("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package, cwd=work)
        (archive,) = glob.glob(os.path.join(work, "*.deb"))
        tree = os.path.join(work, "tree")
        output("dpkg-deb", "--extract", archive, tree)
        (image,) = glob.glob(os.path.join(tree, "boot", "vmlinuz-*"))
        version = os.path.basename(image).removeprefix("vmlinuz-")
        output(find_tool("depmod"), "-b", tree, version)
        made = os.path.join(work, "made")
        os.mkdir(made)
        with open(image, "rb") as file, open(os.path.join(made, "vmlinux"), "wb") as plain:
            plain.write(uncompressed(file.read()))
        known = {}
        for name, modules in (("order", MODULES), ("more", ON_DEMAND)):
            listed = {}
            for module in modules.split():
                needs = output(find_tool("modprobe"), "-d", tree, "-S", version, "--show-depends", module)
                paths = [line.split()[1] for line in needs.splitlines() if line.startswith("insmod")]
                listed.update((path, None) for path in paths if path not in known)
            known.update(listed)
            with open(os.path.join(made, name), "w") as file:
                file.writelines(os.path.basename(path) + "\n" for path in listed)
        for path in known:
            shutil.copy(path, made)
        os.rename(made, folder)


def kernel_folder():
    """A cached kernel that has all of the modules, or a new one."""
    tag = hashlib.sha256(f"{MODULES}, {ON_DEMAND}".encode()).hexdigest()[:8]
    cached = sorted(glob.glob(os.path.join(cache_folder(), f"linux-image-*-{tag}")), key=os.path.getmtime)
    if cached:
        return cached[-1]
    package = kernel_package()
    folder = os.path.join(cache_folder(), f"{package}-{tag}")
    print(f"lab: downloading {package} into {cache_folder()} (70 MB, once)", file=sys.stderr, flush=True)
    unpack_kernel(package, folder)
    return folder


def make_initramfs(kernel, path):
    with tempfile.TemporaryDirectory(dir=cache_folder()) as work:
        for folder in ("bin", "sbin", "modules", "proc", "sys", "dev"):
            os.mkdir(os.path.join(work, folder))
        shutil.copy(BUSYBOX, os.path.join(work, "bin"))
        for source, name in ((INIT, "init"), (MODPROBE, "sbin/modprobe")):
            shutil.copy(source, os.path.join(work, name))
            os.chmod(os.path.join(work, name), 0o755)
        for name in os.listdir(kernel):
            if name != "vmlinux":
                shutil.copy(os.path.join(kernel, name), os.path.join(work, "modules"))
        listing = "".join(os.path.relpath(os.path.join(at, name), work) + "\n"
                          for at, folders, files in os.walk(work) for name in sorted(folders + files))
        with open(path + ".new", "wb") as archive:
            subprocess.run([find_tool("cpio"), "--create", "--format=newc", "--quiet"], cwd=work,
                           input=listing.encode(), stdout=archive, check=True)
        os.rename(path + ".new", path)


def prepare():
    """Returns (kernel, initramfs), the paths of two files in the cache; Missing says why there are none."""
    check_tools()
    with locked(cache_folder()):
        kernel = kernel_folder()
        digest = hashlib.sha256(os.path.basename(kernel).encode())
        for source in (INIT, MODPROBE, BUSYBOX):
            with open(source, "rb") as file:
                digest.update(file.read())
        initramfs = os.path.join(cache_folder(), f"initramfs-{digest.hexdigest()[:16]}")
        if not os.path.exists(initramfs):
            make_initramfs(kernel, initramfs)
        os.utime(initramfs)
        for other in glob.glob(os.path.join(cache_folder(), "initramfs-*")):
            if time.time() - os.path.getmtime(other) > UNUSED_S:
                os.remove(other)
    return os.path.join(kernel, "vmlinux"), initramfs


def main():
    try:
        prepare()
    except Missing as missing:
        print(f"lab: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
