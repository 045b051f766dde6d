"""Copies of the state on a device, for models that compute on a GPU.

A model on the CPU sees the peer's shared memory itself. A model on a GPU sees copies of its parameters and buffers,
which are made anew when the state has another generation (kernels/program/README.md). Gradients are copied to the
shared memory as they are made. The parts of an update, and so the optimizer, compute on the CPU, in the shared memory.
"""
from __future__ import annotations

import mmap
import os
import warnings
from typing import List, Tuple

import torch

from . import pin
from .errors import Refused

_ALL_ARE_COPIED = os.environ.get("GODWIT_TEST_COPIES", "") == "1"
"""For tests without a GPU: tensors on the CPU are copied as if they were on a device."""

_READ_ONLY = 8  # cudaHostRegisterReadOnly


def is_copied(tensor: torch.Tensor) -> bool:
    """Whether the model sees a copy of the tensor's state, and not the shared memory."""
    return tensor.device.type != "cpu" or _ALL_ARE_COPIED


def refuse(name: str, tensor: torch.Tensor) -> None:
    """Refuses a tensor that is on no possible device."""
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise Refused(f"{name} is on {tensor.device}: models are possible on the CPU and on CUDA's GPUs")
    if kind == "cuda" and tensor.device.index not in (None, 0):
        raise Refused(
            f"{name} is on {tensor.device}: each worker computes on one GPU, which it sees as cuda:0; a model that is "
            "spread over several GPUs is not possible"
        )


def choose(accelerator: str) -> torch.device:
    """The device of a model, by what a user asks for: ``cpu``, ``gpu``, or ``auto``, which is a GPU where PyTorch sees
    one. Raises Refused where a GPU is asked for and there is none."""
    if accelerator == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    if accelerator == "gpu" and not _ALL_ARE_COPIED:
        raise Refused("PyTorch sees no GPU of CUDA here (torch.cuda.is_available() is False)")
    return torch.device("cpu")


class Copies:
    """The copies of one worker."""

    def __init__(self) -> None:
        self._pairs: List[Tuple[str, torch.Tensor, torch.Tensor]] = []
        self._generation = -1
        self._is_pinned = False

    def add(self, name: str, state: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Makes a copy that shows ``state``, and returns it; it has no contents before ``refresh``."""
        copy = torch.empty_like(state, device=device)
        self._pairs.append((name, state, copy))
        return copy

    @property
    def on_gpu(self) -> bool:
        """Whether a copy is on a GPU."""
        return any(copy.is_cuda for _, _, copy in self._pairs)

    def pin(self, state: mmap.mmap, own: mmap.mmap) -> None:
        """Registers the shared memory with CUDA, so that copies need no second buffer. Where the system does not
        allow it, they are only slower."""
        if not self.on_gpu:
            return
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call,unused-ignore]
        self._is_pinned = int(runtime.cudaHostRegister(_address(own), len(own), 0)) == 0
        runtime.cudaHostRegister(_address(state), len(state), _READ_ONLY)

    def refresh(self, generation: int) -> None:
        """Copies the state again where it is another one than that of the last call."""
        if generation == self._generation:
            return
        for _, state, copy in self._pairs:
            copy.copy_(state, non_blocking=True)
        self.wait()
        self._generation = generation

    def forget(self) -> None:
        """Has the next ``refresh`` copy everything: the copies are used for something else."""
        self._generation = -1

    def take_gradient(self, to: torch.Tensor, gradient: torch.Tensor, adds: bool) -> None:
        """Copies a gradient on a GPU to the shared memory, or adds it there. The copy is complete after ``wait``."""
        if adds:
            self.wait()
            to.add_(gradient.cpu())
        else:
            to.copy_(gradient, non_blocking=self._is_pinned)

    def wait(self) -> None:
        """Waits until everything that was copied is there."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def differs(self) -> str:
        """The name of a copy that has other bytes than the state; empty where there is none. It reads everything."""
        for name, state, copy in self._pairs:
            if not torch.equal(_bytes_of(copy.cpu()), _bytes_of(state)):
                return name
        return ""


def _address(memory: mmap.mmap) -> int:
    with warnings.catch_warnings():  # the memory of the state can only be read
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(memory, dtype=torch.uint8, count=1).data_ptr()


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def identity(tensors: List[torch.Tensor]) -> str:
    """What results depend on beside the program, where a tensor is on a GPU; otherwise nothing."""
    if not any(tensor.is_cuda for tensor in tensors):
        return ""
    properties = torch.cuda.get_device_properties(0)
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call,unused-ignore]
    libraries = f"CUDA {torch.version.cuda}, cuDNN {cudnn}"
    return f"{properties.name}, {properties.major}.{properties.minor}, {libraries}"


def workers(tensors: List[torch.Tensor]) -> int:
    """How many workers suit this machine: one for each GPU; 0 where the model is on the CPU."""
    return pin.gpu_count() if any(tensor.is_cuda for tensor in tensors) else 0
