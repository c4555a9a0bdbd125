"""The reference against what kube-scheduler v1.36.4 answered, field by field."""

import gzip
import json
from typing import Any

import pytest

from tests.reference import evaluate
from tests.support import paths

DATA = paths.DATA / "conformance"
SINGLE = sorted(path.name for path in DATA.glob("*.jsonl.gz") if not path.name.startswith("sequence"))
SEQUENCES = 25


def recorded(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", SINGLE)
def test_single(name: str) -> None:
    """Every answer is the recorded one: reasons, codes, raw scores, skipped steps and all."""
    for record in recorded(name):
        assert record["expect"] == evaluate(record["case"]), record["case"]["id"]


@pytest.mark.parametrize("index", range(SEQUENCES))
def test_sequence(index: int) -> None:
    """Every step of a sequence of placements is the recorded one."""
    record = recorded("sequence.jsonl.gz")[index]

    assert record["expect"] == evaluate(record["case"])


def test_data() -> None:
    """All recorded cases are there."""
    assert sum(len(recorded(name)) for name in SINGLE) == 3300
    assert len(recorded("sequence.jsonl.gz")) == SEQUENCES
