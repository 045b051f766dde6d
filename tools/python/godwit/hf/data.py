"""The data sets: their order as a function of the epoch, and a digest that peers compare."""
from __future__ import annotations

import hashlib
from typing import Any, Callable, List, Mapping, Sequence, Tuple

import torch

from .. import pin
from ..errors import Error, Refused
from ..permutation import derived

_PURPOSE_ORDER, _PURPOSE_DIGEST = 0x6F72646572, 0x646967657374
_DIGESTED = 32
"""So many samples of a data set, at even distances, are read for its digest."""


class Order:
    """Which samples are in which batch of an epoch of a DataLoader, in the order in which transformers takes them.

    The order in the random strategy is that of accelerate's SeedableRandomSampler: a permutation by a generator
    that is seeded with the sum of seed and epoch. A sampler of another kind is asked for its order with all
    generators seeded by the epoch; one with a generator of its own, which goes on from epoch to epoch, is refused.
    """

    def __init__(self, loader: Any, seed: int) -> None:
        self._sampler = _batch_sampler(loader)
        self._seed = seed
        self._epoch = -1
        self._batches: Sequence[Sequence[int]] = ()
        self._permutation = torch.empty(0, dtype=torch.int64)
        self.batches: int = len(loader)
        """Batches in an epoch."""
        inner = self._sampler.sampler
        self._length = len(inner)
        self._kind = _kind(inner)
        if self._kind == "other" and getattr(inner, "generator", None) is not None:
            raise Error(
                f"the sampler {type(inner).__name__} has a generator of its own, which goes on from epoch to epoch, so "
                "that the order depends on the process: leave the generator out, or use "
                "train_sampling_strategy='random'"
            )

    def batch(self, epoch: int, number: int) -> List[int]:
        """The samples of a batch. It may seed and use the generators of the process."""
        if epoch != self._epoch:
            self._load(epoch)
        if self._kind == "other":
            return list(self._batches[number])
        size = int(self._sampler.batch_size)
        first, last = number * size, min((number + 1) * size, self._length)
        if self._kind == "sequential":
            return list(range(first, last))
        found: List[int] = self._permutation[first:last].tolist()
        return found

    def _load(self, epoch: int) -> None:
        if self._kind == "random":
            generator = torch.Generator()
            generator.manual_seed(epoch + int(self._sampler.sampler.initial_seed))
            self._permutation = torch.randperm(self._length, generator=generator)
        elif self._kind == "other":
            for sampler in (self._sampler, self._sampler.sampler):
                if hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(epoch)
            pin.shard_generators(derived(self._seed, _PURPOSE_ORDER, epoch))
            self._batches = [list(batch) for batch in self._sampler]
            if len(self._batches) != self.batches:
                raise Refused(
                    f"the sampler gives {len(self._batches)} batches in epoch {epoch}, and its length is {self.batches}: "
                    "the number of steps must be known"
                )
        self._epoch = epoch


def _batch_sampler(loader: Any) -> Any:
    """The sampler of batches behind accelerate's wrappers."""
    sampler = getattr(loader, "batch_sampler", None)
    while sampler is not None and not hasattr(sampler, "sampler"):
        sampler = getattr(sampler, "batch_sampler", None)
    if sampler is None:
        raise Error(
            "the training data have no sampler of batches: godwit needs to know which samples a shard has. Give a "
            "data set with indices, and let the trainer make the DataLoader"
        )
    return sampler


def _kind(sampler: Any) -> str:
    name = type(sampler).__name__
    if isinstance(sampler, torch.utils.data.SequentialSampler):
        return "sequential"
    if name == "SeedableRandomSampler" and not sampler.replacement and sampler.num_samples == len(sampler.data_source):
        return "random"
    return "other"


def named(dataset: Any) -> List[Tuple[str, Any]]:
    """The data sets of an evaluation, which may be a dict of some, with what messages call them."""
    if isinstance(dataset, dict):
        return [(f"eval_dataset[{name!r}]", inner) for name, inner in dataset.items()]
    return [("eval_dataset", dataset)]


def check_indexable(what: str, dataset: Any) -> None:
    """Raises Error where a data set has no length or no indices."""
    if isinstance(dataset, torch.utils.data.IterableDataset) or not (
        hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    ):
        raise Error(
            f"{what} is a {type(dataset).__name__}, a stream, whose samples have no order to take a shard's from: give a "
            "data set with a length and indices (datasets.load_dataset without streaming=True)"
        )
    if len(dataset) == 0:
        raise Error(f"{what} is empty")


def gather(dataset: Any, which: List[int], collate: Callable[[List[Any]], Any]) -> Any:
    """A batch as a DataLoader makes it."""
    if hasattr(dataset, "__getitems__"):
        return collate(dataset.__getitems__(which))
    return collate([dataset[i] for i in which])


def digest(dataset: Any, seed: int) -> str:
    """Length and digest of a data set, from some of its samples. It seeds the generators of the process, so that
    samples that are changed at random are the same on all peers."""
    made = hashlib.blake2b(digest_size=16)
    count = len(dataset)
    for i in range(min(count, _DIGESTED)):
        number = i * count // min(count, _DIGESTED)
        pin.shard_generators(derived(seed, _PURPOSE_DIGEST, number))
        _add(made, dataset[number])
    return f"{count} samples, {made.hexdigest()}"


def _add(to: "hashlib.blake2b", value: Any) -> None:
    """Adds a value to a digest; an object that is no plain data counts by its type alone."""
    to.update(type(value).__name__.encode() + b"\0")
    if isinstance(value, torch.Tensor):
        to.update(f"{value.dtype}{tuple(value.shape)}".encode())
        to.update(bytes(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).tolist()))
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            to.update(str(key).encode() + b"=")
            _add(to, value[key])
    elif isinstance(value, (list, tuple)):
        parts: Tuple[Any, ...] = tuple(value)
        to.update(str(len(parts)).encode() + b":")
        for inner in parts:
            _add(to, inner)
    elif value is None or isinstance(value, (bool, int, float, str, bytes)):
        to.update(repr(value).encode() + b"\0")
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
        to.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
