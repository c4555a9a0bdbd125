"""Indexes of indexes that leave nothing empty behind."""

from __future__ import annotations

from typing import Any, TypeVar

_N = TypeVar("_N")
_K = TypeVar("_K")


def take(index: dict[_N, dict[_K, Any]], name: _N, key: _K) -> None:
    """Take a key from one of the inner indexes, and the inner one away if that was the last."""
    inner = index.get(name)
    if inner is not None:
        inner.pop(key, None)
        if not inner:
            del index[name]
