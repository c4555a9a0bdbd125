"""Pod templates compared and hashed, and numbers that may be percentages."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from berth.machines.contract import RawObject

TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"

# The alphabet of Kubernetes' own hashes: no vowels, no look-alikes.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 10


def digest(value: object, collisions: int | None = None) -> str:
    """A short name for a value; `collisions` gives another one if that was taken."""
    content = msgspec.json.encode((value, collisions or 0), order="sorted")
    number = int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "big")
    letters = []
    for _ in range(_LENGTH):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)


def plain(template: RawObject | None, label: str = TEMPLATE_HASH) -> RawObject:
    """A template without the hash label and without what means nothing: nulls and empty metadata."""
    cleaned: RawObject = _without_nulls(template or {})
    metadata = dict(cleaned.get("metadata") or {})
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != label}
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    return {**cleaned, "metadata": metadata}


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
