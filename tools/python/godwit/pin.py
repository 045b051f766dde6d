"""What makes a process compute the same bits as the others: set when ``godwit`` is imported.

A peer sets the environment of its workers before they start. A script that runs alone sets the same here, which
libraries read when they are loaded; therefore ``import godwit`` stands before ``import torch`` and
``import numpy``. Libraries that are loaded later are seeded and set up by a hook on their import.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import random
import sys
from types import ModuleType
from typing import Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence

from .errors import Error
from .permutation import derived

_TAKEN = (
    "OMP_", "MKL_", "KMP_", "GOMP_", "SLURM_", "TORCHELASTIC_", "RANK", "LOCAL_RANK", "WORLD_SIZE",
    "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "OPENBLAS_", "NUMEXPR_",
    "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
    "CUBLAS_WORKSPACE_CONFIG",
)  # fmt: skip
"""Variables that are taken away; a name that ends with "_" is a beginning."""

_loaded_before: List[str] = []

given: Dict[str, str] = {}
"""The environment before it was pinned, for programs that are started as if this one were not there."""


def _is_taken(name: str) -> bool:
    return any(name.startswith(t) if t.endswith("_") else name == t for t in _TAKEN)


class _Kind(NamedTuple):
    """What makes libraries take the same way on processors of different makers and models."""

    flags: FrozenSet[str]  # what the processor must have
    aten: str
    onednn: str
    mkl: str
    order: str
    beyond: str  # the instructions that it lacks, by the names of NumPy and of its earlier releases


_AVX2 = frozenset(("avx2", "fma"))
_BEYOND_AVX2 = "AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
_BEYOND_AVX = f"F16C XOP FMA4 FMA3 AVX2 X86_V3 {_BEYOND_AVX2}"
_KINDS: Dict[str, _Kind] = {
    "SkylakeX": _Kind(
        _AVX2 | {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}, "avx512", "AVX512_CORE", "AVX512",
        "AVX512,STRICT", "",
    ),
    "Haswell": _Kind(_AVX2, "avx2", "AVX2", "AVX2", "AVX2,STRICT", _BEYOND_AVX2),
    "Sandybridge": _Kind(frozenset(("avx",)), "default", "AVX", "AVX", "AVX", _BEYOND_AVX),
    "Nehalem": _Kind(frozenset(("sse4_2",)), "default", "SSE41", "SSE4_2", "SSE4_2", f"AVX {_BEYOND_AVX}"),
}  # fmt: skip
"""By what gw_cpu_class_instructions (kernels/device/class.h) returns, the widest instructions first."""

_FAMILIES = {
    **{name.lower(): (name, name) for name in _KINDS}, "zen": ("Zen", "Haswell"), "cooperlake": ("Cooperlake", "SkylakeX"),
}  # fmt: skip
"""The families that ``--cpu-class`` names: as OpenBLAS writes them, and their kinds."""


def _processor() -> str:
    """The kind of this processor, which a peer computes as by default; empty for one that has none."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((set(line.split(":", 1)[1].split()) for line in file if line.startswith("flags")), set())
    except OSError:
        return ""
    return next((name for name, kind in _KINDS.items() if kind.flags <= flags), "")


def kind_of(cpu_class: str) -> str:
    """The kind of the processors that a peer with this ``--cpu-class`` computes as; empty: it has none."""
    return _FAMILIES[cpu_class.lower()][1] if cpu_class.lower() in _FAMILIES else _processor()


