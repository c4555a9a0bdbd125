"""The checker itself: it finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import pytest

from tests.support.api.histories.linearizability import NEVER, Operation, linearizable

SET = Operation(0, 1, "", "a")


@pytest.mark.parametrize(
    "history",
    [
        [SET, Operation(2, 3, "a")],
        [Operation(0, 5, "", "a"), Operation(1, 2, "")],
        [Operation(0, 5, "", "a"), Operation(1, 2, "a")],
        [Operation(0, NEVER, "", "a", None), Operation(1, 2, ""), Operation(3, 4, "a")],
        [Operation(0, NEVER, "", "a", None), Operation(1, 2, "")],
        [SET, Operation(0, 2, "", "b", done=False)],
    ],
)
def test_possible(history: list[Operation]) -> None:
    """Histories that some order explains are taken."""
    assert linearizable(history)


@pytest.mark.parametrize(
    "history",
    [
        [SET, Operation(2, 3, "")],
        [SET, Operation(2, 3, "", "b")],
        [Operation(0, NEVER, "", "a", None), Operation(1, 2, "a"), Operation(3, 4, "")],
        [SET, Operation(2, 3, "a", "b", done=False)],
        [Operation(0, 9, "", "a"), Operation(1, 2, "a"), Operation(3, 4, "")],
    ],
)
def test_impossible(history: list[Operation]) -> None:
    """A stale read, a lost write, two winners: none of them is explained."""
    assert not linearizable(history)
