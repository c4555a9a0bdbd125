"""Memories of owners whose pods were moved: kept as long as they count, and no longer."""

from __future__ import annotations

from functools import partial

from berth.machines.rates import Backoff, ReturnMemories, ReturnMemory

HOUR = 3600.0


def memories() -> ReturnMemories[ReturnMemory]:
    return ReturnMemories(partial(ReturnMemory, Backoff(first=10.0, longest=100.0)))


def test_a_memory_is_kept_while_it_counts_however_many_there_are() -> None:
    """Ten thousand owners whose pods were moved within an hour are all remembered."""
    known = memories()
    first = known.of("first", 0.0)
    for number in range(10_000):
        known.of(str(number), 1.0)
    assert known.known("first", 2.0) is first


def test_a_memory_that_is_over_is_as_if_it_had_not_been() -> None:
    """After an hour without a move, the owner begins anew."""
    known = memories()
    first = known.of("first", 0.0)
    assert known.known("first", HOUR) is first
    assert known.known("first", HOUR + 1) is None
    assert known.of("first", HOUR + 1) is not first


def test_memories_that_are_over_are_let_go() -> None:
    """A controller that runs for months does not keep every owner it ever moved a pod of."""
    known = memories()
    for number in range(20_000):
        known.of(str(number), number * 60.0)
    assert len(known) <= 4_096 + 1
