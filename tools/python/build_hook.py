"""Builds the program for the Python package, when a wheel is made: pip and ./build.sh wheel call it by hatchling.

The program computes on processors; with GODWIT_WHEEL_GPU=1 (./build.sh wheel --gpu) it computes on NVIDIA's GPUs too,
and then its bytes are others each time, as nvcc writes the names of temporary files. The tree is that of the sdist. It
needs what ./build.sh needs: on Debian the packages that ./build.sh installs.
"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SYSTEM = ("libc6", "libgcc-s1", "libstdc++6", "zlib1g")
"""Debian's packages of the libraries that every system with this wheel's tag has: they are not in the wheel."""

ADVICE = """
godwit is a program in C, which this computer must build: there is no wheel for it. That needs CMake, a C compiler and
some libraries. On Debian and its relatives, './build.sh' in the unpacked sdist installs what is missing, or prints the
line that does; then install the sdist again."""


def _run(*command: str, env: Optional[Dict[str, str]] = None) -> str:
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}\n{ADVICE}")
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n'{' '.join(command)}' failed.\n{ADVICE}")
    return done.stdout


def _build_id(program: pathlib.Path) -> str:
    """What gw_build_id of kernels/device/class.h says of the program."""
    found = re.search(r"Build ID: ([0-9a-f]{16})", _run("readelf", "--notes", str(program)))
    if found is None:
        sys.exit(f"{program} has no build id")
    return found[1]


def _licences(program: pathlib.Path) -> Dict[str, str]:
    """Debian's files on the copyright of the libraries that go into a wheel, and their places there."""
    found: Dict[str, str] = {}
    if shutil.which("dpkg-query") is None:
        return found
    for library in re.findall(r"=> (/\S+)", _run("ldd", str(program))):
        owner = subprocess.run(
            ["dpkg-query", "--search", os.path.realpath(library)], capture_output=True, text=True, check=False
        )
        package = owner.stdout.partition(":")[0]
        copyright = pathlib.Path("/usr/share/doc", package, "copyright")
        if package and package not in SYSTEM and copyright.is_file():
            found[str(copyright)] = f"godwit/licenses/{package}.txt"
    return found


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the program, its headers, manual pages and completions into the wheel, which is one for this platform."""

    _folder: Optional["tempfile.TemporaryDirectory[str]"] = None

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        """Called before the wheel is written."""
        if version == "editable":
            sys.exit("godwit: an editable install has no program: put tools/python on PYTHONPATH instead")
        self._folder = tempfile.TemporaryDirectory(prefix="godwit-wheel-")
        built = self._build(pathlib.Path(self._folder.name))
        program = built / "bin" / "godwit"
        module = built / "_build.py"
        module.write_text(
            f'"""The program of this package."""\n\nBUILD = "{_build_id(program)}"\n"""Its build id."""\n', encoding="ascii"
        )
        force: Dict[str, str] = build_data["force_include"]
        force[str(program)] = "godwit/bin/godwit"
        force[str(module)] = "godwit/_build.py"
        force[str(built / "include" / "godwit")] = "godwit/include/godwit"  # where `godwit new-job` looks for them
        force.update(_licences(program))
        shared: Dict[str, str] = build_data["shared_data"]
        for folder in ("man", "bash-completion", "zsh", "fish"):
            shared[str(built / "share" / folder)] = f"share/{folder}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{os.uname().machine}"

    def finalize(self, version: str, build_data: Dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is there."""
        if self._folder is not None:
            self._folder.cleanup()

    def _build(self, folder: pathlib.Path) -> pathlib.Path:
        """Builds and installs the program below a folder. Nothing of it depends on where the tree or the folder is."""
        root, build, prefix = self.root, str(folder / "build"), str(folder / "installed")
        names = [f"-ffile-prefix-map={place}=." for place in (build, root)]
        environment = {**os.environ, "CFLAGS": " ".join(names), "LDFLAGS": "-Wl,--strip-all"}
        generator: List[str] = ["-G", "Ninja"] if shutil.which("ninja") else []
        gpu = os.environ.get("GODWIT_WHEEL_GPU") == "1"
        said = _run("cmake", "-S", root, "-B", build, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DGODWIT_TESTS=OFF",
                    f"-DGODWIT_CUDA={'ON' if gpu else 'OFF'}", env=environment)  # fmt: skip
        lacks = re.search(r"CUDA: not in this build \((.*)\)", said)
        if lacks is not None:
            sys.exit(f"a wheel for GPUs cannot be built: {lacks[1]}")
        _run("cmake", "--build", build, "--target", "godwit", "--parallel", str(os.cpu_count() or 1), env=environment)
        _run("cmake", "--install", build, "--prefix", prefix, env=environment)
        return pathlib.Path(prefix)
