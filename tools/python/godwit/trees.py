"""JAX: nested parameters and optimizers' states (pytrees) as the named arrays of ``godwit.arrays``, and back.

    first = {**trees.named("params", params), **trees.named("opt", optimizer.init(params))}
    job = arrays.Job(first, trees.named("grad", params), shards=12, updates=500)
    ...
    params = trees.nested("params", params, state)      # a tree like ``params``, of arrays of JAX

An array's name is that of the tree and its path in it: ``params/layers/0/w``.
"""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Set, Tuple

import jax
import numpy

from .errors import Error


def _paths(name: str, tree: Any) -> List[Tuple[str, Any]]:
    """The leaves of a tree, each with its name."""
    found: List[Tuple[str, Any]] = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        parts = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
        found.append(("/".join([name, *parts]), leaf))
    seen: Set[str] = set()
    for full, _ in found:
        if full in seen:
            raise Error(f"the tree '{name}' has two leaves of the name '{full}': a key has a slash, which it may not")
        seen.add(full)
    return found


def named(name: str, tree: Any) -> Dict[str, "numpy.ndarray[Any, Any]"]:
    """The leaves of a tree as arrays of NumPy, by name. They may be views of JAX's memory, which nothing writes to."""
    return {path: numpy.asarray(leaf) for path, leaf in _paths(name, tree)}


def nested(name: str, like: Any, arrays: Mapping[str, Any]) -> Any:
    """The inverse of ``named``: a tree of the structure of ``like``, whose leaves are copies of the arrays.

    They must be copies: JAX takes NumPy's memory as its own where it can, and that of the state changes behind it.
    Raises Error where an array is missing.
    """
    names = [path for path, _ in _paths(name, like)]
    missing = [path for path in names if path not in arrays]
    if missing:
        raise Error(f"the tree '{name}' needs an array '{missing[0]}', which is not there")
    leaves = [jax.numpy.array(arrays[path], copy=True) for path in names]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), leaves)
