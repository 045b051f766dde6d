"""A probe: a computation that must come out alike in every worker of a job, on all peers, fresh or used.

The first process of each peer computes it apart, in a process of its own where it can; the digest of what comes out
is part of what peers compare before they work together. Every worker computes it again before its first shard and
before its second, and then so often that it takes a thousandth of the time at most. A worker in which it comes out
otherwise contributes nothing more: its machine computes wrong, or the program has changed how its process computes.
"""
from __future__ import annotations

import hashlib
import os
import struct
import sys
import time
from typing import Any, Callable, Union

from . import pin
from .errors import Error, Refused
from .permutation import derived

LINE = "worker-probe"
"""The name of the line of identity."""
_PURPOSE = 3
_SHARE = 1000


def _feed(digest: "hashlib.blake2b", value: Any) -> None:
    """Adds a value, with what tells it from others that have the same bytes."""
    if value is None or isinstance(value, (bool, int, str, bytes)):
        data = value if isinstance(value, bytes) else repr(value).encode()
    elif isinstance(value, float):
        data = struct.pack("<d", value)
    elif isinstance(value, (list, tuple)):
        digest.update(f"{len(value)} of ".encode())
        for one in value:
            _feed(digest, one)
        return
    elif isinstance(value, dict):
        _feed(digest, [pair for key in sorted(value) for pair in (key, value[key])])
        return
    elif hasattr(value, "detach"):  # a tensor of PyTorch
        flat = value.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8)
        digest.update(f"{value.dtype} {tuple(value.shape)} ".encode())
        data = flat.numpy().tobytes() if "numpy" in sys.modules else bytes(flat.tolist())
    elif hasattr(value, "__array__"):
        array = sys.modules["numpy"].asarray(value)
        digest.update(f"{array.dtype} {array.shape} ".encode())
        data = array.tobytes()
    else:
        raise Refused(
            f"probe= returned a value of type {type(value).__qualname__}: it may be numbers, strings, tensors or arrays, and lists and "
            "dictionaries of them"
        )
    digest.update(len(data).to_bytes(8, "little") + data)


class Probe:
    """The probe of a job. ``given`` is what the user gives: a function without arguments, or True."""

    def __init__(self, given: Union[bool, Callable[[], Any]], seed: int) -> None:
        if isinstance(given, bool):
            given = default
        if not callable(given):
            raise Error(f"probe={given!r}: it must be a function without arguments, or True")
        self._compute = given
        self._seed = derived(seed, _PURPOSE)
        self._expected = ""
        self._computed = 0  # in this process
        self._next = 0.0  # when it is computed again

    def begin(self, apart: bool) -> str:
        """Computes it for the first time, ``apart`` in a fork of this process. Returns the digest."""
        self._expected = self._digest_apart() if apart else self._digest()
        return self._expected

    def _digest(self) -> str:
        pin.shard_generators(self._seed)
        digest = hashlib.blake2b(digest_size=16)
        _feed(digest, self._compute())
        return digest.hexdigest()

    def _digest_apart(self) -> str:
        """A fork computes it, so that this process, whose forks the workers are, has computed nothing."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            text, status = b"", 1
            try:
                text, status = self._digest().encode(), 0
            except BaseException as error:
                text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:4000]
            finally:
                os.write(writing, text)
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode("utf-8", "replace")
        _, status = os.waitpid(pid, 0)
        if status != 0:
            raise Refused(f"probe= cannot be computed: {said or f'its process has ended with status {status}'}")
        return said

    def before_shard(self) -> None:
        """Computes it again if it is time to. Raises Refused where it comes out otherwise."""
        if self._computed > 1 and time.monotonic() < self._next:
            return
        began = time.monotonic()
        found = self._digest()
        ended = time.monotonic()
        self._next = ended + _SHARE * (ended - began)
        self._computed += 1
        if found != self._expected:
            when = "in a fresh worker" if self._computed == 1 else "in a worker that has computed shards"
            raise Refused(
                f"the probe comes out otherwise {when} than when the program began ({found} instead of "
                f"{self._expected}): this machine computes wrong, or the program changes how its process computes (a "
                "setting of a library, a thread)"
            )


def default() -> Any:
    """What ``probe=True`` computes: operations of the libraries that are loaded, whose bits depend on the processor, on
    versions and on settings."""
    found = []
    if "torch" in sys.modules:
        found.append(_torch(sys.modules["torch"]))
    if "jax" in sys.modules:
        found.append(_jax(sys.modules["jax"]))
    if "numpy" in sys.modules:
        found.append(_numpy(sys.modules["numpy"]))
    return found


def _torch(torch: Any) -> Any:
    functions = torch.nn.functional
    with torch.enable_grad():
        x = torch.randn(4, 3, 16, 16).requires_grad_()
        kernel = torch.randn(8, 3, 3, 3).requires_grad_()
        table, wide = torch.randn(40, 64).requires_grad_(), torch.randn(64, 257).requires_grad_()
        images = functions.conv2d(x, kernel, padding=1)
        images = functions.batch_norm(images, None, None, training=True)
        tokens = functions.layer_norm(functions.embedding(torch.randint(0, 40, (4, 32)), table), (64,))
        heads = tokens.view(4, 32, 4, 16).transpose(1, 2)
        mixed = functions.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        out = functions.gelu(mixed.transpose(1, 2).reshape(128, 64) @ wide)
        loss = functions.cross_entropy(out, torch.randint(0, 257, (128,))) + images.tanh().exp().mean()
        loss = loss + (out.bfloat16() @ out.bfloat16().T).float().logsumexp(1).mean()
        gradients = torch.autograd.grad(loss, (x, kernel, table, wide))
    return [loss, *gradients, torch.randn(100_000).sum(), torch.randn(100_000, dtype=torch.float64).cumsum(0)[-1]]


def _numpy(numpy: Any) -> Any:
    a, b = numpy.random.normal(size=(100, 200)), numpy.random.normal(size=(200, 150)).astype("float32")
    square = a @ a.T + 200 * numpy.eye(100)
    return [
        a @ b, b.T @ b, a.sum(), b.mean(0), numpy.exp(a), numpy.tanh(b), numpy.log1p(abs(b)), numpy.linalg.solve(square, a),
    ]  # fmt: skip


def _jax(jax: Any) -> Any:
    key = jax.random.key(1)
    x, w = jax.random.normal(key, (64, 100)), jax.random.normal(key, (100, 80))

    def loss(w: Any) -> Any:
        out = jax.nn.gelu(jax.numpy.tanh(x @ w))
        return jax.nn.logsumexp(out, axis=1).mean() + jax.numpy.exp(out).sum()

    return jax.jit(jax.value_and_grad(loss))(w)
