"""The versions of Kubernetes that Berth follows."""

from __future__ import annotations

import ast
import dataclasses
import re

import pytest

from berth.kube.versions import (
    NEWEST,
    OLDEST,
    VERSIONS,
    KubernetesVersion,
    ServerVersion,
    version_of_server,
)
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


@pytest.mark.parametrize(
    ("said", "followed"),
    [
        ("v1.36.4", "1.36"),
        ("v1.37.0-rc.1", "1.37"),
        ("v1.37.2-gke.1100", "1.37"),
        ("v1.36.9+k3s1", "1.36"),
        ("1.37+", "1.37"),
    ],
)
def test_a_server_of_a_known_version(said: str, followed: str) -> None:
    """It is followed as what it says, whatever its builder put behind the minor version, without a word."""
    assert version_of_server(said) == ServerVersion(VERSIONS[followed], said)


@pytest.mark.parametrize(
    ("said", "followed", "note"),
    [
        ("v1.38.0", NEWEST, "the server is v1.38.0, newer than what Berth knows; it is followed as 1.37"),
        ("v2.0.1", NEWEST, "the server is v2.0.1, newer than what Berth knows; it is followed as 1.37"),
        ("v1.4.9", OLDEST, "the server is v1.4.9, older than what Berth knows; it is followed as 1.36"),
        ("", NEWEST, "the server's version is not known (it does not say which); it is followed as 1.37"),
        (".", NEWEST, "the server's version is not known (it does not say which); it is followed as 1.37"),
    ],
)
def test_a_server_of_another_version(said: str, followed: KubernetesVersion, note: str) -> None:
    """It is followed as the nearest that is known, and a note says so; numbers are not compared as text."""
    assert version_of_server(said) == ServerVersion(followed, said, note)


def test_every_difference_is_documented() -> None:
    """The page about versions has a row for every field of the table, and names every version."""
    page = (ROOT / "docs" / "kubernetes-versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    told = {field.name for field in dataclasses.fields(KubernetesVersion)} - {"name", "release"}
    assert set(rows) == told
    assert all(f"**{name}**" in page for name in VERSIONS)
