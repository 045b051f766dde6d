"""DataLoaders taken apart: which samples a batch has, as a function of its place."""
from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch.utils import data as torch_data

from ..errors import Refused
from ..job import ShardContext
from ..permutation import derived, permutation

_PURPOSE_DRAW = 0x64726177

Order = Callable[[int, int], int]
"""The sample at a position of an epoch: ``order(epoch, position)``."""


class Source:
    """A DataLoader's parts. ``samples`` are those of an epoch, of which ``drop_last`` may leave some out."""

    def __init__(self, loader: Any, what: str, seed: int, sequential: bool = False) -> None:
        if not isinstance(loader, torch_data.DataLoader):
            raise Refused(f"{what}: it is a {type(loader).__name__}, and only a torch.utils.data.DataLoader is possible")
        dataset = loader.dataset
        if isinstance(dataset, torch_data.IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise Refused(
                f"{what}: {type(dataset).__name__} is a stream, which has no order to take shards from: use a dataset "
                "with __getitem__ and __len__"
            )
        if not hasattr(dataset, "__len__"):
            raise Refused(f"{what}: {type(dataset).__name__} has no __len__")
        if loader.batch_size is None:
            raise Refused(f"{what}: it has no batch_size (a batch_sampler, or whole batches as samples): give one")
        if type(loader.batch_sampler) is not torch_data.BatchSampler:
            raise Refused(f"{what}: {type(loader.batch_sampler).__name__}: give a batch_size instead of a batch_sampler")
        if loader.worker_init_fn is not None:
            raise Refused(f"{what}: worker_init_fn=: all generators are seeded for each batch: leave it out")
        self.what = what
        self.dataset = dataset
        self.batch_size: int = loader.batch_size
        self.drop_last: bool = loader.drop_last
        self.collate: Callable[[List[Any]], Any] = loader.collate_fn
        self.samples, self.order = _order_of(loader.sampler, len(dataset), what, seed, sequential)
        if self.samples == 0:
            raise Refused(f"{what}: the dataset is empty")

    def batches(self, size: int) -> int:
        """The batches of an epoch, each of ``size`` samples."""
        return self.samples // size if self.drop_last else -(-self.samples // size)

    def fetch(self, epoch: int, first: int, end: int, s: Optional[ShardContext] = None) -> Any:
        """The samples at these positions of an epoch, collated; ``s`` takes note of them."""
        which = [self.order(epoch, position) for position in range(first, end)]
        if s is not None:
            s.note(which)
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate(many(which) if many else [self.dataset[i] for i in which])


def _order_of(sampler: Any, count: int, what: str, seed: int, sequential: bool) -> Tuple[int, Order]:
    if type(sampler) is torch_data.SequentialSampler or (sequential and type(sampler) is torch_data.RandomSampler):
        return count, lambda epoch, position: position
    if type(sampler) is torch_data.RandomSampler:
        if sampler.replacement:
            return sampler.num_samples, lambda epoch, position: derived(seed, _PURPOSE_DRAW, epoch, position) % count
        if sampler.num_samples != count:
            raise Refused(f"{what}: RandomSampler(num_samples=): use limit_train_batches or a Subset of the dataset")
        return count, lambda epoch, position: permutation(seed, epoch, count).at(position)
    if type(sampler) is torch_data.SubsetRandomSampler:
        chosen = list(sampler.indices)
        return len(chosen), lambda epoch, position: chosen[permutation(seed, epoch, len(chosen)).at(position)]
    if type(sampler) is torch_data.WeightedRandomSampler and sampler.replacement:
        return sampler.num_samples, _weighted(sampler.weights.tolist(), seed)
    raise Refused(
        f"{what}: {type(sampler).__name__} draws samples in an order of its own: use shuffle=, SubsetRandomSampler or "
        "WeightedRandomSampler with replacement, whose order is that of --seed here"
    )


def _weighted(weights: Sequence[float], seed: int) -> Order:
    bounds = list(itertools.accumulate(weights))

    def order(epoch: int, position: int) -> int:
        at = derived(seed, _PURPOSE_DRAW, epoch, position) * 2.0**-63 * bounds[-1]
        return min(bisect.bisect_right(bounds, at), len(bounds) - 1)

    return order


def limited(limit: Any, batches: int, name: str) -> int:
    """The batches that a limit (a number or a share; None: all) leaves."""
    if limit is None:
        return batches
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or limit < 0:
        raise Refused(f"Trainer({name}={limit!r}): it must be a number of batches or a share from 0.0 to 1.0")
    if isinstance(limit, int):
        return min(limit, batches)
    if limit > 1:
        raise Refused(f"Trainer({name}={limit!r}): a share is at most 1.0")
    if limit > 0 and int(batches * limit) == 0 and batches > 0:
        raise Refused(f"Trainer({name}={limit!r}): of {batches} batches this leaves none")
    return int(batches * limit)


@dataclass(frozen=True)
class Piece:
    """What a shard computes: a part of a batch. ``batch_size`` is that of the whole batch."""

    epoch: int
    batch: int
    first: int
    end: int
    batch_size: int

    @property
    def samples(self) -> int:
        """The samples of this part; none where the batch is too small for as many parts."""
        return self.end - self.first


class Plan:
    """The course of the training batches: an update has ``accumulate`` batches, each cut into ``pieces`` shards."""

    def __init__(self, source: Source, processes: int, accumulate: int, limit: Any, shards: Optional[int]) -> None:
        self.source = source
        self.batch_size = source.batch_size * processes
        self.accumulate = accumulate
        self.batches = limited(limit, source.batches(self.batch_size), "limit_train_batches")
        if self.batches == 0:
            raise Refused("there are no batches to train on: see limit_train_batches and the dataset's length")
        if shards is None:
            shards = accumulate * processes
        if shards % accumulate != 0:
            raise Refused(
                f"shards={shards}: each of the {accumulate} batches of an update (accumulate_grad_batches) is cut into "
                f"as many shards: give a multiple of {accumulate}"
            )
        self.pieces = shards // accumulate
        if self.pieces > self.batch_size:
            raise Refused(f"shards={shards}: a batch of {self.batch_size} samples cannot be cut into {self.pieces}")
        self.shards = shards
        self.updates = -(-self.batches // accumulate)

    def batches_of(self, update: int) -> range:
        """The batches, counted within their epoch, of an update."""
        first = update % self.updates * self.accumulate
        return range(first, min(first + self.accumulate, self.batches))

    def is_last(self, update: int) -> bool:
        """Whether the update is the last one of its epoch."""
        return (update + 1) % self.updates == 0

    def samples_of(self, batch: int) -> int:
        """The samples of a batch."""
        return min((batch + 1) * self.batch_size, self.source.samples) - batch * self.batch_size

    def piece(self, update: int, shard: int) -> Optional[Piece]:
        """What a shard computes; None for one that has no batch."""
        batch = update % self.updates * self.accumulate + shard // self.pieces
        if batch >= self.batches:
            return None
        count, number = self.samples_of(batch), shard % self.pieces
        first = batch * self.batch_size
        found = Piece(
            update // self.updates, batch, first + count * number // self.pieces,
            first + count * (number + 1) // self.pieces, count,
        )  # fmt: skip
        return found if found.samples > 0 else None

    def weight_of(self, update: int) -> int:
        """The samples of an update."""
        return sum(self.samples_of(batch) for batch in self.batches_of(update))

class Held:
    """The course of the validation batches: each is a shard. ``counts`` are those of each DataLoader."""

    def __init__(self, sources: Sequence[Source], limit: Any) -> None:
        self.sources = list(sources)
        self.counts = [limited(limit, s.batches(s.batch_size), "limit_val_batches") for s in self.sources]
        self.shards = sum(self.counts)

    def place(self, shard: int) -> Tuple[int, int]:
        """The DataLoader and the batch of a shard."""
        for number, count in enumerate(self.counts):
            if shard < count:
                return number, shard
            shard -= count
        raise IndexError(shard)

    def fetch(self, loader: int, batch: int, s: Optional[ShardContext] = None) -> Tuple[Any, int]:
        """A batch and the number of its samples, of which ``s`` takes note."""
        source = self.sources[loader]
        first = batch * source.batch_size
        end = min(first + source.batch_size, source.samples)
        return source.fetch(0, first, end, s), end - first


def convert_floats(batch: Any, dtype: torch.dtype) -> Any:
    """The batch with its floating-point tensors of another type, in lists, tuples and dictionaries."""
    if isinstance(batch, torch.Tensor):
        return batch.to(dtype) if batch.is_floating_point() else batch
    if isinstance(batch, dict):
        return type(batch)({key: convert_floats(value, dtype) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(convert_floats(value, dtype) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(convert_floats(value, dtype) for value in batch)
    return batch
