"""Every check finds its fault, and nothing in what barely has not got it."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.commands.lint import ALL_CHECKS, CODES
from berth.engine.offline.lint.run import CHECKS
from tests.engine.offline.lint.cases_between_pods import BETWEEN_PODS
from tests.engine.offline.lint.cases_of_nodes import OF_NODES
from tests.support.manifests.lint_case import Case, assert_found, assert_not_found, each_of

CASES = BETWEEN_PODS | OF_NODES


@pytest.mark.parametrize(("code", "case"), each_of(CASES))
def test_the_fault_is_found(tmp_path: Path, code: str, case: Case) -> None:
    """With its severity, at the field that is to blame, on a line of its object; once if it is there once."""
    assert_found(tmp_path, code, case)


@pytest.mark.parametrize(("code", "case"), each_of(CASES))
def test_what_barely_has_not_got_it(tmp_path: Path, code: str, case: Case) -> None:
    """The check has nothing to say, at least not with that severity."""
    assert_not_found(tmp_path, code, case)


def test_every_check_is_tested() -> None:
    """No code without a fault, and no fault without a code; no code or name twice, all of one form."""
    assert sorted(CASES) == [check.code for check in CHECKS]
    assert len({check.words.name for check in ALL_CHECKS}) == len(ALL_CHECKS) == len(CODES)
