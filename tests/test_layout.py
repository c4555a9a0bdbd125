"""Where the tests keep what several of them use: in tests/support, or in modules that hold no tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT


def imported(path: Path) -> Iterator[str]:
    """The modules that a module imports, and what it takes from them, in full."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_test_is_imported() -> None:
    """No test module and no conftest is imported by another module of the tests."""
    tests = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "tests").rglob("*.py")
        if path.name == "conftest.py" or path.name.startswith("test_")
    }
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in imported(path)
        if not tests.isdisjoint({name, name.rpartition(".")[0]})
    }
    assert tests
    assert found == set()
