"""Whether a reschedule was asked for after the last scheduling."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from berth.fleet.state.strategy import reschedule_required
from tests.support.fleet.builders import make_binding


@pytest.mark.parametrize(
    ("asked", "done", "expected"),
    [
        ("2026-05-01T10:00:01Z", "2026-05-01T10:00:00Z", True),
        ("2026-05-01T10:00:00Z", "2026-05-01T10:00:00Z", False),
        ("2026-05-01T12:00:00+01:00", "2026-05-01T10:00:00Z", True),
        ("2026-05-01T12:00:00+02:00", "2026-05-01T10:00:00Z", False),
        ("2026-05-01T10:00:01Z", None, False),
        (None, "2026-05-01T10:00:00Z", False),
        ("tomorrow", "2026-05-01T10:00:00Z", False),
        ("2027-01-01T00:00:00", "2026-05-01T10:00:00Z", False),  # of no zone: it could be any moment
        ("2027-01-01", "2026-05-01T10:00:00Z", False),
    ],
)
def test_reschedule_required(asked: str | None, done: str | None, expected: bool) -> None:
    """A reschedule is due only when it was asked for after the last scheduling."""
    binding = make_binding("web").build()
    binding = replace(
        binding,
        spec=replace(binding.spec, reschedule_triggered_at=asked),
        status=replace(binding.status, last_scheduled_time=done),
    )
    assert reschedule_required(binding) is expected
