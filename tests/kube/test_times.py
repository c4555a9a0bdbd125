"""Durations in Go's notation."""

import pytest

from berth.kube.times import DurationError, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        ("2us", 2e-6),
        ("2\u00b5s", 2e-6),
        (".5s", 0.5),
        ("-2s", -2.0),
        ("0", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """Numbers with units add up, whatever their order."""
    assert seconds == parse_duration(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("s", 'time: invalid duration "s"'),
        ("15", 'time: missing unit in duration "15"'),
        ("1s5", 'time: missing unit in duration "1s5"'),
        ("15x", 'time: unknown unit "x" in duration "15x"'),
        ("15 s", 'time: unknown unit " s" in duration "15 s"'),
        ("9999999999h", 'time: invalid duration "9999999999h"'),
    ],
)
def test_what_is_none(text: str, message: str) -> None:
    """The message is the one Go would give."""
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert message == str(caught.value)
