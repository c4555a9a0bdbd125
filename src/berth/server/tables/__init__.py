"""Objects as a ``Table``, the form ``kubectl get`` asks for, with Kubernetes' own columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from berth.server.tables.cells import Column


def render_table(
    columns: tuple[Column, ...],
    objects: Iterable[dict[str, Any]],
    now: float,
    include_object: str = "Metadata",
    *,
    metadata: Mapping[str, Any] | None = None,
    headers: bool = True,
) -> dict[str, Any]:
    """The table of some objects at a moment (seconds since the epoch).

    `include_object` is ``None``, ``Metadata`` or ``Object``, as the query parameter has it;
    `metadata` is that of the list. In a watch, `headers` are wanted with the first event only.
    """
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata or {}),
        "columnDefinitions": [_header(column) for column in columns] if headers else None,
        "rows": [render_row(columns, obj, now, include_object) for obj in objects],
    }


def _header(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": "",
        "priority": int(column.wide),
    }


def render_row(columns: tuple[Column, ...], obj: dict[str, Any], now: float, include: str) -> dict[str, Any]:
    """The row of one object."""
    row: dict[str, Any] = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial_metadata(obj)
    return row


def partial_metadata(obj: dict[str, Any]) -> dict[str, Any]:
    """An object cut down to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }
