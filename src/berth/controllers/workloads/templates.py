"""Pod templates in a form in which those that mean the same are equal."""

from __future__ import annotations

from typing import Any

from berth.kube.objects import RawObject
from berth.kube.well_known import TEMPLATE_HASH


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
