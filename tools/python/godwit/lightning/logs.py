"""``self.log`` on a flock: what steps log are sums over shards, from which the end of a step makes means.

Which names a module logs is learnt from one batch before the job, since sums need their places. A value is added
exactly in two numbers, a multiple of 2^-20 and the rest, so that neither a large nor a small one loses digits.
torchmetrics' objects are states that shards add up; those whose states are no sums are refused.
"""
from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..errors import Refused

COARSE_BITS, FINE_BITS = 20, 52
_PER_ENTRY = 3  # the sum, the weight, how many were not finite

_STEP_HOOKS = frozenset(("training_step", "on_train_batch_start", "on_train_batch_end"))
_BATCH_HOOKS = frozenset(("validation_step", "on_validation_batch_start", "on_validation_batch_end")) | _STEP_HOOKS
_EPOCH_HOOKS = frozenset(
    ("on_train_start", "on_train_epoch_start", "on_train_epoch_end", "on_validation_start",
     "on_validation_epoch_start", "on_validation_epoch_end")
)  # fmt: skip


@dataclass
class Entry:
    """A name that a hook logs. ``metric`` is the path of a torchmetrics object, or empty for a number."""

    hook: str
    name: str
    loader: Optional[int]
    on_step: bool
    on_epoch: bool
    reduce: str
    prog_bar: bool
    logger: bool
    metric: str = ""

    @property
    def key(self) -> str:
        """The entry's own name among all."""
        return f"{self.hook}.{self.name}.{self.loader}"

    @property
    def shown(self) -> str:
        """The name with the number of the DataLoader, where there are several."""
        return self.name if self.loader is None else f"{self.name}/dataloader_idx_{self.loader}"

    def forked(self, on_step: bool) -> str:
        """The name under which a value of a step or of an epoch is known."""
        if not (self.on_step and self.on_epoch):
            return self.shown
        name = f"{self.name}_{'step' if on_step else 'epoch'}"
        return name if self.loader is None else f"{name}/dataloader_idx_{self.loader}"


def split(value: float) -> Tuple[float, float]:
    """A number as a multiple of 2^-20 and the rest."""
    coarse = math.floor(value * 2.0**COARSE_BITS + 0.5) * 2.0**-COARSE_BITS
    return coarse, value - coarse


class Metric:
    """A torchmetrics object of the module, whose states are sums. ``flags`` says in which phases it is updated."""

    def __init__(self, path: str, object: Any) -> None:
        self.path = path
        self.object = object
        self.in_train = False
        self.in_evaluation = False

    def check(self) -> None:
        """Refuses states that are no sums."""
        kind = type(self.object).__name__
        sum_of = sys.modules["torchmetrics.utilities.data"].dim_zero_sum
        for name, default in self.object._defaults.items():
            if not isinstance(default, torch.Tensor) or self.object._reductions[name] is not sum_of:
                raise Refused(
                    f"the metric {self.path}: the state '{name}' of {kind} is no sum over samples, so that shards cannot "
                    "add it up: use a metric whose states are sums (for curves, give thresholds=), or log a mean of "
                    "your own"
                )
            if not (default.is_floating_point() or default.dtype in (torch.int64, torch.int32)):
                raise Refused(f"the metric {self.path}: the state '{name}' of {kind} has {default.dtype}")

    def defaults(self) -> Dict[str, torch.Tensor]:
        """The states as a reset leaves them."""
        found: Dict[str, torch.Tensor] = self.object._defaults
        return found

    def states(self) -> Dict[str, torch.Tensor]:
        """The states as they are, less what they are in the beginning: what a shard adds."""
        return {name: getattr(self.object, name).detach() - value for name, value in self.defaults().items()}

    def was_updated(self) -> bool:
        """Whether there was an update since the reset."""
        return int(self.object._update_count) > 0

    def reset(self) -> None:
        """Forgets what was added."""
        self.object.reset()

    def show(self, sums: Dict[str, torch.Tensor]) -> None:
        """Has the object hold sums, as if it had been updated with all samples."""
        self.reset()
        for name, default in self.defaults().items():
            setattr(self.object, name, default + sums[name].to(default))
        self.object._update_count = 1


