"""The reference against what kube-scheduler answered, field by field and version by version."""

from pathlib import Path

import pytest

from tests.reference import evaluate
from tests.reference.recordings import FILES, name_of, recorded

SINGLE = [path for path in FILES if not path.name.startswith("sequence")]
(SEQUENCE,) = [path for path in FILES if path not in SINGLE]
SEQUENCES = 25


@pytest.mark.parametrize("path", SINGLE, ids=name_of)
def test_single(path: Path) -> None:
    """Every answer is the recorded one: reasons, codes, raw scores, skipped steps and all."""
    for version, case, expected in recorded(path):
        assert expected == evaluate(case, version), (version.name, case["id"])


@pytest.mark.parametrize("index", range(SEQUENCES))
def test_sequence(index: int) -> None:
    """Every step of a sequence of placements is the recorded one."""
    version, case, expected = list(recorded(SEQUENCE))[index]

    assert expected == evaluate(case, version)


def test_data() -> None:
    """All recorded cases are there, some of them with the answers of two versions."""
    assert sum(1 for path in SINGLE for _ in recorded(path)) == 3300 + 750 + 360
    assert sum(1 for _ in recorded(SEQUENCE)) == SEQUENCES
