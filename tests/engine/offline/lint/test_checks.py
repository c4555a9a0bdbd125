"""Every check finds its fault, and nothing in what barely has not got it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli.commands.lint import ALL_CHECKS
from tests.engine.offline.lint.case import Case
from tests.engine.offline.lint.cases_between_pods import BETWEEN_PODS
from tests.engine.offline.lint.cases_of_nodes import OF_NODES
from tests.support.cli.command import berth
from tests.support.manifests.lint import Object

CASES = BETWEEN_PODS | OF_NODES
EACH = [
    pytest.param(code, case, id=f"{code}-{i}")
    for code, cases in CASES.items()
    for i, case in enumerate(cases)
]


def findings(folder: Path, objects: list[Object], *flags: str) -> list[dict[str, Any]]:
    file = folder / "all.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    outcome = berth("lint", "-f", file, "-o", "json", *flags)
    assert outcome.code in (0, 1), outcome.err
    found: list[dict[str, Any]] = json.loads(outcome.out)["findings"]
    return found


@pytest.mark.parametrize(("code", "case"), EACH)
def test_the_fault_is_found(tmp_path: Path, code: str, case: Case) -> None:
    """With its severity, at the field that is to blame, on a line of its object; once if it is there once."""
    found = [each for each in findings(tmp_path, case.bad, *case.flags) if each["code"] == code]
    assert found, "nothing is found"
    assert {(each["severity"], each["path"]) for each in found} == {(case.severity, case.path)}
    for each in found:
        assert each["line"]
        assert each["why"]
        assert not each["why"].endswith(".")
        assert each["fix"]


@pytest.mark.parametrize(("code", "case"), EACH)
def test_what_barely_has_not_got_it(tmp_path: Path, code: str, case: Case) -> None:
    """The check has nothing to say, at least not with that severity."""
    found = [each for each in findings(tmp_path, case.good, *case.flags) if each["code"] == code]
    assert found == []


def test_every_check_is_tested() -> None:
    """No code without a fault, and no fault without a code; no code or name twice, all of one form."""
    codes = [code for code, _, _ in ALL_CHECKS]
    assert sorted(CASES) == codes
    assert len({words.name for _, words, _ in ALL_CHECKS}) == len(codes)
