"""Costs that rise along an order, with as few of them written as possible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.kube.objects import ObjectMeta, Pod
from berth.kube.well_known import POD_DELETION_COST
from berth.spreading.deletion_costs import OURS, is_foreign, new_costs, own_cost

NAMES = [f"p{i}" for i in range(9)]


@given(st.permutations(NAMES), st.dictionaries(st.sampled_from(NAMES), st.integers(-(2**31), 2**31 - 1)))
def test_costs_rise_along_the_order_whatever_they_were(order: list[str], current: dict[str, int]) -> None:
    """After writing, the first to go has the lowest cost, and all are 32-bit integers."""
    costs = {**current, **new_costs(order, current)}
    along = [costs[name] for name in order]
    assert along == sorted(set(along))
    assert all(-(2**31) <= cost < 2**31 for cost in along)


def test_nothing_is_written_while_the_order_holds() -> None:
    """Costs that rise already stay, whatever they are."""
    assert new_costs(["a", "b", "c"], {"a": -5, "b": 0, "c": 7}) == {}


def test_a_newcomer_gets_a_cost_between_its_neighbours() -> None:
    """One pod more is one write, not a new numbering."""
    first = new_costs(["a", "b", "c"], {})
    assert set(first) == {"a", "b", "c"}
    (written,) = new_costs(["a", "n", "b", "c"], first).items()
    assert written[0] == "n"
    assert first["a"] < written[1] < first["b"]


def test_a_pod_that_changes_its_place_is_the_only_one_written() -> None:
    """The others stay in order among themselves."""
    first = new_costs(NAMES, {})
    moved = [*NAMES[1:], NAMES[0]]
    assert set(new_costs(moved, first)) == {NAMES[0]}


def test_a_cost_of_somebody_else_is_known() -> None:
    """A cost without our mark, or with another number than our mark, is not ours."""

    def pod(**annotations: str) -> Pod:
        return Pod(metadata=ObjectMeta(name="p", annotations=annotations))

    ours = pod(**{POD_DELETION_COST: "5", OURS: "5"})
    theirs = pod(**{POD_DELETION_COST: "5"})
    changed = pod(**{POD_DELETION_COST: "9", OURS: "5"})
    assert (own_cost(ours), is_foreign(ours)) == (5, False)
    assert [is_foreign(each) for each in (theirs, changed, pod())] == [True, True, False]
