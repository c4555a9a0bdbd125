"""The engine's cluster in step with what is watched."""

import pytest

from berth.engine.placement.plan import plan_for
from berth.engine.state.options import Options
from berth.kube.defaults import created, default_node
from berth.kube.objects import Pod
from berth.kube.well_known import HOSTNAME, ZONE
from berth.machines.mirror import Mirror
from tests.support.builders import make_node, make_pod

NODES = {"a": "east", "b": "west"}


def mirror_of_two_zones() -> Mirror:
    mirror = Mirror(Options(), {})
    for name, zone in NODES.items():
        mirror.cluster.add_node(default_node(make_node(name).labels({HOSTNAME: name, ZONE: zone}).build()))
    return mirror


WEB = {"app": "web"}


def bound(name: str, node: str, labels: dict[str, str]) -> Pod:
    """A pod as API servers show it once it is bound: with the zone of its node among its labels."""
    return created(make_pod(name).labels({**labels, ZONE: NODES[node]}).on(node).build())


def assumed_and_seen(mirror: Mirror, name: str, node: str, labels: dict[str, str] = WEB) -> None:
    waiting = make_pod(name).labels(labels).build() if labels else make_pod(name).build()
    waiting = created(waiting)
    mirror.assume(waiting, mirror.cluster.class_of(waiting), node)
    mirror.changes()
    mirror.put(("default", name), bound(name, node, labels))


@pytest.mark.parametrize("labels", [WEB, {}], ids=["labels", "no-labels"])
def test_a_pod_that_is_seen_where_it_was_assumed_changes_nothing(labels: dict[str, str]) -> None:
    """Nobody who waits is woken by the labels that binding gave it, and its class stays the same."""
    mirror = mirror_of_two_zones()
    assumed_and_seen(mirror, "p", "a", labels)
    assumed_and_seen(mirror, "q", "b", labels)

    assert not mirror.changed
    assert len(mirror.cluster.classes.by_key) == 1


def test_the_labels_that_binding_gave_a_pod_count_once_a_selector_mentions_them() -> None:
    """They are remembered of every pod, although nobody had asked when it was seen."""
    mirror = mirror_of_two_zones()
    assumed_and_seen(mirror, "p", "a")
    assumed_and_seen(mirror, "q", "b")
    follower = created(make_pod("f").affinity_to({ZONE: "west"}, topology=HOSTNAME).build())

    cluster = mirror.cluster
    slot = plan_for(cluster, cluster.class_of(follower)).choose()

    assert slot is not None
    assert cluster.nodes.names[slot] == "b"
