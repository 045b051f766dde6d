"""Samples of an indexable data set, gathered for a shard, by this process or by others that read ahead.

A sample is loaded with generators that are seeded for the loader, the shard and the sample's place in the batch; the
shard's own generators are left as they are. Therefore it does not matter which process loads it, or when.
"""
from __future__ import annotations

import random
import sys
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import pin
from .errors import Error
from .job import ShardContext, at_end
from .permutation import derived
from .worker import is_unable, place_of as place_in

_PURPOSE = 0x4C6F6164

Place = Tuple[int, int, bool, int, int]
"""A shard: step, update, whether it is of an update, its number, and how many there are."""


class SampleError(Exception):
    """A sample cannot be loaded. ``place`` is the file and line of the data set that is at fault."""

    place: Tuple[str, int] = ("", 0)


class SampleUnableError(SampleError, OSError):
    """A sample cannot be loaded here and now: a file cannot be read, or memory is short."""


def sample_error(what: str, text: str, place: Tuple[str, int], unable: bool) -> SampleError:
    """The error for samples, ``what`` they are; ``text`` is a traceback, whose last line says what has happened."""
    last = text.rstrip("\n").rsplit("\n", 1)[-1]
    found = (SampleUnableError if unable else SampleError)(f"{what} of the data set cannot be loaded: {last}\n{text}")
    found.place = place
    return found


def place_of(context: ShardContext) -> Place:
    """The shard that a context is of."""
    return context.step, context.update, context.training, context.shard, context.shards


class _Generators:
    """The states of all generators of the process, while samples are loaded."""

    def __enter__(self) -> None:
        self._random = random.getstate()
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        self._torch = torch.get_rng_state() if torch is not None else None
        self._numpy = numpy.random.get_state() if numpy is not None else None

    def __exit__(self, *error: Any) -> None:
        random.setstate(self._random)
        if self._torch is not None:
            sys.modules["torch"].set_rng_state(self._torch)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


class Source:
    """A data set, and what its samples are seeded by. ``number`` is the loader's, in the order of their making."""

    def __init__(self, dataset: Any, batch_size: int, number: int) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.number = number

    def indices(self, context: ShardContext) -> List[int]:
        """The samples of a shard."""
        return context.indices(len(self.dataset), self.batch_size)

    def seed(self, context: ShardContext) -> int:
        """What the seeds of a shard's samples are derived from."""
        return derived(context.generator_seed, _PURPOSE, self.number)

    def sample(self, seed: int, position: int, index: int) -> Any:
        """Loads a sample, with all generators seeded for it. Raises what the data set raises."""
        pin.shard_generators(derived(seed, position))
        return self.dataset[index]


class Loader:
    """Samples of an indexable data set, gathered for a shard: ``x, y = loader(s)``.

    ``loader(s)`` returns ``collate`` of the list of ``dataset[i]`` for the shard's samples (``ShardContext.indices``
    with ``batch_size``); without ``collate`` that of PyTorch, or the list itself. Random augmentations are pure:
    all generators of random, NumPy and PyTorch are seeded for each sample. A data set with a generator of its own is
    not pure.

    With ``processes`` so many forks of each worker load samples: those of this shard, divided among them, and those of
    the shard that this worker will probably compute next, while it computes. The bytes are the same as without. It
    gains where ``dataset[i]`` waits (for a disk, for a network) or where processors are idle. The forks end with the
    worker; one that dies is replaced. JAX cannot be forked: then leave ``processes`` 0.

    ``hits`` counts the batches that were asked for ahead, ``misses`` the others.
    """

    _made = 0

    def __init__(
        self, dataset: Any, batch_size: int, collate: Optional[Callable[[List[Any]], Any]] = None, processes: int = 0
    ) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise Error("Loader: the data set must be indexable and have a length; a stream has no order to take from")
        for name, value, least, most in (("batch_size", batch_size, 1, 1 << 31), ("processes", processes, 0, 1024)):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise Error(f"Loader: {name}={value!r}: it must be a whole number from {least} to {most}")
        self._source = Source(dataset, batch_size, Loader._made)
        Loader._made += 1
        self._collate = collate
        self._processes = processes
        self._ahead = _Ahead()
        self._readers: Any = None
        self.hits = 0
        self.misses = 0

    def __call__(self, s: ShardContext) -> Any:
        """The batch of a shard; an empty list is collated where an evaluation has no samples left for it. Raises
        SampleError, which has the number of the sample and the traceback."""
        samples = self._read(s) if self._processes else self._load(s)
        if self._collate is not None:
            return self._collate(samples)
        torch = sys.modules.get("torch")
        if torch is None or not samples:
            return samples
        return torch.utils.data.default_collate(samples)

    def _load(self, s: ShardContext) -> List[Any]:
        """Loads the samples in this process."""
        seed, samples = self._source.seed(s), []
        with _Generators():
            for position, index in enumerate(self._source.indices(s)):
                try:
                    samples.append(self._source.sample(seed, position, index))
                except Exception as error:
                    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
                    raise sample_error(f"sample {index}", text, place_in(error), is_unable(error)) from error
        return samples

    def _read(self, s: ShardContext) -> List[Any]:
        """Has other processes load the samples, and those of the next shard ahead."""
        if self._readers is None:
            from .readers import Readers  # which only loaders with processes need

            self._readers = Readers(self._source, self._processes)
            at_end.append(self.close)
        if self._readers.wants(s):
            self.hits += 1
        else:
            self.misses += 1
        samples: List[Any] = self._readers.take(s, self._ahead.next(s))
        return samples

    def close(self) -> None:
        """Ends the processes; the next batch starts new ones."""
        if self._readers is not None:
            self._readers.close()
            self._readers = None


class _Ahead:
    """Guesses which shard comes next in this process: workers of a peer take its shards in turn, and each step is
    much like the one before."""

    def __init__(self) -> None:
        self._last: Optional[ShardContext] = None
        self._stride = 1
        self._first: Dict[bool, int] = {}  # the first shard of the latest step, by whether it is of an update

    def next(self, s: ShardContext) -> ShardContext:
        """The shard that probably follows ``s``."""
        last, self._last = self._last, s
        if last is not None and last.step == s.step:
            if s.shard > last.shard:
                self._stride = s.shard - last.shard
        else:
            self._first[s.training] = s.shard
        shard = s.shard + self._stride
        if shard < s.shards:
            return ShardContext(s.seed, s.step, s.update, s.training, shard, s.shards)
        update = s.update + 1 if s.training else s.update
        first = self._first.get(True, 0)
        return ShardContext(s.seed, s.step + 1, update, True, first, s.shards)
