"""What has to be equal on all peers of a job besides its options: the program's files, its libraries, its data."""
from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from .errors import Error, Refused

_WHOLE = 1 << 30
"""Files of up to so many bytes are digested whole; of larger ones, so many blocks of a MiB at even distances."""
_BLOCKS = 256
_MIB = 1 << 20


def script() -> str:
    """The absolute path of the script that runs. Raises Error where there is none."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:
        raise Error("a job needs a script: processes of all peers run it, so that it cannot be typed in by hand")
    return os.path.abspath(str(path))


def folder() -> str:
    """The folder of the script, with its separator; empty where there is no script."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return "" if path is None else os.path.dirname(os.path.abspath(path)) + os.sep


def is_own(file: str) -> bool:
    """Whether a source file belongs to the user's program: it is in the script's folder or below, and no
    installed package."""
    base = folder()
    path = os.path.abspath(file)
    return bool(base) and path.startswith(base) and not _is_installed(path)


def _is_installed(path: str) -> bool:
    parts = path.split(os.sep)
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    return path.startswith(own) or "site-packages" in parts or "dist-packages" in parts


def _files() -> Dict[str, str]:
    """The program's own files that are imported: names relative to the script's folder, and paths."""
    base = folder()
    found: Dict[str, str] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        # Some modules that libraries make have a name there which is no file's (torch.ops: "_ops.py").
        if isinstance(file, str) and os.path.isfile(file) and is_own(file):
            path = os.path.abspath(file)
            found[path[len(base) :]] = path
    return found


def _digest(path: str, digest: "hashlib.blake2b") -> None:
    size = os.path.getsize(path)
    digest.update(size.to_bytes(8, "little"))
    with open(path, "rb") as file:
        if size <= _WHOLE:
            while True:
                block = file.read(_MIB)
                if not block:
                    return
                digest.update(block)
        for i in range(_BLOCKS):
            file.seek((size - _MIB) * i // (_BLOCKS - 1))
            digest.update(file.read(_MIB))


def _data_digest(path: str) -> str:
    digest = hashlib.blake2b(digest_size=32)
    if os.path.isdir(path):
        for base, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                file = os.path.join(base, name)
                digest.update(os.path.relpath(file, path).encode() + b"\0")
                digest.update(os.path.getsize(file).to_bytes(8, "little"))
        return digest.hexdigest()
    _digest(path, digest)
    return digest.hexdigest()


def _file_digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read(), digest_size=32).hexdigest()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _name_and_version(distribution: importlib.metadata.Distribution) -> Tuple[str, str]:
    """Those of a distribution, from the head of its metadata: all of it takes twenty times as long to read, its page included.
    The name is empty where there is none."""
    head = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
    name, version = (re.search(rf"^{field}: *(\S+) *$", head, re.MULTILINE) for field in ("Name", "Version"))
    if name is not None and version is not None:
        return name[1], version[1]
    metadata = distribution.metadata  # of another form, such as that of an egg
    return metadata["Name"] or "", metadata["Version"] or ""


def _versions() -> Dict[str, str]:
    """The versions of the distributions of which something is imported."""
    imported = {name.partition(".")[0] for name in sys.modules}
    normal = {_normal(name) for name in imported}
    found: Dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name, version = _name_and_version(distribution)
        if not name:
            continue
        tops = (distribution.read_text("top_level.txt") or "").split()
        if _normal(name) in normal or any(top in imported for top in tops):
            found[_normal(name)] = version
    for top in ("torch", "numpy", "jax"):  # their builds differ more finely than their distributions
        version = getattr(sys.modules.get(top), "__version__", None)
        if version is not None:
            found[top] = str(version)
    found.pop("godwit", None)  # the peer compares builds
    return found


def lines(data: Sequence[str]) -> Dict[str, str]:
    """The lines of identity. ``data`` are paths of files, of which the contents count, or of folders, of which
    names and sizes count. Raises Error for a path that cannot be read."""
    found = {f"file:{name}": _file_digest(path) for name, path in _files().items()}
    found["python"] = f"{platform.python_implementation()} {platform.python_version()}"
    for name, version in _versions().items():
        found[f"package:{name}"] = version
    for number, path in enumerate(data):
        try:
            found[f"data:{number}:{os.path.basename(os.path.normpath(path))}"] = _data_digest(path)
        except OSError as error:
            raise Error(f"data=: {path}: {error.strerror}") from None
    return found


class _Gate(importlib.abc.MetaPathFinder):
    """Refuses imports of the program's own files, which would be no part of the identity any more."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.origin is not None and is_own(spec.origin):
            raise Refused(
                f"{spec.origin} is imported after job.run() has begun, where it is no part of what peers compare: "
                f"import {name} at the top of the script"
            )
        return None


_gate = _Gate()


def close() -> None:
    """From here on, the program's own files cannot be imported."""
    if _gate not in sys.meta_path:
        sys.meta_path.insert(0, _gate)


def open_again() -> None:
    """The job has ended: the program may import what it likes."""
    if _gate in sys.meta_path:
        sys.meta_path.remove(_gate)


def data_text(data: Iterable[str]) -> str:
    """The data in a few words, for people."""
    names: List[Tuple[str, int]] = [(os.path.basename(os.path.normpath(p)), os.path.getsize(p)) for p in data]
    return ", ".join(f"{name} ({size:,} bytes)" if not Path(name).is_dir() else name for name, size in names)
