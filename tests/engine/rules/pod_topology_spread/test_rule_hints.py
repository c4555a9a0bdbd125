"""Which cluster events help a pod that spreading keeps from every node."""

from tests.engine.waiting_pods import Waiting, Watched, small, stuck, watched, web
from tests.support.builders import ZONE, make_pod


def uneven() -> tuple[Watched, Waiting]:
    """Zone a has one pod more than zone b, whose node is full of something else."""
    cluster = watched(small("a"), small("b", "b"), web("p").on("a"))
    cluster.pod_came(make_pod("x").requests(cpu="2").on("b"))
    pod = web("w").requests(cpu="1").spread(ZONE, app="web")
    return cluster, stuck(cluster, pod, "PodTopologySpread", "NodeResourcesFit")


def test_spread_waits_for_a_pod_too_many_to_leave() -> None:
    """A matching pod that leaves a full domain helps a spread pod."""
    cluster, waiting = uneven()

    assert waiting.is_helped_by(cluster.pod_left(web("p").on("a")))


def test_room_where_the_pod_may_not_be_for_other_pods_helps_nobody() -> None:
    """There was room already, but one pod too many; that one is waited for."""
    cluster, waiting = uneven()
    stranger = make_pod("y").labels(app="db").on("a")
    cluster.pod_came(stranger)

    assert not waiting.is_helped_by(cluster.pod_left(stranger))


def test_spread_does_not_wait_for_strangers() -> None:
    """Pods that the constraint does not match do not help a spread pod."""
    cluster, waiting = uneven()
    stranger = make_pod("y").labels(app="db").on("b")

    assert not waiting.is_helped_by(cluster.pod_came(stranger))
    assert not waiting.is_helped_by(cluster.pod_left(stranger))


def test_spread_waits_for_a_pod_where_there_are_fewest() -> None:
    """A matching pod helps a spread pod where it raises the minimum only."""
    cluster, waiting = uneven()

    assert not waiting.is_helped_by(cluster.pod_came(web("q").on("a")))
    assert waiting.is_helped_by(cluster.pod_came(web("r").on("b")))


def test_spread_has_done_with_a_pod_when_it_terminates() -> None:
    """That it starts to terminate helps; that it is gone in the end does not help once more."""
    cluster, waiting = uneven()
    leaving = web("p").on("a")

    assert waiting.is_helped_by(cluster.pod_left(leaving), cluster.pod_came(leaving.terminating()))
    cluster.pod_came(web("q").on("a"))
    assert not waiting.is_helped_by(cluster.pod_left(leaving.terminating()))


def test_a_zone_without_nodes_is_not_the_emptiest() -> None:
    """When the last node of a zone leaves, it no longer counts for the minimum."""
    cluster = watched(small("a"), small("b", "b"), small("c", "c").unschedulable())
    for name, node in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "b")):
        cluster.pod_came(web(name).on(node))
    waiting = stuck(cluster, web("w").spread(ZONE, app="web"), "PodTopologySpread", "NodeUnschedulable")

    assert waiting.is_helped_by(cluster.left("c"))


def test_a_node_that_moves_may_leave_no_emptier_zone_behind() -> None:
    """A node that leaves the emptiest zone helps a spread pod."""
    cluster = watched(small("a"), small("b", "b").unschedulable(), web("p").on("a"))
    waiting = stuck(cluster, web("w").spread(ZONE, app="web"), "PodTopologySpread", "NodeUnschedulable")
    irrelevant = cluster.changed(small("b", "b").unschedulable().labels(disk="ssd"))
    moved = small("b", "a").unschedulable()
    assert irrelevant is not None

    assert not waiting.is_helped_by(irrelevant)
    assert (change := cluster.changed(moved)) is not None
    assert waiting.is_helped_by(change)


def test_a_missing_domain_may_return() -> None:
    """Until there are as many zones as are asked for, the emptiest one counts as empty."""
    cluster = watched(small("a"), small("b", "b").unschedulable(), web("p").on("a"), web("q").on("b"))
    cluster.left("b")
    waiting = stuck(cluster, web("w").spread(ZONE, app="web", min_domains=2), "PodTopologySpread")

    assert waiting.is_helped_by(cluster.came(small("b", "b").unschedulable()))
