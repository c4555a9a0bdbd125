"""Replicas are divided one by one, each to the cluster whose claim is the strongest."""

import heapq

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berth.fleet.placement.assignment import divide, last_name_first

EVEN, ODD = "a", "b"  # by their FNV-1a hashes


def one_by_one(replicas: int, weights: list[int], ranks: list[int], uid: str) -> list[int]:
    """The method as it is described, with a queue of all clusters."""
    shares = [0] * len(weights)
    if not any(weights):
        return shares
    order = [-rank for rank in ranks] if last_name_first(uid) else ranks
    queue = [(-float(weight), 0, order[i], i) for i, weight in enumerate(weights)]
    heapq.heapify(queue)
    for _ in range(replicas):
        _, seats, rank, i = heapq.heappop(queue)
        shares[i] = seats + 1
        heapq.heappush(queue, (-(weights[i] / (2 * shares[i] + 1)), shares[i], rank, i))
    return shares


def shares(replicas: int, *weights: int, uid: str = EVEN) -> list[int]:
    found: list[int] = divide(replicas, np.array(weights), np.arange(len(weights)), uid).tolist()
    return found


@pytest.mark.parametrize(
    ("replicas", "weights", "expected"),
    [
        (9, (1, 2), [3, 6]),
        (9, (1, 3), [2, 7]),
        (6, (1, 1, 1), [2, 2, 2]),
        (5, (0, 1), [0, 5]),
        (3, (0, 0), [0, 0]),
        (0, (1, 1), [0, 0]),
        (1, (1, 1_000_000), [0, 1]),
    ],
)
def test_shares_are_proportional(replicas: int, weights: tuple[int, ...], expected: list[int]) -> None:
    """Replicas are divided in proportion to the weights; a weight of zero gets none."""
    assert shares(replicas, *weights) == expected


def test_nobody_to_divide_among() -> None:
    """Dividing among no clusters yields no shares."""
    assert shares(5) == []


def test_a_tie_goes_to_who_has_fewer_then_to_the_first_name() -> None:
    """A tie goes to the cluster with fewer replicas, then to the first name."""
    # 3 / 3 and 1 / 1: the second cluster has none yet.
    assert shares(2, 3, 1) == [1, 1]
    assert shares(1, 1, 1) == [1, 0]


def test_an_odd_hash_of_the_uid_turns_the_names_around() -> None:
    """An odd hash of the UID makes the last name win a tie."""
    assert last_name_first(ODD)
    assert not last_name_first(EVEN)
    assert not last_name_first("")
    assert shares(1, 1, 1, uid=ODD) == [0, 1]


def test_names_decide_by_rank_not_by_position() -> None:
    """Ties are decided by the rank of the names, not by the position in the array."""
    ranks = np.array([2, 0, 1])
    assert divide(1, np.array([1, 1, 1]), ranks, EVEN).tolist() == [0, 1, 0]


@given(
    replicas=st.integers(0, 300),
    weights=st.lists(
        st.one_of(st.integers(0, 5), st.integers(0, 1000), st.integers(0, 2**31)), min_size=1, max_size=40
    ),
    uid=st.sampled_from([EVEN, ODD]),
    seed=st.randoms(use_true_random=False),
)
@example(replicas=3, weights=[1, 1, 1, 1, 1, 1], uid=ODD, seed=None)
@example(replicas=100, weights=[2**31, 1, 1], uid=EVEN, seed=None)
@example(replicas=1006, weights=[1_000_300, *[550] * 10], uid=EVEN, seed=None)
@example(replicas=1004, weights=[1_000_300, *[450] * 10], uid=EVEN, seed=None)
def test_the_result_is_that_of_giving_out_one_by_one(
    replicas: int, weights: list[int], uid: str, seed: object
) -> None:
    """The fast division equals giving out the replicas one by one."""
    ranks = list(range(len(weights)))
    if seed is not None:
        seed.shuffle(ranks)  # type: ignore[attr-defined]
    found = divide(replicas, np.array(weights), np.array(ranks), uid).tolist()
    assert found == one_by_one(replicas, weights, ranks, uid)
    assert sum(found) == (replicas if any(weights) else 0)


@pytest.mark.parametrize("skew", [1, 7, 50])
def test_many_replicas_over_many_clusters(skew: int) -> None:
    """Ten thousand replicas over a thousand clusters are divided as one by one."""
    weights = [1 + (i * 7919 % 1000) ** 2 // skew for i in range(1000)]
    ranks = list(range(1000))
    found = divide(10_000, np.array(weights), np.array(ranks), ODD).tolist()
    assert found == one_by_one(10_000, weights, ranks, ODD)
