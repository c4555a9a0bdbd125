"""The engine against every recorded decision of kube-scheduler v1.36.4."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from berth.engine.offline.cases import decode_case, evaluate_case
from tests.support import paths

DATA = paths.DATA / "conformance"
FILES = sorted(path.name for path in DATA.glob("*.jsonl.gz"))


def recorded(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            yield entry["case"], entry["expect"]


def by_field(verdict: dict[str, Any]) -> dict[str, Any]:
    """Validation errors have no order."""
    if "validation" not in verdict:
        return verdict
    errors = sorted(verdict["validation"], key=lambda error: (error["field"], error["type"], error["detail"]))
    return {**verdict, "validation": errors}


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_answer_is_reproduced(name: str) -> None:
    """Validation errors, filters with their reasons, raw and normalized scores, totals, steps are equal."""
    wrong = []
    for case, expected in recorded(name):
        if by_field(expected) != by_field(evaluate_case(decode_case(json.dumps(case)))):
            wrong.append(case["id"])

    assert wrong == []


def test_the_data_is_complete() -> None:
    """3300 single cases and 25 sequences are there to be compared."""
    sizes = {name: sum(1 for _ in recorded(name)) for name in FILES}

    assert sizes.pop("sequence.jsonl.gz") == 25
    assert sum(sizes.values()) == 3300
