"""Attributes of the module and of callbacks that hold plain data: they are state, which only the end of a step may
change. A counter in ``on_train_epoch_end`` or the patience of an EarlyStopping is one."""
from __future__ import annotations

import collections
import enum
from typing import Any, Dict, FrozenSet, List, Mapping, Set

import torch

from ..errors import Refused

_PLAIN = (int, float, str, bytes, bool, type(None))
_SMALL = 64
_ENUM = "godwit enum"


def is_plain(value: Any) -> bool:
    """Whether a value is of a kind that the state can hold: numbers, strings, small tensors, and collections of these."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if isinstance(value, enum.Enum):
        return True
    if kind is torch.Tensor:
        return bool(value.numel() <= _SMALL and not value.requires_grad and value.layout == torch.strided)
    if kind in (list, tuple, set, frozenset, collections.deque):
        return all(is_plain(inner) for inner in value)
    if kind in (dict, collections.OrderedDict, collections.Counter):
        return all(type(key) in _PLAIN and is_plain(inner) for key, inner in value.items())
    return False


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        made = value.copy()
        for key, inner in value.items():
            made[key] = _copied(inner)
        return made
    if isinstance(value, collections.deque):
        return collections.deque((_copied(v) for v in value), value.maxlen)
    if type(value) in (list, tuple):
        return type(value)(_copied(v) for v in value)
    return value.copy() if isinstance(value, set) else value


class Attributes:
    """The plain attributes of an object, as something with ``state_dict``. ``room`` are bytes that they may grow to."""

    def __init__(self, thing: Any, what: str, left_out: FrozenSet[str] = frozenset(), room: int = 4096) -> None:
        self._thing = thing
        self._what = what
        self._left_out = left_out
        self.godwit_room = room
        self._own: Set[str] = set(self._plain())
        self._seen: Dict[str, Any] = {}
        self._others: Dict[str, Any] = {}

    def _plain(self) -> List[str]:
        return [k for k, v in vars(self._thing).items() if k not in self._left_out and is_plain(v)]

    def state_dict(self) -> Dict[str, Any]:
        """The attributes as they are. An Enum is its name."""
        found: Dict[str, Any] = {}
        for key in sorted(self._plain()):
            value = getattr(self._thing, key)
            found[key] = [_ENUM, value.name] if isinstance(value, enum.Enum) else value
        self._own = set(found)
        return found

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Makes the attributes what the state says; those that it does not have vanish."""
        for key in self._own - set(values):
            vars(self._thing).pop(key, None)
        for key, value in values.items():
            if isinstance(value, list) and len(value) == 2 and value[0] == _ENUM:
                value = type(getattr(self._thing, key))[value[1]]
            vars(self._thing)[key] = value
        self._own = set(values)

    def begin(self) -> None:
        """Notes what the attributes are before a shard."""
        own = vars(self._thing)
        self._seen = {key: _copied(own[key]) for key in self._own if key in own}
        self._others = {k: v for k, v in own.items() if k not in self._own and k not in self._left_out}

    def check(self, hook: str) -> None:
        """Refuses what a shard has changed."""
        own = vars(self._thing)
        for key, value in own.items():
            if key in self._left_out:
                continue
            if key in self._seen:
                if not _same(value, self._seen[key]):
                    self._refuse(hook, "changes", key)
            elif key not in self._others:
                self._refuse(hook, "makes", key)
            elif value is not self._others[key]:
                self._refuse(hook, "replaces", key)
        for key in self._seen:
            if key not in own:
                self._refuse(hook, "removes", key)

    def _refuse(self, hook: str, does: str, key: str) -> None:
        raise Refused(
            f"{hook} {does} {self._what}.{key}: batches are computed by any process, in any order, and perhaps twice, so "
            "that nothing is to be kept from one to the next. For a mean over the epoch, self.log(..., on_epoch=True) or "
            "a torchmetrics metric; counters belong in on_train_batch_end or on_validation_epoch_end"
        )
