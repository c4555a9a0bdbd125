"""Groups start together or not at all, whichever API says who belongs to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.builders import make_node, make_pod
from tests.support.processes.scheduler import IS_KUBE_SCHEDULER, StartScheduler
from tests.support.worlds.cluster import ClusterWorld, zoned
from tests.system.scheduler.pod_groups import Kind, Labelled, Native, members

both_kinds = pytest.mark.parametrize("kind", [Native(), Labelled()], ids=["native", "labelled"])


@contextmanager
def scheduling(world: ClusterWorld, start: StartScheduler, kind: Kind) -> Iterator[None]:
    kind.prepare(world)
    with start():
        yield


@both_kinds
def test_a_group_that_fits_starts(world: ClusterWorld, start: StartScheduler, kind: Kind) -> None:
    """All members get a node."""
    world.nodes(*(make_node(name).capacity(cpu="2") for name in ("n1", "n2")))
    with scheduling(world, start, kind):
        kind.group(world, "train", 3)
        names = members(world, kind, "train", 3)

        assert set(world.placed(*names)) == set(names)


@both_kinds
def test_a_group_waits_for_its_members(world: ClusterWorld, start: StartScheduler, kind: Kind) -> None:
    """Two of three are no group, however much room there is."""
    world.nodes(make_node("n1"))
    with scheduling(world, start, kind):
        kind.group(world, "train", 3)
        early = members(world, kind, "train", 2)
        world.passed_over(*early)
        late = members(world, kind, "train", 1, first=2)

        assert set(world.placed(*early, *late).values()) == {"n1"}


@both_kinds
def test_a_group_that_cannot_fit_holds_nothing(
    world: ClusterWorld, start: StartScheduler, kind: Kind
) -> None:
    """No member of a group that cannot fit is placed, others use the room, and it starts later."""
    world.nodes(make_node("n1").capacity(cpu="2"))
    with scheduling(world, start, kind):
        kind.group(world, "train", 3)
        names = members(world, kind, "train", 3)
        world.passed_over(*names)
        world.pod(make_pod("single").requests(cpu="2"))
        assert world.bound("single") == "n1"
        world.nodes(make_node("n2").capacity(cpu="2"))
        world.passed_over(*names)
        world.nodes(make_node("n3").capacity(cpu="2"))

        assert sorted(world.placed(*names).values()) in (["n2", "n2", "n3"], ["n2", "n3", "n3"])


@both_kinds
def test_two_groups_do_not_block_each_other(world: ClusterWorld, start: StartScheduler, kind: Kind) -> None:
    """There is room for one of them: one starts, the other waits as a whole and follows."""
    world.nodes(make_node("n1").capacity(cpu="3"))
    with scheduling(world, start, kind):
        kind.group(world, "red", 2)
        kind.group(world, "blue", 2)
        for number in range(2):
            members(world, kind, "red", 1, first=number)
            members(world, kind, "blue", 1, first=number)
        groups = {group: [f"{group}-0", f"{group}-1"] for group in ("red", "blue")}

        def started() -> list[str]:
            return [group for group, names in groups.items() if all(map(world.node_of, names))]

        (first,) = world.until(started, "one group has started")
        (second,) = groups.keys() - {first}
        world.passed_over(*groups[second])
        for name in groups[first]:
            world.delete_pod(name)

        assert set(world.placed(*groups[second]).values()) == {"n1"}


@both_kinds
def test_a_group_that_keeps_to_itself_starts_in_one_zone(
    world: ClusterWorld, start: StartScheduler, kind: Kind
) -> None:
    """The first member must not choose a zone in which the others find no room."""
    world.nodes(zoned("n1", "a").capacity(cpu="2").labels(fast="yes"), zoned("n2", "b").capacity(cpu="3"))
    with scheduling(world, start, kind):
        kind.group(world, "train", 3)
        names = members(world, kind, "train", 3, together=True)

        assert set(world.placed(*names).values()) == {"n2"}


def test_a_group_says_whether_it_was_placed(world: ClusterWorld, start: StartScheduler) -> None:
    """Its condition says why not, and that it was once it was; a minimum that shrinks is noticed."""
    kind = Native()
    world.nodes(make_node("n1").capacity(cpu="2"))
    with scheduling(world, start, kind):
        kind.group(world, "train", 3)
        names = members(world, kind, "train", 3)
        status, reason, message = world.until(
            lambda: kind.condition(world, "train"), "the group says why not"
        )
        assert (status, reason) == ("False", "Unschedulable")
        assert IS_KUBE_SCHEDULER or message.startswith(f"pod group {world.namespace}/train needs 3 of 3 pods")
        world.nodes(make_node("n2").capacity(cpu="2"))
        world.placed(*names)

        def is_placed() -> bool:
            return (kind.condition(world, "train") or ())[:2] == ("True", "Scheduled")

        assert world.until(is_placed, "it was placed")


def test_groups_may_be_introduced_later(world: ClusterWorld, start: StartScheduler) -> None:
    """The custom resource need not be there when the scheduler starts."""
    kind = Labelled()
    world.nodes(make_node("n1").capacity(cpu="2"))
    with start():
        world.settled()
        kind.prepare(world)
        kind.group(world, "train", 3)
        names = members(world, kind, "train", 3)
        world.passed_over(*names)
        world.nodes(make_node("n2").capacity(cpu="1"))

        assert sorted(world.placed(*names).values()) == ["n1", "n1", "n2"]
