"""Which cluster events help a pod that finds no room."""

import pytest

from berth.engine.state.cluster_events import (
    ClusterEvent,
    NamespaceUpdated,
    OwnersChanged,
    VolumesChanged,
)
from tests.engine.waiting_pods import BIG, small, stuck, watched, web

ELSEWHERE = [
    pytest.param(NamespaceUpdated(), id="namespace"),
    pytest.param(OwnersChanged(), id="owners"),
    pytest.param(VolumesChanged(), id="volumes"),
]


def test_images_help_nobody() -> None:
    """They are a change, since they count for scores, but no pod waits for one."""
    cluster = watched(small("a"), web("p").requests(cpu="1").on("a"))
    waiting = stuck(cluster, BIG, "NodeResourcesFit")
    change = cluster.changed(small("a").image("web:1", 1000))

    assert change is not None
    assert not waiting.is_helped_by(change)


@pytest.mark.parametrize("change", ELSEWHERE)
def test_a_pod_that_lacks_room_waits_for_nodes_and_pods_only(change: ClusterEvent) -> None:
    """Changes that give no room do not help a pod that lacks room."""
    waiting = stuck(watched(small("a"), web("p").requests(cpu="1").on("a")), BIG, "NodeResourcesFit")

    assert not waiting.is_helped_by(change)


def test_room_helps_where_it_is_enough() -> None:
    """A pod that leaves helps only if the other one fits into its place."""
    little, more = web("little").requests(cpu="500m").on("a"), web("more").requests(cpu="1").on("a")
    cluster = watched(small("a"), little, more)
    waiting = stuck(cluster, BIG, "NodeResourcesFit")

    assert not waiting.is_helped_by(cluster.pod_left(little))
    assert not waiting.is_helped_by(cluster.pod_came(little))
    assert waiting.is_helped_by(cluster.pod_left(little), cluster.pod_left(more))
