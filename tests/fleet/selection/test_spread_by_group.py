"""Groups of clusters are chosen as by a search of all combinations, without searching them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.fleet.selection import spread_by_group
from berth.fleet.selection.spread_by_group import SpreadGroup, best_groups


def search(groups: list[SpreadGroup], least: int, most: int, clusters: int) -> list[SpreadGroup]:
    """Every combination, smallest groups first, each until it suffices; then the best of them."""
    ordered = sorted(groups, key=lambda g: (g.clusters, -g.weight, g.name))
    found: list[list[SpreadGroup]] = []

    def explore(taken: list[SpreadGroup], begin: int) -> None:
        if sum(g.clusters for g in taken) >= clusters and least <= len(taken) <= most:
            found.append(sorted(taken, key=lambda g: (-g.weight, g.name)))
        elif len(taken) < most:
            for i in range(begin, len(ordered)):
                explore([*taken, ordered[i]], i + 1)

    explore([], 0)
    found.sort(key=lambda path: (-sum(g.weight for g in path), -sum(g.clusters for g in path)))
    best = found[0] if found else []
    for path in found:
        if len(path) < len(best) and best[: len(path)] == path:
            best = path
    return best


def names(groups: list[SpreadGroup]) -> str:
    return "".join(group.name for group in groups)


A, B, C = SpreadGroup("a", 1, 3000), SpreadGroup("b", 2, 2000), SpreadGroup("c", 3, 1000)


def test_the_heaviest_that_have_the_clusters() -> None:
    """The heaviest groups that together have enough clusters are chosen."""
    assert names(best_groups([C, B, A], 1, 1, 1)) == "a"
    assert names(best_groups([C, B, A], 1, 1, 2)) == "b"
    assert names(best_groups([C, B, A], 2, 2, 4)) == "ac"
    assert names(best_groups([C, B, A], 3, 3, 6)) == "abc"


def test_no_more_groups_than_needed() -> None:
    """No group is added once there are enough clusters."""
    assert names(best_groups([C, B, A], 1, 3, 1)) == "a"
    assert names(best_groups([C, B, A], 1, 3, 3)) == "ab"


def test_none_if_it_cannot_be_done() -> None:
    """There is no choice when groups or clusters are too few."""
    assert best_groups([], 1, 1, 1) == []
    assert best_groups([A, B], 3, 3, 1) == []
    assert best_groups([A, B], 1, 1, 3) == []
    assert best_groups([A, B], 1, 0, 1) == []


_groups = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.one_of(st.sampled_from([0, 1000, 2000, 2050, 2100]), st.integers(0, 9000)),
    ),
    min_size=1,
    max_size=7,
).map(lambda drawn: [SpreadGroup(f"r{i}", clusters, weight) for i, (clusters, weight) in enumerate(drawn)])


@given(groups=_groups, least=st.integers(0, 5), most=st.integers(0, 8), clusters=st.integers(0, 15))
def test_the_answer_is_that_of_the_search(
    groups: list[SpreadGroup], least: int, most: int, clusters: int
) -> None:
    """The choice equals that of searching all combinations."""
    assert best_groups(groups, least, most, clusters) == search(groups, least, most, clusters)


def test_many_groups_do_not_take_forever() -> None:
    """Sixty groups are chosen from without searching all combinations."""
    groups = [SpreadGroup(f"r{i}", 1 + i % 5, 1000 * (i % 7)) for i in range(60)]
    found = best_groups(groups, 20, 30, 70)
    assert 20 <= len(found) <= 30
    assert sum(group.clusters for group in found) >= 70


def test_beyond_counting_the_heaviest_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of states the heaviest groups are taken, if they have enough clusters."""
    monkeypatch.setattr(spread_by_group, "_MAX_STATES", 0)
    assert names(best_groups([C, B, A], 1, 3, 3)) == "ab"
    assert best_groups([C, B, A], 1, 2, 9) == []
