"""Ages as kubectl writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.times import seconds_of
from berth.server.tables import age, human_duration
from tests.support.manifests.api_objects import PROPERTY

MINUTE, HOUR, DAY = 60, 3600, 86_400
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (5 * MINUTE + 10, "5m10s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR + 20 * MINUTE, "3h20m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY + HOUR, "8d"),
        (700 * DAY, "700d"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (9 * YEAR, "9y"),
    ],
)
def test_units_follow_the_length(seconds: float, text: str) -> None:
    """A duration is written as kubectl writes it."""
    assert text == human_duration(seconds)


@PROPERTY
@given(st.floats(0, 20 * YEAR))
def test_never_longer_than_a_column(seconds: float) -> None:
    """No duration is longer than six characters."""
    assert len(human_duration(seconds)) <= 6


def test_timestamps() -> None:
    """Timestamps are read with zone and fraction; anything else has an unknown age."""
    assert seconds_of("1970-01-01T00:01:00Z") == 60
    assert seconds_of("1970-01-01T01:01:00.5+01:00") == 60.5
    assert seconds_of("whenever") is None
    assert age("1970-01-01T00:00:00Z", 5 * MINUTE) == "5m"
    assert age(None, 0) == "<unknown>"
