from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.machines.rates import TokenBucket


def test_a_burst_and_then_the_rate() -> None:
    """A full bucket gives its burst at once, and then one token whenever one came in."""
    bucket = TokenBucket(rate=0.5, burst=2)
    assert [bucket.take(100.0) for _ in range(3)] == [True, True, False]
    assert bucket.available_at(100.0) == 102.0
    assert [bucket.take(101.9), bucket.take(102.0), bucket.take(102.0)] == [False, True, False]


def test_no_more_than_the_burst_is_kept() -> None:
    """However long nothing is taken, no more than a burst is there afterwards."""
    bucket = TokenBucket(rate=10.0, burst=1)
    bucket.take(0.0)
    assert [bucket.take(3600.0), bucket.take(3600.0)] == [True, False]


def test_a_token_that_was_not_used_comes_back() -> None:
    """What was given back can be taken again at once, and never makes more than a burst."""
    bucket = TokenBucket(rate=0.1, burst=1)
    bucket.give_back()
    assert bucket.take(5.0)
    bucket.give_back()
    assert bucket.available_at(5.0) == 5.0
    assert [bucket.take(5.0), bucket.take(5.0)] == [True, False]


def test_time_goes_forward_only() -> None:
    """A clock that is set back gives nothing and takes nothing."""
    bucket = TokenBucket(rate=1.0, burst=1)
    bucket.take(10.0)
    assert not bucket.take(5.0)
    assert bucket.take(11.0)


@given(steps=st.lists(st.floats(0.0, 10.0), max_size=60), rate=st.floats(0.01, 10.0), burst=st.integers(1, 5))
def test_never_more_than_rate_and_burst_allow(steps: list[float], rate: float, burst: int) -> None:
    """In any stretch of time no more is taken than a burst and what came in meanwhile."""
    bucket, now, taken = TokenBucket(rate, burst), 0.0, 0
    for step in steps:
        now += step
        taken += bucket.take(now)
    assert taken <= burst + now * rate + 1e-6
