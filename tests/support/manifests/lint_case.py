"""Faults that `berth lint` finds: what a case is, and whether it comes out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli.command import berth
from tests.support.manifests.lint import Object


@dataclass(frozen=True)
class Case:
    """One fault.

    Attributes:
        bad: Objects that have it, and `good`, nearly the same that do not.
        severity: What it comes to.
        path: The field that is to blame.
        flags: Given to the command both times.
    """

    bad: list[Object]
    good: list[Object]
    severity: str
    path: str
    flags: tuple[str, ...] = ()


def each_of(cases: dict[str, list[Case]]) -> list[Any]:
    """The parameters of a test that takes a code and a case."""
    return [
        pytest.param(code, case, id=f"{code}-{i}")
        for code, held in cases.items()
        for i, case in enumerate(held)
    ]


def findings(folder: Path, objects: list[Object], *flags: str) -> list[dict[str, Any]]:
    file = folder / "all.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    outcome = berth("lint", "-f", file, "-o", "json", *flags)
    assert outcome.code in (0, 1), outcome.err
    found: list[dict[str, Any]] = json.loads(outcome.out)["findings"]
    return found


def assert_found(folder: Path, code: str, case: Case) -> None:
    """The fault is found, with its severity and at the field that is to blame."""
    found = [each for each in findings(folder, case.bad, *case.flags) if each["code"] == code]
    assert found, "nothing is found"
    assert {(each["severity"], each["path"]) for each in found} == {(case.severity, case.path)}
    for each in found:
        assert each["line"]
        assert each["why"]
        assert not each["why"].endswith(".")
        assert each["fix"]


def assert_not_found(folder: Path, code: str, case: Case) -> None:
    """The check has nothing to say of what barely has not got the fault."""
    found = [each for each in findings(folder, case.good, *case.flags) if each["code"] == code]
    assert found == []
