"""Indexes of indexes that leave nothing empty behind."""

from __future__ import annotations

from typing import Any, TypeVar

_N = TypeVar("_N")
_K = TypeVar("_K")


def take(shelves: dict[_N, dict[_K, Any]], name: _N, key: _K) -> None:
    """Take a key from a shelf, and the shelf away if that was the last."""
    shelf = shelves.get(name)
    if shelf is not None:
        shelf.pop(key, None)
        if not shelf:
            del shelves[name]
