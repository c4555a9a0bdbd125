"""Whole tables of some objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from berth.server.tables import Column, render_row, table_head


def render_table(
    columns: tuple[Column, ...], objects: Iterable[dict[str, Any]], now: float, include: str = "Metadata"
) -> dict[str, Any]:
    rows = [render_row(columns, obj, now, include) for obj in objects]
    return {**table_head(columns, {}), "rows": rows}