def environment(threads: int, cpu_class: str = "") -> Dict[str, str]:
    """What a peer sets in the environment of its workers (kernels/jobs/program/start.c)."""
    found = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
    found.update(OMP_DYNAMIC="FALSE", MKL_DYNAMIC="FALSE", OMP_WAIT_POLICY="passive")
    found["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it cuBLAS may add in another order in another stream
    name = kind_of(cpu_class)
    if name:
        kind = _KINDS[name]
        found["ATEN_CPU_CAPABILITY"] = kind.aten
        found["ONEDNN_MAX_CPU_ISA"] = kind.onednn
        found["MKL_ENABLE_INSTRUCTIONS"] = kind.mkl
        found["MKL_CBWR"] = kind.order
        if name != _processor():
            found["NPY_DISABLE_CPU_FEATURES"] = kind.beyond
        found["OPENBLAS_CORETYPE"] = _FAMILIES.get(cpu_class.lower(), (name,))[0]
    return found


_gpus: List[str] = []


def choose_gpu(slot: int) -> None:
    """Lets this process see one GPU, that of its place among its peer's workers."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        _gpus[:] = sorted((n[6:] for n in os.listdir("/dev") if n.startswith("nvidia") and n[6:].isdecimal()), key=int)
    else:
        _gpus[:] = [name.strip() for name in named.split(",") if name.strip()]
    if _gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = _gpus[slot % len(_gpus)]


def gpu_count() -> int:
    """The number of GPUs that the workers of this peer share."""
    return len(_gpus)


def alone(threads: int, cpu_class: str) -> None:
    """Sets the environment of this process as a peer with this ``--cpu-class`` (empty: without) sets that of its workers."""
    given.update(os.environ)
    _loaded_before.extend(name for name in ("torch", "numpy", "jax") if name in sys.modules)
    for name in [n for n in os.environ if _is_taken(n)]:
        del os.environ[name]
    os.environ.update(environment(threads, cpu_class))


def check_order() -> None:
    """Raises Error where a library was loaded before its environment was set."""
    if _loaded_before:
        raise Error(
            f"{' and '.join(_loaded_before)} was imported before godwit, with another environment than on a "
            "flock: let 'import godwit' stand first in the script"
        )


def libraries(seed: int, threads: int) -> None:
    """Seeds and sets up the libraries that are loaded, and those that will be."""
    random.seed(derived(seed, 1))
    actions: Dict[str, Callable[[ModuleType], None]] = {
        "torch": lambda module: _torch(module, seed, threads),
        "numpy": lambda module: module.random.seed(derived(seed, 3) & 0xFFFFFFFF),
        "torch._dynamo.config": _dynamo,
        "torch._inductor.config": lambda module: setattr(module, "compile_threads", 1),  # in this process, not in others
        "jax": lambda module: None,
    }
    for name in list(actions):
        module = sys.modules.get(name)
        if module is not None:
            actions.pop(name)(module)
    if actions:
        sys.meta_path.insert(0, _Hook(actions, {"jax": lambda: _jax(threads)}))


def _torch(torch: ModuleType, seed: int, threads: int) -> None:
    torch.manual_seed(derived(seed, 2))
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


def _dynamo(config: ModuleType) -> None:
    """Has torch.compile make code for each shape by itself. By default it makes code for all shapes when it has seen
    two of them, and none at all behind some more, so that bits depend on what came before."""
    config.automatic_dynamic_shapes = False  # type: ignore[attr-defined,unused-ignore]
    for name, value in (("recompile_limit", 256), ("cache_size_limit", 256), ("fail_on_recompile_limit_hit", True)):
        if hasattr(config, name):
            setattr(config, name, value)


_JAX_TAKEN = (
    "XLA_FLAGS", "NPROC", "JAX_ENABLE_X64", "JAX_DEFAULT_DTYPE_BITS", "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_NUMPY_DTYPE_PROMOTION", "JAX_DEFAULT_PRNG_IMPL", "JAX_THREEFRY_PARTITIONABLE", "JAX_DISABLE_JIT",
    "JAX_NUM_CPU_DEVICES",
)  # fmt: skip


def _jax(threads: int) -> None:
    """Sets the environment that JAX and XLA read: processors only, so many threads, and the instructions of the kind
    of processor that the peer computes as. XLA still tunes its code for the model of the processor, which these
    variables cannot fix."""
    for name in _JAX_TAKEN:
        os.environ.pop(name, None)
    flags = ["--xla_force_host_platform_device_count=1"]
    if threads == 1:
        flags.append("--xla_cpu_multi_thread_eigen=false")
    instructions = os.environ.get("MKL_ENABLE_INSTRUCTIONS", "")  # XLA has the same names
    try:
        version = [int(part) for part in importlib.metadata.version("jaxlib").split(".")[:2]]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        version = [0, 0]
    if instructions and version >= [0, 5]:  # a flag that XLA does not know ends the process
        flags.append(f"--xla_cpu_max_isa={instructions}")
    os.environ.update(JAX_PLATFORMS="cpu", NPROC=str(threads), XLA_FLAGS=" ".join(flags))


class _Hook(importlib.abc.MetaPathFinder):
    """Runs an action when a library has been loaded, and one before that."""

    def __init__(
        self, actions: Dict[str, Callable[[ModuleType], None]], before: Dict[str, Callable[[], None]]
    ) -> None:
        self._actions = actions
        self._before = before

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name not in self._actions:
            return None
        action = self._actions.pop(name)
        if name in self._before:
            self._before[name]()
        if not self._actions and self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, action)
        return spec


class _Loader(importlib.abc.Loader):
    """A loader that runs an action behind another one's work."""

    def __init__(self, inner: importlib.abc.Loader, action: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        self._action(module)


def shard_generators(seed: int) -> None:
    """Seeds every generator of the process that there is."""
    random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
