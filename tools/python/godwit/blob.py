"""Numbers as bytes: what an optimizer, a scheduler or a counter keeps outside of tensors, in one form.

The bytes are a function of the values alone: JSON with sorted keys and the shortest digits that give the same
double, followed by zeros up to a fixed size. What JSON lacks is written as an object with one key that begins
with "!".
"""
from __future__ import annotations

import collections
import json
from typing import Any, Callable, Dict, List, Tuple

from .errors import Refused

TensorCodec = Tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""A function that gives plain data for an object that it knows (None for others), and its inverse."""


class Blobs:
    """Encodes and decodes values. ``foreign`` is for objects of a library (small tensors)."""

    def __init__(self, foreign: TensorCodec) -> None:
        self._foreign = foreign

    def encode(self, value: Any, what: str) -> bytes:
        """The bytes of a value: None, bool, int, float, str, bytes, list, tuple, set, frozenset, deque, dict
        and its kinds in ``collections``, nested. Raises Refused, which names ``what`` and the place."""
        return json.dumps(self._plain(value, what), sort_keys=True, separators=(",", ":")).encode()

    def decode(self, data: bytes) -> Any:
        """The value of what ``encode`` returned; zeros behind it are ignored."""
        return self._value(json.loads(data.rstrip(b"\0")))

    def _plain(self, value: Any, what: str) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, bytes):
            return {"!bytes": value.hex()}
        if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
            return self._sequence(value, what)
        if isinstance(value, dict):
            return self._mapping(value, what)
        known = self._foreign[0](value)
        if known is not None:
            return {"!tensor": known}
        item = getattr(value, "item", None)
        if callable(item) and getattr(value, "shape", None) == ():  # a scalar of NumPy
            return self._plain(item(), what)
        raise Refused(
            f"{what} is of type {type(value).__module__}.{type(value).__qualname__}, which cannot be part of the "
            "state: it may be numbers, strings, and lists, tuples, sets and dictionaries of them"
        )

    def _sequence(self, value: Any, what: str) -> Any:
        plain = [self._plain(v, f"{what}[{i}]") for i, v in enumerate(value)]
        if type(value) is list:
            return plain
        if isinstance(value, (set, frozenset)):
            plain.sort(key=lambda p: json.dumps(p, sort_keys=True))
            return {"!frozenset" if isinstance(value, frozenset) else "!set": plain}
        if isinstance(value, collections.deque):
            return {"!deque": [plain, value.maxlen]}
        if type(value) in (list, tuple):
            return {"!tuple": plain}
        raise Refused(f"{what} is of type {type(value).__qualname__}; use a list or a tuple")

    def _mapping(self, value: Dict[Any, Any], what: str) -> Any:
        kinds = {dict: "", collections.OrderedDict: "!ordered", collections.Counter: "!counter"}
        if type(value) not in kinds:
            raise Refused(f"{what} is of type {type(value).__qualname__}; use a dict")
        kind = kinds[type(value)]
        plain = {k: self._plain(v, f"{what}[{k!r}]") for k, v in value.items()}
        if kind == "" and all(isinstance(k, str) and not k.startswith("!") for k in plain):
            return plain
        pairs = [[self._plain(k, f"a key of {what}"), v] for k, v in plain.items()]
        if kind != "!ordered":
            pairs.sort(key=lambda p: json.dumps(p[0], sort_keys=True))
        return {kind or "!dict": pairs}

    def _value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self._value(p) for p in plain]
        if not isinstance(plain, dict):
            return plain
        kind = next(iter(plain), "")
        if len(plain) != 1 or not kind.startswith("!"):
            return {k: self._value(v) for k, v in plain.items()}
        inner = plain[kind]
        if kind == "!tensor":
            return self._foreign[1](inner)
        if kind == "!bytes":
            return bytes.fromhex(inner)
        if kind == "!deque":
            return collections.deque(self._value(inner[0]), inner[1])
        if kind in ("!dict", "!ordered", "!counter"):
            pairs: List[Tuple[Any, Any]] = [(self._value(k), self._value(v)) for k, v in inner]
            if kind == "!counter":
                return collections.Counter(dict(pairs))
            return collections.OrderedDict(pairs) if kind == "!ordered" else dict(pairs)
        made: Dict[str, Callable[[Any], Any]] = {"!tuple": tuple, "!set": set, "!frozenset": frozenset}
        return made[kind](self._value(inner))


def room_for(data: bytes, least: int = 0) -> int:
    """The size of the state tensor for numbers that are ``data`` now: numbers grow digits, and lists entries."""
    size = max(2 * len(data) + 256, least)
    return (size + 63) // 64 * 64


def padded(data: bytes, size: int, what: str) -> bytes:
    """The bytes with zeros behind them. Raises Refused where they do not fit."""
    if len(data) > size:
        raise Refused(
            f"{what} has grown to {len(data)} bytes; the state has room for {size}. What grows without end does "
            "not belong into the state: keep sums, or write to a file in @job.after"
        )
    return data + bytes(size - len(data))
