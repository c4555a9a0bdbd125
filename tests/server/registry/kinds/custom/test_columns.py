"""Columns of custom resources and their JSONPath."""

from __future__ import annotations

from typing import Any

import pytest

from berth.server.registry.kinds.custom.columns import columns, find
from tests.server.registry.kinds.rendering import render_table

OBJ: dict[str, Any] = {
    "metadata": {"name": "w", "labels": {"a.b/c": "dotted"}, "creationTimestamp": "1970-01-01T00:00:00Z"},
    "spec": {"n": 3, "f": 1.5, "on": True, "list": [{"x": 1}, {"x": 2}], "map": {"k": "v"}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.n", [3]),
        (".spec.list[0].x", [1]),
        (".spec.list[-1].x", [2]),
        (".spec.list[7].x", []),
        (".spec.list[*].x", [1, 2]),
        (".spec.map[*]", ["v"]),
        (r".metadata.labels.a\.b/c", ["dotted"]),
        (".metadata.labels['a\\.b/c']", ["dotted"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.list[?(@.x==2)].x", [2]),
        (".nope.nope", []),
        (".spec.n.deeper", []),
        (".spec[", []),
        ("spec", []),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    """A JSONPath finds the values kube-apiserver finds, and nothing when it is malformed."""
    assert found == list(find(OBJ, path))


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", ".spec.n", "3"),
        ("string", ".spec.map", '{"k":"v"}'),
        ("string", ".spec.on", "true"),
        ("integer", ".spec.f", 1),
        ("integer", ".spec.on", None),
        ("number", ".spec.n", 3.0),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.n", None),
        ("date", ".metadata.creationTimestamp", "5m"),
        ("date", ".metadata.name", "<invalid>"),
        ("string", ".nope", None),
    ],
)
def test_cells_have_the_type_of_the_column(kind: str, path: str, cell: object) -> None:
    """A value that does not fit its column's type is left out."""
    given = [{"name": "Col", "type": kind, "jsonPath": path, "priority": 1}]
    table = render_table(columns(given), [OBJ], 300)
    assert ["w", cell] == table["rows"][0]["cells"]
    assert [heading["name"] for heading in table["columnDefinitions"]] == ["Name", "Col"]
    assert table["columnDefinitions"][1]["priority"] == 1


def test_without_columns_there_is_the_age() -> None:
    """A definition without columns, or with an empty list of them, shows name and age."""
    assert render_table(columns(None), [OBJ], 300)["rows"][0]["cells"] == ["w", "5m"]
    assert render_table(columns([]), [OBJ], 300)["rows"][0]["cells"] == ["w", "5m"]


BUSY = {"l": [{"l": [{"l": [{"y": 1}] * 40}] * 40}] * 40, "text": "x" * 1_000_000}


@pytest.mark.parametrize(
    "path",
    [
        ".spec.l[*].l[*].l[*].x",
        ".spec.text",
        ".spec.l",
        f".spec{'[*]' * 20_000}",
        ".spec.l[?(@.l != 'x')].x",
    ],
)
def test_a_row_costs_only_so_much(path: str) -> None:
    """However many columns ask for much of a large object, the row stays small; the next one begins anew."""
    wanted = [("string", ".spec.n"), *[("string", path)] * 300, ("string", ".spec.n")]
    given = [{"name": f"c{i}", "type": kind, "jsonPath": path} for i, (kind, path) in enumerate(wanted)]
    table = render_table(columns(given), [{**OBJ, "spec": {**BUSY, "n": 3}}, OBJ], 300)
    large, small = (row["cells"] for row in table["rows"])
    assert large[:2] == ["w", "3"]
    assert large[-1] is None
    assert sum(len(cell or "") for cell in large) < 5_000_000
    assert small[:2] == ["w", "3"]


def test_only_what_a_cell_shows_is_looked_for() -> None:
    """The first value of very many is found at once, in every column."""
    given = [{"name": f"c{i}", "type": "integer", "jsonPath": ".spec.l[*].l[*].l[*].y"} for i in range(50)]
    assert render_table(columns(given), [{**OBJ, "spec": BUSY}], 300)["rows"][0]["cells"] == ["w"] + [1] * 50
