"""Every recorded decision of Karmada's scheduler, and of the proposal's rules, comes out in every field."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from berth.fleet.offline.cases import decode_case, evaluate_case
from tests.support.paths import DATA

FOLDER = DATA / "conformance-fleet"
# How many cases there are: a file that lost some would otherwise pass unnoticed.
FILES = {"upstream": 1198, "seed_api": 500}
FIELDS = {"affinityName", "feasible", "rejected", "result", "selected", "written"}


def recorded(name: str) -> list[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def differences(want: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """The recorded fields that came out otherwise; a message may be left open."""
    wrong = [field for field, value in want.items() if field != "error" and got[field] != value]
    if "error" in want:
        error, answer = want["error"], got["error"]
        if error is None or answer is None:
            wrong += ["error"] if error != answer else []
        else:
            wrong += ["error class"] if error["class"] != answer["class"] else []
            wrong += ["error message"] if error["message"] not in (None, answer["message"]) else []
    return wrong


@pytest.mark.parametrize("name", FILES)
def test_recorded_decisions(name: str) -> None:
    """Every decision comes out as recorded, with all reasons, errors and what is written."""
    rows = recorded(name)
    assert len(rows) == FILES[name]
    wrong: Counter[tuple[str, str]] = Counter()
    examples = []
    for row in rows:
        got = evaluate_case(decode_case(json.dumps(row).encode()))
        assert got["id"] == row["case"]["id"]
        for field in differences(row["expect"], got):
            wrong[row["case"]["category"], field] += 1
            examples.append(f"{row['case']['id']}: {field}")
    assert not wrong, (wrong, examples[:5])


def test_the_recorded_fields_are_compared() -> None:
    """A wrong answer in any recorded field is noticed, and nothing else is called wrong."""
    compared: set[str] = set()
    for want in (row["expect"] for row in recorded("upstream")):
        assert differences(want, want) == []
        wrong: dict[str, Any] = {
            field: {**want, field: "no such answer"} for field in want if field != "error"
        }
        if (error := want["error"]) is None:
            wrong["error"] = {**want, "error": {"class": "none", "message": "none"}}
        else:
            wrong["error"] = {**want, "error": None}
            wrong["error class"] = {**want, "error": {**error, "class": "none"}}
            if error["message"] is not None:
                wrong["error message"] = {**want, "error": {**error, "message": "none"}}
        assert {field: differences(want, got) for field, got in wrong.items()} == {
            field: [field] for field in wrong
        }
        compared |= wrong.keys()
    assert compared == FIELDS | {"error", "error class", "error message"}
