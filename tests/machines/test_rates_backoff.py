from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from berth.machines.rates import Backoff

BACKOFF = Backoff(first=1.0, longest=10.0)


def test_delays_double_up_to_the_longest() -> None:
    """Each failure doubles the delay, until it is as long as it may be."""
    assert [BACKOFF.after(failures) for failures in range(1, 7)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_nothing_failed_nothing_to_wait_for() -> None:
    """Without a failure there is no delay."""
    assert BACKOFF.after(0) == 0.0


def test_no_number_of_failures_is_too_many() -> None:
    """The delay of a failure that never ends is the longest one, not an overflow."""
    assert BACKOFF.after(100_000) == 10.0


@given(failures=st.integers(0, 100), rng=st.randoms(use_true_random=False))
def test_chance_takes_at_most_half(failures: int, rng: random.Random) -> None:
    """A jittered delay is between half of the delay and all of it."""
    whole = BACKOFF.after(failures)
    assert whole / 2 <= BACKOFF.jittered(failures, rng) <= whole
