"""One figure a row: measured value, limit, and the yardstick both are judged by."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value.

    Attributes:
        yardstick: Microseconds of what it is judged beside in the same run (a gather over `nodes` nodes, a
            bare request, a binding), None where it plays no part.
        limit: What the value should reach (`better` higher) or stay below (lower), None for information.
    """

    name: str
    nodes: int
    running: int
    value: float
    unit: str
    yardstick: float | None = None
    limit: float | None = None
    better: Literal["higher", "lower"] = "lower"

    @property
    def met(self) -> bool | None:
        if self.limit is None:
            return None
        return self.value >= self.limit if self.better == "higher" else self.value <= self.limit


def print_table(figures: list[Figure]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for heading, justify in (("NAME", "left"), ("NODES", "right"), ("RUNNING", "right"), ("VALUE", "right")):
        table.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
    for heading in ("UNIT", "LIMIT", "YARDSTICK µs", "MET"):
        table.add_column(heading, justify="left" if heading in {"UNIT", "MET"} else "right", no_wrap=True)
    for f in figures:
        verdict = {None: "", True: "[green]yes[/green]", False: "[red]no[/red]"}[f.met]
        table.add_row(
            f.name,
            f"{f.nodes:,}" if f.nodes else "",
            f"{f.running:,}" if f.running else "",
            _short(f.value),
            f.unit,
            "" if f.limit is None else ("≥ " if f.better == "higher" else "≤ ") + _short(f.limit),
            "" if f.yardstick is None else f"{f.yardstick:.1f}",
            verdict,
        )
    console = Console()
    console.width = max(console.width, 140)  # a table in a log file is cut to 80 columns otherwise
    console.print(table)


def write_json(figures: list[Figure], path: Path) -> None:
    path.write_text(json.dumps([asdict(f) for f in figures], indent=2) + "\n", encoding="utf-8")


def merge_json(figures: list[Figure], path: Path) -> None:
    """Replace the figures of these names, and keep the others that are there."""
    names = {f.name for f in figures}
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [entry for entry in known if entry["name"] not in names]
    path.write_text(json.dumps([*kept, *map(asdict, figures)], indent=2) + "\n", encoding="utf-8")


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
