"""The versions of Kubernetes that Berth follows."""

from __future__ import annotations

import ast

from berth.kube.versions import NEWEST, VERSIONS
from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "berth"
TABLE = SOURCE / "kube" / "versions.py"


def test_the_newest_is_the_last() -> None:
    """Versions stand in their order, each under its own name and with a release of its own."""
    assert list(VERSIONS) == sorted(VERSIONS)
    assert list(VERSIONS.values())[-1] is NEWEST
    assert all(version.name == name for name, version in VERSIONS.items())
    assert all(version.release.startswith(f"v{name}.") for name, version in VERSIONS.items())


def test_nothing_else_asks_for_a_version_by_its_name() -> None:
    """Code asks what a version does, never which one it is; only the table has their names."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if path != TABLE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in VERSIONS
    ]
    assert found == []
