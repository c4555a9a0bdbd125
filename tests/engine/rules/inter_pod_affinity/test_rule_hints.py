"""Which cluster events help a pod that affinity or anti-affinity keeps from every node."""

import pytest

from berth.engine.state.cluster_events import NamespaceUpdated, OwnersChanged
from tests.engine.waiting_pods import small, stuck, watched, web
from tests.support.builders import HOSTNAME, ZONE, make_pod


def test_anti_affinity_waits_for_the_last_pod_in_the_way() -> None:
    """Neither a pod that is not meant helps, nor one that leaves another of its kind behind."""
    stranger, first, second = (make_pod("x").labels(app="db").on("a"), web("p").on("a"), web("q").on("b"))
    cluster = watched(small("a"), small("b"), stranger, first, second)
    waiting = stuck(cluster, make_pod("w").anti_affinity_to(app="web", topology=ZONE), "InterPodAffinity")

    assert not waiting.is_helped_by(cluster.pod_left(stranger))
    assert not waiting.is_helped_by(cluster.pod_came(stranger))
    assert not waiting.is_helped_by(cluster.pod_left(first))
    assert waiting.is_helped_by(cluster.pod_left(second))


def test_the_anti_affinity_of_running_pods_goes_with_them() -> None:
    """A pod that leaves takes its anti-affinity with it, which helps."""
    keeper = make_pod("keeper").anti_affinity_to(app="web", topology=HOSTNAME).on("a")
    cluster = watched(small("a"), keeper)
    waiting = stuck(cluster, web("w"), "InterPodAffinity")

    assert waiting.is_helped_by(cluster.pod_left(keeper))


def test_affinity_waits_for_a_pod_that_it_means() -> None:
    """A pod with affinity is helped by a matching pod or a namespace change, by no other."""
    cluster = watched(small("a"))
    waiting = stuck(cluster, make_pod("w").affinity_to(app="web", topology=ZONE), "InterPodAffinity")

    assert not waiting.is_helped_by(cluster.pod_came(make_pod("x").labels(app="db").on("a")))
    assert waiting.is_helped_by(cluster.pod_came(web("p").on("a")))
    assert waiting.is_helped_by(NamespaceUpdated())
    assert not waiting.is_helped_by(OwnersChanged())


def test_the_first_of_a_group_waits_for_the_last_of_the_old_one() -> None:
    """Where no peer is left, a pod that is its own peer may start anew."""
    first, last = web("p").on("a"), web("q").on("a")
    cluster = watched(small("a").unschedulable(), small("b", "b"), first, last)
    waiting = stuck(
        cluster, web("w").affinity_to(app="web", topology=ZONE), "InterPodAffinity", "NodeUnschedulable"
    )

    assert not waiting.is_helped_by(cluster.pod_left(first))
    assert waiting.is_helped_by(cluster.pod_left(last))


def test_a_relabelled_node_may_be_in_a_better_domain() -> None:
    """A node helps anti-affinity by a change of its topology label only."""
    cluster = watched(small("a"), small("b"), web("p").on("a"))
    waiting = stuck(cluster, make_pod("w").anti_affinity_to(app="web", topology=ZONE), "InterPodAffinity")
    irrelevant, moved = cluster.changed(small("b").labels(disk="ssd")), small("b", "z")
    assert irrelevant is not None

    assert not waiting.is_helped_by(irrelevant)
    assert (change := cluster.changed(moved)) is not None
    assert waiting.is_helped_by(change)


@pytest.mark.parametrize(("topology", "helps"), [(HOSTNAME, False), (ZONE, True)])
def test_a_node_that_leaves_takes_its_pods_along(topology: str, helps: bool) -> None:
    """A node that leaves with its pods helps the nodes of its zone; its own domain is gone with it."""
    cluster = watched(small("a"), small("b"), web("p").on("a"))
    keeper = make_pod("keeper").anti_affinity_to(app="w", topology=HOSTNAME).on("b")
    cluster.pod_came(keeper)
    waiting = stuck(
        cluster,
        make_pod("w").labels(app="w").anti_affinity_to(app="web", topology=topology),
        "InterPodAffinity",
    )

    assert waiting.is_helped_by(cluster.left("a")) == helps


def test_a_node_may_return_with_the_pods_that_are_wanted() -> None:
    """It is cordoned and takes no pod itself, but its zone has another node."""
    cluster = watched(small("a").unschedulable(), small("b"), web("p").on("a"))
    cluster.left("a")
    waiting = stuck(cluster, make_pod("w").affinity_to(app="web", topology=ZONE), "InterPodAffinity")

    assert not waiting.is_helped_by(cluster.came(small("c").unschedulable()))
    assert waiting.is_helped_by(cluster.came(small("a").unschedulable()))
