"""The engine against every recorded decision of kube-scheduler, version by version."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from berth.engine.offline.cases import decode_case, evaluate_case
from tests.reference.recordings import FILES, V1_36, V1_37, name_of, recorded

# What 1.37 answers differently in the cases that were recorded of 1.36 only.
CHANGED = "negative-namespace-selector"


def by_field(verdict: dict[str, Any]) -> dict[str, Any]:
    """Validation errors have no order."""
    if "validation" not in verdict:
        return verdict
    errors = sorted(verdict["validation"], key=lambda error: (error["field"], error["type"], error["detail"]))
    return {**verdict, "validation": errors}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_recorded_answer_is_reproduced(path: Path) -> None:
    """Validation errors, filters with their reasons, raw and normalized scores, totals, steps are equal."""
    wrong = []
    for version, case, expected in recorded(path):
        if by_field(expected) != by_field(evaluate_case(decode_case(json.dumps(case)), version)):
            wrong.append((version.name, case["id"]))

    assert wrong == []


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name == "conformance"], ids=name_of)
def test_the_newer_version_answers_the_rest_alike(path: Path) -> None:
    """Only cases with negative namespace selectors, and PreFilter steps, differ between 1.36 and 1.37."""
    wrong = []
    for _, case, expected in recorded(path):
        answer = evaluate_case(decode_case(json.dumps(case)), V1_37)
        if "prefilter" in expected:
            steps = ("NodeName", "NodeUnschedulable", "TaintToleration")
            assert all(answer["prefilter"].pop(step)["code"] == "Success" for step in steps)
        if CHANGED not in case.get("tags", ()) and by_field(answer) != by_field(expected):
            wrong.append(case["id"])

    assert wrong == []


def test_the_data_is_complete() -> None:
    """3300 single cases and 25 sequences of 1.36, 750 of 1.37, and 360 with the answers of both are there."""
    counts: Counter[str] = Counter()
    for path in FILES:
        folder = path.parent.name
        for version, case, _ in recorded(path):
            counts[f"{folder} {version.name}{' sequences' if 'sequence' in case else ''}"] += 1

    assert counts == {
        f"conformance {V1_36.name}": 3300,
        f"conformance {V1_36.name} sequences": 25,
        f"conformance-1.37 {V1_37.name}": 750,
        f"conformance-1.37 {V1_36.name}": 360,
    }
