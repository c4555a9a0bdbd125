"""What is known of a group fits its phase, and phases follow each other as the table says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from berth.engine.execution.rebalancing import Move, Unevenness
from berth.spreading.records import PATIENCE, SentMove, SpreadPhase, SpreadRecord, SpreadRecords

KEYS = [("default", name) for name in ("a", "b", "c")]


def move(pod: str) -> Move:
    return Move(pod, "n1", "n2", Unevenness(2, 0), Unevenness(0, 0), "spread over zones")


def waiting(*keys: tuple[str, str]) -> SpreadRecords:
    """Groups that each have a pod to move."""
    records = SpreadRecords()
    for key in keys:
        records.want(records.of(key), move(f"{key[0]}/{key[1]}-1"), 2, 1.0)
    records.validate()
    return records


def sent(record: SpreadRecord, now: float) -> SentMove:
    assert record.move is not None
    return SentMove(record.move, "uid", now, frozenset())


def test_a_move_from_the_wish_to_the_end() -> None:
    """Each step leads to the next phase, and everything known fits it."""
    records = waiting(*KEYS)
    record = records.by_key[KEYS[0]]
    seen = [record.phase]

    def looked_at() -> None:
        record.move, record.planned = None, 0

    steps: list[Callable[[], None]] = [
        lambda: records.choose(record, 2.0),
        lambda: records.send(record, sent(record, 3.0)),
        lambda: records.lose(record),
        lambda: records.send(record, sent(record, 4.0)),
        lambda: records.send(record, sent(record, 5.0)),
        looked_at,
        lambda: records.land(record, 6.0),
        lambda: records.settle(record),
    ]
    for step in steps:
        step()
        records.validate()
        seen.append(record.phase)
    names = " ".join(phase.name for phase in seen)
    assert names == "WAITING CHOSEN MOVING CHOSEN MOVING MOVING MOVING LANDED RESTING"
    assert (records.replaced, records.chosen, records.under_way) == (6.0, {}, {})


def test_what_does_not_follow_is_refused() -> None:
    """Nobody moves whose turn it is not, and nothing lands that was not sent."""
    records = waiting(KEYS[0])
    record = records.by_key[KEYS[0]]
    with pytest.raises(AssertionError, match="cannot go from WAITING to MOVING"):
        records.send(record, sent(record, 1.0))
    records = waiting(KEYS[0])
    with pytest.raises(AssertionError, match="cannot go from WAITING to LANDED"):
        records.land(records.by_key[KEYS[0]], 1.0)


def test_turns_go_round() -> None:
    """After the last that was chosen comes the next; who was asked is not, until a replacement has a node."""
    records = waiting(*KEYS)
    a, b, c = (records.by_key[key] for key in KEYS)
    records.choose(b, 10.0)
    assert records.in_order([c, a]) == [c, a]
    c.asked = True
    records.rest(c)
    assert records.in_order([a, c]) == [a]
    assert (records.taken_until(11.0), records.taken_until(10.0 + PATIENCE)) == (10.0 + PATIENCE, None)
    records.send(b, sent(b, 12.0))
    b.move, b.planned = None, 0
    records.land(b, 13.0)
    assert (records.taken_until(13.0), records.in_order([a, c])) == (None, [c, a])
    records.begin_anew()
    assert records.in_order([c, a]) == [a, c]


def test_others_may_move_only_when_that_is_told() -> None:
    """Whoever asks again and again need not, while the same may move."""
    records = waiting(*KEYS)
    assert records.revision == 0
    record = records.by_key[KEYS[0]]
    records.choose(record, 1.0)
    records.want(record, move("default/a-2"), 1, 2.0)
    assert records.revision == 2
    records.send(record, sent(record, 3.0))
    assert records.revision == 2
    records.forget(KEYS[0])
    records.forget(KEYS[0])
    assert (records.revision, record.phase) == (3, SpreadPhase.RESTING)
    records.validate()


def test_what_does_not_fit_its_phase_is_seen() -> None:
    """A phase that is set by hand, and a group that is half forgotten."""
    records = waiting(KEYS[0])
    records.by_key[KEYS[0]].phase = SpreadPhase.CHOSEN
    with pytest.raises(AssertionError, match="is CHOSEN, but not so by those that may move"):
        records.validate()
    records = waiting(KEYS[0])
    records.by_key[KEYS[0]].stays_because = "budget"
    with pytest.raises(AssertionError, match="is WAITING, but not so by why it stays"):
        records.validate()
    records = waiting(KEYS[0])
    records.choose(records.by_key[KEYS[0]], 1.0)
    del records.by_key[KEYS[0]]
    with pytest.raises(AssertionError, match="who is forgotten is forgotten everywhere"):
        records.validate()