def find_metrics(module: torch.nn.Module) -> List[Metric]:
    """The torchmetrics objects of a module."""
    package = sys.modules.get("torchmetrics")
    if package is None:
        return []
    found: List[Metric] = []
    for path, child in module.named_modules():
        if type(child).__module__.startswith("torchmetrics.wrappers"):
            raise Refused(f"the metric {path}: {type(child).__name__} keeps more than sums: log what it wraps")
        if isinstance(child, package.MetricCollection):
            child._enable_compute_groups = False  # members of a group would share their states
            child._groups_checked = False
            child._groups = {}
        elif isinstance(child, package.Metric):
            found.append(Metric(path, child))
    return found


class Recorder:
    """What ``self.log`` calls. ``mode`` is what happens with a value:

    - *learn*: a new name is noted;
    - *shard*: the value is added to the sums of this shard;
    - *once*: the value is passed on as it is (``at_once``);
    - *none*: logging is not possible.
    """

    def __init__(self) -> None:
        self.mode = "none"
        self.hook = ""
        self.loader: Optional[int] = None
        self.batch: Any = None
        self.samples = 0
        self.entries: Dict[str, Entry] = {}
        self.at_once: Callable[[Entry, Any], None] = lambda entry, value: None
        self.batch_size_of: Callable[[Any], int] = lambda batch: 1
        self._sums: Dict[str, List[float]] = {}
        self._paths: Dict[int, str] = {}

    def know(self, metrics: List[Metric]) -> None:
        """Makes metrics known by their paths."""
        self._paths = {id(metric.object): metric.path for metric in metrics}

    def method(self) -> Callable[..., None]:
        """The function that takes the place of a module's ``log``."""

        def log(
            name: str, value: Any, prog_bar: bool = False, logger: Optional[bool] = None, on_step: Optional[bool] = None,
            on_epoch: Optional[bool] = None, reduce_fx: Any = "mean", enable_graph: bool = False,
            sync_dist: bool = False, sync_dist_group: Any = None, add_dataloader_idx: bool = True,
            batch_size: Optional[int] = None, metric_attribute: Optional[str] = None, rank_zero_only: bool = False,
        ) -> None:  # fmt: skip
            loader = self.loader if add_dataloader_idx else None
            entry = self._entry(name, value, loader, on_step, on_epoch, reduce_fx, prog_bar, logger, metric_attribute)
            self._take(entry, value, batch_size)

        return log

    def _entry(
        self, name: str, value: Any, loader: Optional[int], on_step: Optional[bool], on_epoch: Optional[bool],
        reduce_fx: Any, prog_bar: bool, logger: Optional[bool], attribute: Optional[str],
    ) -> Entry:  # fmt: skip
        hook = self.hook
        if self.mode == "none" or hook not in _BATCH_HOOKS | _EPOCH_HOOKS:
            raise Refused(f"self.log({name!r}) is called in {hook or 'a place that has no metrics'}, where nothing is logged")
        step_default = hook in _STEP_HOOKS
        on_step = step_default if on_step is None else on_step
        on_epoch = not step_default if on_epoch is None else on_epoch
        if hook in _EPOCH_HOOKS:
            if on_step or not on_epoch:
                raise Refused(f"self.log({name!r}, on_step=True) is called in {hook}, which belongs to no step")
        if not on_step and not on_epoch:
            raise Refused(f"self.log({name!r}, on_step=False, on_epoch=False) logs nothing")
        metric = ""
        if self._is_metric(value):
            metric = self._paths.get(id(value), "")
            if not metric:
                raise Refused(
                    f"self.log({name!r}): the metric is no attribute of the module, so that it is no part of the state: "
                    "make it one"
                )
        reduce = reduce_fx if isinstance(reduce_fx, str) else getattr(reduce_fx, "__name__", str(reduce_fx))
        reduce = {"avg": "mean"}.get(reduce, reduce)
        if not metric and reduce not in ("mean", "sum"):
            raise Refused(
                f"self.log({name!r}, reduce_fx={reduce!r}): over shards there are exact sums and means of them: use 'mean' "
                "or 'sum'"
            )
        return Entry(hook, name, loader, on_step, on_epoch, reduce, prog_bar, logger is not False, metric)

    @staticmethod
    def _is_metric(value: Any) -> bool:
        package = sys.modules.get("torchmetrics")
        return package is not None and isinstance(value, package.Metric)

    def _take(self, entry: Entry, value: Any, batch_size: Optional[int]) -> None:
        if self.mode == "once":
            self.at_once(entry, value if entry.metric else _number(entry.name, value))
            return
        if entry.hook not in _BATCH_HOOKS:
            raise Refused(f"self.log({entry.name!r}): {entry.hook} is no part of a shard")
        known = self.entries.get(entry.key)
        if self.mode == "learn":
            known = known or self.entries.setdefault(entry.key, entry)
        if known is None:
            raise Refused(
                f"self.log({entry.name!r}) is called in a later {entry.hook}, but was not in the first batch, from which "
                f"the places of sums are learnt: log it always, or name it: Trainer(logs=[('{entry.hook}', "
                f"'{entry.name}')])"
            )
        if known != entry:
            raise Refused(f"self.log({entry.name!r}) is called in {entry.hook} with other arguments than before")
        if self.mode == "learn" or entry.metric:
            return
        number = _number(entry.name, value)
        weight = self._weight(batch_size) if entry.reduce == "mean" else 1
        sums = self._sums.setdefault(entry.key, [0.0, 0.0, 0.0])
        if math.isfinite(number) and abs(number * weight) < 2.0**32:
            sums[0] += number * weight
        else:
            sums[2] += 1
        sums[1] += weight

    def _weight(self, batch_size: Optional[int]) -> int:
        return batch_size if batch_size is not None else self.batch_size_of(self.batch)

    def begin_shard(self) -> None:
        """Forgets the sums of the shard before."""
        self._sums = {}

    @property
    def numbers(self) -> List[Entry]:
        """The entries that have sums, in their order."""
        return [entry for entry in self.entries.values() if not entry.metric]

    def fill(self, coarse: torch.Tensor, fine: torch.Tensor) -> None:
        """Writes the sums of this shard. Shapes: three numbers for each of ``numbers``."""
        coarse.zero_()
        fine.zero_()
        for number, entry in enumerate(self.numbers):
            for i, value in enumerate(self._sums.get(entry.key, ())):
                coarse[_PER_ENTRY * number + i], fine[_PER_ENTRY * number + i] = split(value)

    @property
    def size(self) -> int:
        """How many numbers ``fill`` writes to each."""
        return _PER_ENTRY * len(self.numbers)

    def totals(self, coarse: torch.Tensor, fine: torch.Tensor) -> Dict[str, Tuple[float, float]]:
        """The sum and the weight of each entry that was logged, by key. A value that was not finite makes NaN."""
        values = (coarse.double() + fine.double()).tolist()
        found: Dict[str, Tuple[float, float]] = {}
        for number, entry in enumerate(self.numbers):
            total, weight, bad = values[_PER_ENTRY * number : _PER_ENTRY * number + _PER_ENTRY]
            if weight > 0:
                found[entry.key] = (math.nan if bad else total, weight)
        return found

    def shard_value(self, entry: Entry) -> Optional[Tuple[float, float]]:
        """The sum and the weight of an entry in this shard."""
        sums = self._sums.get(entry.key)
        return None if sums is None or sums[2] else (sums[0], sums[1])


def mean_of(entry: Entry, total: Tuple[float, float]) -> float:
    """The value of an entry from its sum and weight."""
    return total[0] if entry.reduce == "sum" else total[0] / total[1]


def _number(name: str, value: Any) -> float:
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise Refused(f"self.log({name!r}): the tensor has {value.numel()} elements, and one is logged: use .mean()")
        return float(value.detach())
    if isinstance(value, (int, float)):
        return float(value)
    raise Refused(f"self.log({name!r}): a {type(value).__name__} is no number")
