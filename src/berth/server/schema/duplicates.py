"""Fields that a JSON document gives twice; decoders quietly keep the last, strict validation does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Repeating(dict[str, Any]):
    """An object in which these names occurred more than once."""

    names: tuple[str, ...] = ()


def duplicate_fields(body: bytes | str) -> list[str]:
    """The paths of repeated fields, such as ``spec.replicas``; none if the body is no JSON at all."""
    found = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        found = True
        written = [name for name, _ in pairs]
        repeating = _Repeating(plain)
        repeating.names = tuple(name for name in plain if written.count(name) > 1)
        return repeating

    try:
        document = json.loads(body, object_pairs_hook=build)
        return list(_paths(document, "")) if found else []
    except (ValueError, RecursionError):
        return []


def _paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value, _Repeating):
            yield from (f"{path}.{name}" if path else name for name in value.names)
        for name, item in value.items():
            yield from _paths(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, f"{path}[{index}]")
