"""What happened, as the page keeps it."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.web.events import EventLog, PageEvent


def event(name: str | None, count: int) -> PageEvent:
    said: dict[str, Any] = {"metadata": {"namespace": "default", "name": name}, "count": count}
    return msgspec.convert({**said, "reason": "FailedScheduling"}, PageEvent)


def test_an_event_that_is_counted_up_is_told_once() -> None:
    """The newest figure counts, and it comes last."""
    log = EventLog()
    for name, count in (("a", 1), ("b", 1), ("a", 2)):
        log.put(event(name, count))
    assert [(told["id"], told["count"]) for told in log] == [("default/b", 1), ("default/a", 2)]


def test_events_without_a_name_are_told_apart() -> None:
    """In a file somebody wrote they may have none."""
    log = EventLog()
    log.put(event(None, 1))
    log.put(event(None, 1))
    assert len(list(log)) == 2


def test_only_the_newest_are_kept() -> None:
    """A cluster that runs for months does not fill the page's memory."""
    log = EventLog()
    for number in range(1200):
        log.put(event(f"e{number}", 1))
    kept = [told["id"] for told in log]
    assert (len(kept), kept[-1]) == (1000, "default/e1199")
